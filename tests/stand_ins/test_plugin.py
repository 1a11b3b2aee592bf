"""Every option of `ort-trt`, given to TensorRT's plug-in in a plain ONNX Runtime, over stand-ins of what it links.

`build-ort` makes the plug-in, which takes CUDA's compiler and headers of TensorRT: TRTW_TRT_PLUGIN names its file.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tests.onnx_text import write_onnx
from tests.stand_ins.test_provider_options import PRECISIONS, SHAPES, changed_request, load, values
from tests.texts import refused

from trt_workbench.backends import tf32
from trt_workbench.backends.ort import trt
from trt_workbench.backends.ort.plugin import TENSORRT_PLUGIN, plugin_file
from trt_workbench.core.errors import UsageProblem

PLUGIN = os.environ.get("TRTW_TRT_PLUGIN", "")
pytestmark = pytest.mark.skipif(not PLUGIN, reason="$TRTW_TRT_PLUGIN does not name a plug-in")
MAJOR = Path(PLUGIN).stem.rpartition("-")[2]  # of TensorRT, as build-ort names the file
OPTIONS = {**trt.TRT_OPTIONS, **trt.PLUGIN_OPTIONS}
# Options that the plug-in reads, and then wants another one, or a newer TensorRT.
WITH = {
    "trt_dla_gpu_fallback_enable": {"trt_dla_enable": True},
    "trt_dla_enable_uint8_asymmetric_quantization": {"trt_dla_enable": True},
    "trt_dla_adjust_for_dla": {"trt_dla_enable": True},
}
CASES = [
    (name, value)
    for name, option in OPTIONS.items()
    if name not in trt.NOT_OF_PLUGIN
    for value in values(name, option)
    if (name, value) != ("trt_cuda_graph_enable", True)
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `extern/`; one, as a process registers a library once."""
    return tmp_path_factory.mktemp("root")


@pytest.fixture(autouse=True)
def _two_cards(gpus: Callable[..., None], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus("12.0", "12.0")
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.setenv("TRTW_ROOT", str(root))
    monkeypatch.delenv("TENSORRT_HOME", raising=False)
    monkeypatch.setenv(tf32.VARIABLE, "0")  # what TensorRT reads when the first test opens it
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    file = plugin_file(onnxruntime.__version__, MAJOR)
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.symlink_to(PLUGIN)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "m.onnx", "g (float[n,4,4] x) => (float[n] y) { [a] y = Det(x) }")


def test_it_is_registered_and_computes_beside_the_cpu(model: Path) -> None:
    with load("ort-trt", model) as session:
        assert session.provenance["providers"] == [TENSORRT_PLUGIN, "CPUExecutionProvider"]
        assert session.provenance["provider_is"] == "plug-in"
        assert session.provenance["tensorrt"].startswith(MAJOR)
        assert session.run({"x": 2 * np.eye(4, dtype=np.float32)[None]})["y"].tolist() == [16]


@pytest.mark.parametrize(("name", "value"), CASES, ids=str)
def test_an_option_is_taken(name: str, value: Any, model: Path) -> None:
    extra = {**(WITH.get(name, {}) if value is True else {}), name: value}
    if value in SHAPES.values():
        extra = {re.sub("min|opt|max", end, name, count=1): shape for end, shape in SHAPES.items()}
    if name in PRECISIONS and value:
        extra = {}  # from TensorRT 11 on, and in the wheel's tests: the precision of the graph
    with load("ort-trt", model, **extra) as session:
        assert session.provenance["providers"][0] == TENSORRT_PLUGIN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("trt_fp16_enable", "perhaps"),
        ("trt_max_workspace_size", "-1"),
        ("trt_preview_features", "ALIASED_PLUGIN_IO_10_03"),
        ("no_such_option", "1"),
    ],
)
def test_what_it_refuses_is_a_sentence(name: str, value: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_request("ort-trt", monkeypatch, {name: value})
    with refused(UsageProblem):
        load("ort-trt", model)
