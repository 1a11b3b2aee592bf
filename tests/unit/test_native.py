"""The compiled core as Python sees it: what holds without a GPU."""

import ast
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trt_workbench.core import errors
from trt_workbench.engine import native
from trt_workbench.engine.builder import native_values, to_native
from trt_workbench.engine.options import BuildSettings

core: ModuleType = pytest.importorskip("trt_workbench_native", reason="the native core is not installed")
needs_builder = pytest.mark.skipif(
    not hasattr(core, "build_engine"), reason="the native core was built without TensorRT headers"
)


def has_gpu() -> bool:
    return bool(hasattr(core, "cuda_status") and core.cuda_status()["ok"])


def test_build_info_tells_what_the_module_was_compiled_with() -> None:
    info = core.build_info()
    assert info.keys() == {"version", "cuda", "cuda_architectures", "tensorrt_headers", "compiler"}
    assert info["version"]
    assert info["compiler"]
    assert (info["tensorrt_headers"] is not None) == hasattr(core, "BuildOptions")


def test_every_error_is_a_native_error_of_a_known_name() -> None:
    for name in ("UsageProblem", "ComponentMissing", "DeviceFailure", "CheckFailed", "Cancelled"):
        assert issubclass(getattr(core, name), core.NativeError)
    for name in ("OutOfMemory", "DeviceLost"):
        assert issubclass(getattr(core, name), core.DeviceFailure)


def test_a_folder_without_tensorrt_is_told_and_not_raised(tmp_path: Path) -> None:
    status = core.tensorrt_status(str(tmp_path))
    assert not status["available"]
    assert status["version"] is None
    assert str(tmp_path) in status["error"]
    assert "setup-tensorrt" in status["error"]
    assert status["headers"] == core.build_info()["tensorrt_headers"]


def test_loading_from_a_folder_without_tensorrt_is_a_missing_component(tmp_path: Path) -> None:
    with pytest.raises(core.ComponentMissing, match="libnvinfer"):
        core.load_tensorrt(str(tmp_path))
    with pytest.raises(errors.ComponentMissing, match="libnvinfer"), native.translated():
        core.load_tensorrt(str(tmp_path))


@pytest.mark.skipif(not hasattr(core, "pinned_empty"), reason="the native core was built without CUDA")
@pytest.mark.parametrize(
    ("shape", "dtype"), [((-1, 3), "uint8"), ((2**40, 2**40), "uint8"), ((3,), object), ((3,), "S")]
)
def test_page_locked_arrays_that_cannot_be(shape: tuple[int, ...], dtype: Any) -> None:
    with pytest.raises(core.UsageProblem, match=r"shape|dtype"):
        core.pinned_empty(shape, dtype)


def test_the_types_name_what_there_is() -> None:
    info = core.build_info()
    if not (info["cuda_architectures"] and info["tensorrt_headers"]):
        pytest.skip("this build of the native core lacks parts")
    whole = stub("_builder") | stub("_options")
    typed = whole | stub("_runner") | stub("_streams")
    public = {name for name in dir(core) if not name.startswith("_")}
    assert public - typed.keys() == set()
    assert whole.keys() - public == set()
    for name, members in whole.items():
        found = getattr(core, name)
        if isinstance(found, type) and not issubclass(found, Exception):
            assert {member for member in dir(found) if not member.startswith("_")} == members, name


def stub(name: str) -> dict[str, set[str]]:
    """Return the public names of a stub, with the members of those that are classes."""
    tree = ast.parse((files(core) / f"{name}.pyi").read_text(encoding="utf-8"))
    named = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AnnAssign))]
    return {name_of(node): members_of(node) for node in named if not name_of(node).startswith("_")}


def name_of(node: Any) -> str:
    return str(node.target.id if isinstance(node, ast.AnnAssign) else node.name)


def members_of(node: Any) -> set[str]:
    kinds = (ast.FunctionDef, ast.AnnAssign)
    names = {name_of(part) for part in getattr(node, "body", []) if isinstance(part, kinds)}
    return {name for name in names if not name.startswith("_")}


