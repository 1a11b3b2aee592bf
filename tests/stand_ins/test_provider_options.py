"""Every option of ONNX Runtime's GPU providers, given to the providers of its wheels, over stand-ins of what they link.

The model's only operator is one that no GPU provider has: a session holds the provider and is computed on the CPU. What
the provider took stands in the session's record, as the provider reports it.
"""

import ctypes
import dataclasses
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import json_of
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends import tf32
from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.extra_options import Option
from trt_workbench.backends.ort import trt
from trt_workbench.backends.ort.cuda import CUDA_OPTIONS
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench_rtx import backend as rtx

TABLES = {"ort-cuda": CUDA_OPTIONS, "ort-trt": trt.TRT_OPTIONS, "ort-rtx": rtx.PROVIDER_OPTIONS}
# Texts that are not the name of a file.
TEXTS = {
    "trt_op_types_to_exclude": "TopK,NonZero",
    "trt_engine_cache_path": "folder",
    "trt_timing_cache_path": "folder",
    "nv_runtime_cache_path": "folder",
    "trt_tactic_sources": "-CUBLAS,+EDGE_MASK_CONVOLUTIONS",
    "nv_weight_streaming_budget": "50%",
    "nv_op_types_to_exclude": "TopK,NonZero",
}
SHAPES = {"min": "x:1x4x4", "opt": "x:2x4x4", "max": "x:8x4x4"}
# By TRT_OPTIONS these follow from the precision.
PRECISIONS = {f"trt_{precision}_enable": precision for precision in ("fp16", "bf16", "int8")}
# Without a form in which the provider reports it: that the session is made is all there is to see.
UNREPORTED = {"enable_skip_layer_norm_strict_mode"}


@pytest.fixture(autouse=True)
def _two_cards(gpus: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus("12.0", "12.0")
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.setenv(tf32.VARIABLE, "0")  # what TensorRT reads when the first test opens it
    monkeypatch.chdir(tmp_path)  # where a provider would write by itself
    (tmp_path / "file").touch()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "m.onnx", "g (float[n,4,4] x) => (float[n] y) { [a] y = Det(x) }")


def load(backend: str, model: Path, **extra: Any) -> Session:
    precision = next(
        (PRECISIONS[name] for name, value in extra.items() if name in PRECISIONS and value is True), "fp32"
    )
    options = SessionOptions(precision=precision, extra={"allow_fallback": True, **extra})
    return get_backend(backend).load(model, options)


def values(name: str, option: Option) -> Iterator[Any]:
    """Yield both booleans, every word, the lowest and the highest number, or a text."""
    if option.kind is bool:
        yield from (True, False)
    elif option.kind is int:
        highest = 1 if name == "device_id" else option.maximum
        yield from dict.fromkeys((option.minimum, highest))
    elif option.kind is str:
        end = re.fullmatch(r"(?:trt|nv)_profile_(min|opt|max)_shapes", name)
        yield SHAPES[end[1]] if end else TEXTS.get(name, "file")
    else:
        assert isinstance(option.kind, tuple)
        yield from option.kind


CASES = [
    (backend, name, value)
    for backend in TABLES
    for name, option in TABLES[backend].items()
    for value in values(name, option)
]


@pytest.mark.parametrize("backend", TABLES)
def test_a_session_that_nothing_was_said_to_is_made_and_runs(backend: str, model: Path) -> None:
    with load(backend, model) as session:
        assert session.provenance["providers"][0] != "CPUExecutionProvider"
        assert session.run({"x": 2 * np.eye(4, dtype=np.float32)[None]})["y"].tolist() == [16]


@pytest.mark.parametrize(("backend", "name", "value"), CASES, ids=str)
def test_an_option_is_taken(backend: str, name: str, value: Any, model: Path) -> None:
    extra = {name: value}
    if value in SHAPES.values():
        extra = {re.sub("min|opt|max", end, name, count=1): shape for end, shape in SHAPES.items()}
    if name == "trt_int8_enable" and value:
        weights = {"scale": np.float32(1), "zero": np.int8(0)}
        write_onnx(model, """g (float[n,4,4] x) => (float[n] y) {
          q = QuantizeLinear(x, scale, zero) d = DequantizeLinear(q, scale, zero) [a] y = Det(d)
        }""", weights)  # fmt: skip
    if name == "trt_cuda_graph_enable" and value:
        with pytest.raises(UsageProblem, match="all the graph nodes have not been assigned to TensorrtExecution"):
            load(backend, model, **extra)  # read, as it wants more of the model
        return
    with load(backend, model, **extra) as session:
        found = session.provenance["provider_options"].get(name)
        reported = str(value) if backend == "ort-rtx" else str(int(value)) if isinstance(value, bool) else str(value)
        assert found == (None if name in UNREPORTED else reported)


