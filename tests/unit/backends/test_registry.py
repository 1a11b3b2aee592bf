import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.texts import held, refused

from trt_workbench.backends import registry
from trt_workbench.backends.base import Availability
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import ComponentMissing, UsageProblem

# DESIGN's words: the stable names.
NAMES = ("trt", "ort-trt", "ort-rtx", "ort-cuda", "ort-cpu", "torch", "torch-compile", "v2", "openai")


def only(monkeypatch: pytest.MonkeyPatch, *serving: str) -> None:
    """Let only the backends in `serving` be able to serve."""

    def answer(name: str) -> Availability:
        return Availability(ok=True) if name in serving else Availability(False, f"no {name} here.", f"get {name}.")

    monkeypatch.setattr(registry, "_asked", answer)


@pytest.mark.parametrize(
    ("name", "served", "unknown"),
    [("ort-cpu", "fp32", "fp16"), ("ort-cuda", "fp16", "bf16"), ("ort-trt", "bf16", "fp8"), ("torch", "bf16", "int8")],
)
def test_a_precision_is_refused_without_a_model(name: str, served: str, unknown: str) -> None:
    if name == "torch":
        pytest.importorskip("torch")
    backend = registry.get_backend(name)
    backend.check_precision(served)
    with refused(UsageProblem):
        backend.check_precision(unknown)


MODULE = """
from trt_workbench.backends.base import Availability, Backend

class Silent(Backend):
    name, file_kinds = "silent", (".onnx",)

    def availability(self):
        return Availability(ok=True)

    def _load(self, model, options):
        raise NotImplementedError

class Unfinished(Backend):
    name = "unfinished"
"""


def test_backends_of_other_packages_stand_after_our_own(tmp_path: Path, outside_package: Callable[..., None]) -> None:
    (tmp_path / "silent_module.py").write_text(MODULE)
    outside_package({"trt_workbench.backends": {"silent": "silent_module:Silent"}}, tmp_path)
    assert registry.backend_names() == (*NAMES, "silent")
    assert registry.require_backend("silent").name == "silent"
    with refused(UsageProblem):
        registry.get_backend("silnet")
    assert isinstance(registry.get_backend("ort-cpu"), OrtCpuBackend)


@pytest.mark.parametrize(
    ("name", "where", "why"),
    [
        ("absent", "no_such_module:Nothing", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("nothing", "silent_module:Nothing", "AttributeError.*'Nothing'"),
        ("other-class", "silent_module:Availability", "silent_module:Availability is not a usable Backend"),
        ("unfinished", "silent_module:Unfinished", "silent_module:Unfinished is not a usable Backend"),
        ("other", "silent_module:Silent", "silent_module:Silent names itself 'silent', not 'other'"),
        ("addon:ort-cpu", "silent_module:Silent", "the name ort-cpu is taken"),
    ],
)
def test_a_package_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, outside_package: Callable[..., None], name: str, where: str, why: str
) -> None:
    (tmp_path / "silent_module.py").write_text(MODULE)
    outside_package({"trt_workbench.backends": {name.removeprefix("addon:"): where}}, tmp_path)
    found = registry.availabilities()
    assert found["ort-cpu"].ok
    assert re.fullmatch(rf"Its package addon 1\.0 cannot be used here \({why}.*\); .*", found[name].reason)
    with refused(ComponentMissing):
        registry.require_backend(name)


def test_which_backends_run_plans() -> None:
    assert [name for name in ("auto", *NAMES) if registry.runs_plans(name)] == ["trt"]
    with refused(UsageProblem):
        registry.get_backend("auto")


def test_a_backend_that_cannot_serve_is_an_error_with_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    with refused(ComponentMissing):
        registry.require_backend("ort-cpu")


def test_auto_builds_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "trt", "ort-trt", "ort-cpu", "torch-compile")
    assert isinstance(registry.require_backend("auto", ".onnx"), OrtCpuBackend)


@pytest.mark.parametrize("suffix", [".onnx", ".plan"])
def test_auto_says_what_each_candidate_lacks(monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    only(monkeypatch)
    with refused(ComponentMissing):
        registry.require_backend("auto", suffix)


@pytest.mark.parametrize("suffix", [".pt", ""])
def test_auto_knows_its_kinds_of_files(suffix: str) -> None:
    with refused(UsageProblem):
        registry.require_backend("auto", suffix)


def test_auto_says_first_which_environment_is_made_for_the_gpu(
    monkeypatch: pytest.MonkeyPatch, gpus: Callable[..., None], started_by: Callable[..., None]
) -> None:
    only(monkeypatch, "ort-cuda", "ort-cpu")
    gpus("9.0", names=("NVIDIA H200",))
    started_by("pixi", "gpu", "eval-coco")
    said: list[str] = []
    assert registry.require_backend("auto", ".onnx", said.append).name == "ort-cuda"
    held(*said)


def test_a_runtime_is_imported_only_when_its_backend_is_asked() -> None:
    code = (
        "import sys\nfrom trt_workbench.backends import registry\nregistry.backend_names()\n"
        "print([m for m in ('onnxruntime', 'torch', 'trt_workbench_native', 'numpy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