@needs_builder
class TestOptions:
    def test_every_setting_of_the_workbench_has_its_attribute(self) -> None:
        settings = BuildSettings.model_validate({"workspace_mib": 64, "tactic_sources": ["-CUDNN"]})
        options = to_native(settings, b"cache")
        for name, value in native_values(settings, b"cache").items():
            held = getattr(options, name)
            assert (list(held) if isinstance(held, tuple) else held) == value, name
        options.validate()

    def test_containers_are_read_only_so_that_nothing_written_is_lost(self) -> None:
        options = core.BuildOptions()
        with pytest.raises(TypeError):
            options.memory_pools["workspace"] = 1
        options.memory_pools = {"workspace": 1}
        assert dict(options.memory_pools) == {"workspace": 1}
        assert options.profiles == ()

    def test_names_and_types_are_checked_when_set(self) -> None:
        options = core.BuildOptions()
        with pytest.raises(AttributeError):
            options.fp61 = True
        for name, value in (("memory_pools", {"workspace": -1}), ("optimization_level", "3"), ("timing_cache", "text")):
            with pytest.raises(TypeError):
                setattr(options, name, value)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("optimization_level", 6),
            ("exclude_lean_runtime", True),
            ("error_on_timing_cache_miss", True),
            ("memory_pools", {"wrkspace": 1}),
            ("tactic_sources", {"nonsense": True}),
            ("preview_features", {"nonsense": True}),
            ("layer_precisions", {"conv*": "float32"}),
        ],
    )
    def test_what_cannot_be_is_a_usage_problem_that_names_the_option(self, name: str, value: object) -> None:
        options = core.BuildOptions()
        setattr(options, name, value)
        with pytest.raises(core.UsageProblem, match=name):
            options.validate()

    @pytest.mark.parametrize(
        ("name", "default", "words"),
        [
            ("precision_constraints", "none", ["none", "prefer", "obey"]),
            ("hardware_compatibility", "none", ["none", "ampere_plus", "same_compute_capability"]),
            ("refit", "none", ["none", "full", "identical", "individual"]),
            ("profiling_verbosity", "layer_names_only", ["none", "layer_names_only", "detailed"]),
            ("tiling_optimization_level", None, ["none", "fast", "moderate", "full"]),
        ],
    )
    def test_a_word_is_one_of_those_that_there_are(self, name: str, default: str | None, words: list[str]) -> None:
        options = core.BuildOptions()
        assert getattr(options, name) == default
        for word in words:
            setattr(options, name, word)
            assert getattr(options, name) == word
        with pytest.raises(core.UsageProblem, match=f"{name}: 'some' .*{', '.join(words)}"):
            options.__setattr__(name, "some")
        assert getattr(options, name) == words[-1]

    def test_a_precision_that_the_version_lacks_is_an_error(self) -> None:
        known = core.option_names()["precisions"]
        for precision in ("fp16", "bf16", "int8", "fp8", "int4", "fp4"):
            options = core.BuildOptions()
            setattr(options, precision, True)
            if precision in known:
                options.validate()
            else:
                with pytest.raises(core.UsageProblem, match=precision):
                    options.validate()

    def test_bytes_survive(self) -> None:
        options = core.BuildOptions()
        assert options.timing_cache is None
        options.timing_cache = b"\x00\xff"
        assert options.timing_cache == b"\x00\xff"
        options.timing_cache = None
        assert options.timing_cache is None

    def test_layer_rules_keep_their_order(self) -> None:
        options = core.BuildOptions()
        options.layer_precisions = {"z*": "float16", "a*": "float32"}
        assert list(options.layer_precisions.items()) == [("z*", "float16"), ("a*", "float32")]

    def test_profiles(self) -> None:
        shapes = {"x": ([1, 4], (2, 4), [4, 4])}
        profile = core.Profile(shapes=shapes)
        assert dict(profile.shapes) == {"x": ((1, 4), (2, 4), (4, 4))}
        assert profile == core.Profile(shapes=shapes)
        assert profile != core.Profile()
        with pytest.raises(TypeError):
            core.Profile(shapes={"x": [1, 4]})

    def test_calibration_is_checked_with_the_options(self) -> None:
        options = core.BuildOptions()
        options.int8 = True
        options.calibration = core.Calibration()
        with pytest.raises(core.UsageProblem, match="batches"):
            options.validate()
        with pytest.raises(core.UsageProblem, match=r"algorithm: 'mean' .*entropy2, minmax"):
            core.Calibration(batches=lambda: [], algorithm="mean")
        options.calibration = None
        options.validate()


@needs_builder
class TestBuild:
    def test_the_log_level_is_one_of_tensorrts(self) -> None:
        with pytest.raises(core.UsageProblem, match="verbose"):
            core.set_log_level("loud")

    def test_a_model_is_a_path(self) -> None:
        with pytest.raises(TypeError):
            core.build_engine(3, core.BuildOptions())

    def test_options_are_checked_before_anything_is_loaded(self, tmp_path: Path) -> None:
        options = core.BuildOptions()
        options.optimization_level = 9
        with pytest.raises(core.UsageProblem, match="optimization_level"):
            core.build_engine(tmp_path / "m.onnx", options)

    @pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
    def test_without_gpu_or_tensorrt_a_build_says_which(self, tmp_path: Path) -> None:
        with pytest.raises((core.ComponentMissing, core.DeviceFailure), match=r"libnvinfer|GPU"):
            core.build_engine(tmp_path / "m.onnx", core.BuildOptions())

    def test_an_empty_home_is_a_missing_component(self, tmp_path: Path) -> None:
        # In a process of its own, as this one may hold a TensorRT already.
        script = (
            "import trt_workbench_native as core\n"
            "try:\n    core.unsupported_operators(['Relu'])\n"
            "except core.NativeError as error:\n    print(type(error).__name__, error)\n"
        )
        environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        environment["TENSORRT_HOME"] = str(tmp_path)
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        if "libnvinfer" not in done.stdout and "GPU" not in done.stdout:
            assert done.stdout == "", done.stdout  # a TensorRT of the system, on a machine with a GPU
        assert done.stderr == ""