@pytest.mark.parametrize("allowed", [True, False])
def test_tf32_is_taken(allowed: bool, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if allowed:
        monkeypatch.delenv(tf32.VARIABLE)
    options = SessionOptions(tf32=allowed, extra={"allow_fallback": True})
    with get_backend("ort-cuda").load(model, options) as session:
        assert session.provenance["provider_options"]["use_tf32"] == str(int(allowed))
    # for the CUDA provider that takes what TensorRT leaves
    get_backend("ort-trt").load(model, options).close()


def test_each_shape_has_a_cuda_graph_of_its_own(tmp_path: Path) -> None:
    """By the setting gpu_graph_id of a run, which ONNX Runtime would not miss."""
    model = write_onnx(tmp_path / "relu.onnx", "g (float[n,4] x) => (float[n,4] y) { y = Relu(x) }")
    graphs = ctypes.c_int.in_dll(ctypes.CDLL(None), "stand_in_graphs")
    before = graphs.value
    with load("ort-cuda", model, cuda_graph=True) as session:
        for rows in (2, 3, 2, 3, 2, 3):
            session.run({"x": np.ones((rows, 4), np.float32)})
    assert graphs.value - before == 2


@pytest.mark.parametrize(
    ("backend", "words", "taken"),
    [
        ("ort-trt", {"trt_engine_cache_enable": "false", "trt_min_subgraph_size": "3"}, ("0", "3")),
        ("ort-cuda", {"prefer_nhwc": "true", "gpu_mem_limit": "1048576"}, ("1", "1048576")),
        ("ort-rtx", {"enable_cuda_graph": "false", "nv_op_types_to_exclude": "TopK"}, ("False", "TopK")),
    ],
)
def test_a_command_gives_options_as_words(
    backend: str, words: dict[str, str], taken: tuple[str, ...], model: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", 2 * np.eye(4, dtype=np.float32)[None])
    options = [f"--option={name}={value}" for name, value in {"allow_fallback": "true", **words}.items()]
    document = json_of("infer-engine", str(model), "--backend", backend, *options, "--input", str(tmp_path / "x.npy"))
    assert tuple(document["provenance"]["provider_options"][name] for name in words) == taken


def test_the_tables_have_every_option_of_the_providers(model: Path) -> None:
    with load("ort-trt", model) as session:
        reported = session.provenance["provider_options"].keys()
    assert reported - trt.TRT_OPTIONS.keys() == trt.LEFT_OUT | {"has_user_compute_stream", "user_compute_stream"}
    header = Path(importlib.import_module(rtx.PACKAGE).__file__ or "").with_name("tensorrt_rtx_provider_options.h")
    names = re.findall(
        r'constexpr const char\* \w+ = "(\w+)";', header.read_text().split("namespace env_config_names")[0]
    )
    assert set(names) == rtx.PROVIDER_OPTIONS.keys() | rtx.LEFT_OUT


@pytest.mark.parametrize(
    ("backend", "name", "value"),
    [
        ("ort-trt", "trt_fp16_enable", "1"),
        ("ort-trt", "trt_engine_cache_path", ""),
        ("ort-trt", "trt_load_user_initializer", "True"),
        ("ort-trt", "device_id", "5"),
        ("ort-cuda", "use_tf32", "2"),
        ("ort-cuda", "cudnn_conv_algo_search", "FAST"),
        ("ort-cuda", "no_such_option", "1"),
        ("ort-cuda", "device_id", "5"),
        ("ort-rtx", "enable_cuda_graph", "2"),
        ("ort-rtx", "nv_weight_streaming_budget", "lots"),
        ("ort-rtx", "no_such_option", "1"),
    ],
)
def test_what_a_provider_refuses_is_a_sentence(
    backend: str, name: str, value: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same way, with what our own tables do not let through."""
    changed_request(backend, monkeypatch, {name: value})
    with refused(UsageProblem):
        load(backend, model)


def changed_request(backend: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]) -> None:
    """Add options of the first provider to every request of a backend, past its table."""
    kind = type(get_backend(backend))
    ours = kind.request

    def changed(*args: Any, **more: Any) -> Any:
        request = ours(*args, **more)
        (provider, given), *others = request.providers
        return dataclasses.replace(request, providers=((provider, {**given, **options}), *others))

    monkeypatch.setattr(kind, "request", changed)
