"""What Python asks of the native core is what the core's stub files declare; the doubles offer nothing else."""

import ast
import dataclasses
import importlib.util
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import parse_onnx

from trt_workbench.backends.images import ImageTransform
from trt_workbench.engine.builder import to_native
from trt_workbench.engine.options import BuildSettings
from trt_workbench.infer.queries import PARTS
from trt_workbench.infer.settings import MeasureSettings

ROOT = Path(__file__).parents[3]
STUBS = sorted((ROOT / "cpp" / "python" / "trt_workbench_native").glob("*.pyi"))
PACKAGE = ROOT / "python" / "src" / "trt_workbench"


def definitions() -> dict[str, ast.AST]:
    """Functions and classes of the stubs by name, members as `Class.member`."""
    found: dict[str, ast.AST] = {}
    for stub in STUBS:
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] = node
            for member in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(member, ast.FunctionDef):
                    found.setdefault(f"{node.name}.{member.name}", member)
                elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                    found[f"{node.name}.{member.target.id}"] = member
    return found


DEFINED = definitions()


def arguments(name: str) -> set[str]:
    node = DEFINED[name]
    assert isinstance(node, ast.FunctionDef)
    named = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)} - {"self"}
    if (rest := node.args.kwarg) and isinstance(rest.annotation, ast.Subscript):  # Unpack[…], of fields of a class
        named |= {key.partition(".")[2] for key in DEFINED if key.startswith(f"{ast.unparse(rest.annotation.slice)}.")}
    return named


def required() -> set[str]:
    """Every name that the package asks `native.require` for."""
    names = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if "require" in text else "")):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("native.require", "require")
                and isinstance(node.args[0], ast.Constant)
            ):
                names.add(node.args[0].value)
    return names


def test_every_required_name_is_declared() -> None:
    assert {"build_engine", "Engine", "Runner", "bench"} <= required() <= DEFINED.keys()


def test_run_and_bench_options_exist() -> None:
    assert MeasureSettings().bench_options(None).keys() <= arguments("BenchOptions.__init__")
    loading = {"allow_host_code", "device", "plugins", "weight_streaming_budget"}
    assert loading <= arguments("Engine.__init__")
    runner = {"slots", "cuda_graph", "spin", "graph_includes_transfers", "profile", "state"}
    assert runner <= arguments("RunnerOptions.__init__")
    on_the_processor_alone = {"antialias", "crop"}
    fields = {field.name for field in dataclasses.fields(ImageTransform)}
    assert fields - on_the_processor_alone == arguments("LetterboxSpec.__init__")


@pytest.mark.parametrize(
    ("owner", "members"),
    [
        ("BenchResult", [f"{part}_ms" for part in PARTS]),
        (
            "BenchResult",
            ["start_ms", "compute_start_ms", "end_ms", "host_start_ms", "stream", "wall_ms", "host_wall_ms"],
        ),
        ("BenchResult", ["throughput_qps", "warmup_queries", "graph", "graph_fallback", "__len__"]),
        ("BuildResult", ["plan", "timing_cache", "build_s", "layer_count", "skipped_tactics", "warnings"]),
        ("BuildResult", ["inputs", "outputs", "merge_timing_caches"]),
        ("Engine", ["inputs", "outputs", "tensors", "num_profiles", "device_memory_bytes", "metadata"]),
        ("EngineTensor", ["name", "is_input", "dtype", "shape", "location", "is_shape_tensor", "format", "profiles"]),
        ("EngineTensor", ["values", "aliased_input"]),
        ("Runner", ["run", "graph_status", "measure", "memory_bytes", "reset_state", "take_state", "close"]),
        ("Runner", ["submit", "input_buffer", "counters"]),
        ("Ticket", ["done", "wait", "result", "future", "__await__"]),
        ("LayerTime", ["name", "milliseconds"]),
        ("StreamPool", ["open", "close", "push", "save", "restore", "warm_up", "timing", "memory_bytes", "release"]),
    ],
)
def test_members_exist(owner: str, members: list[str]) -> None:
    assert [name for name in members if f"{owner}.{name}" not in DEFINED] == []


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Any:
    path = ROOT / "tests" / "doubles" / "trt_workbench_native" / "__init__.py"
    spec = importlib.util.spec_from_file_location("native_double", path)
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # its own parts import it
    spec.loader.exec_module(module)
    return module


def test_the_file_double_offers_nothing_that_the_core_lacks(double: Any) -> None:
    own = {"SimpleNamespace", "MAGIC", "Path", "Any", "Mapping", "Sequence"}
    public = {name for name in vars(double) if not name.startswith("_") and name[0].isalpha()}
    functions = {name for name in public - own if callable(getattr(double, name))}
    assert functions <= DEFINED.keys()
    for name in ("Engine", "Runner", "StreamPool", "StreamState"):
        members = {member for member in vars(getattr(double, name)) if not member.startswith("_")}
        assert {f"{name}.{member}" for member in members} <= DEFINED.keys()
    for name in ("StreamPool", "StreamState"):
        taken = set(inspect.signature(getattr(double, name)).parameters)
        assert taken == arguments(f"{name}.__init__")


def test_the_double_refuses_arrays_as_the_core_does(double: Any) -> None:
    """See cpp/tests/bindings for the core."""
    model = parse_onnx("agraph (float[4] x, float[4] h) => (float[4] y, float[4] n) { y = Add(x, h) n = Add(x, h) }")
    header = json.dumps({"version": "10.16.1", "profiles": []}).encode()
    plan = double.MAGIC + len(header).to_bytes(4, "little") + header + model.SerializeToString()
    options = double.RunnerOptions(cuda_graph=False, state={"n": "h"})
    runner = double.Runner(double.Engine(plan), options)
    ones = np.ones(4, np.float32)
    targets = [np.zeros(4, ">f4"), np.zeros(3, np.float32), np.zeros(4), np.zeros(8, np.float32)[::2]]
    for target in targets:
        with pytest.raises(double.UsageProblem, match="array for output 'y'"):
            runner.run({"x": ones}, out={"y": target})
    with pytest.raises(double.UsageProblem, match="does not copy"):
        runner.run({"x": ones}, out={"n": np.zeros(4, np.float32)})
    with pytest.raises(double.UsageProblem, match="foreign byte order"):
        runner.run({"x": ones.astype(">f4")})
    target = np.zeros(4, np.float32)
    assert runner.run({"x": ones}, out={"y": target})["y"] is target
    assert target.tolist() == [1] * 4  # no refused call moved the state
    runner.close()
    with pytest.raises(double.UsageProblem, match="closed"):
        runner.run({"x": ones})


def test_the_core_that_is_installed_takes_the_settings() -> None:
    core = pytest.importorskip("trt_workbench_native")
    if not hasattr(core, "BuildOptions"):
        pytest.skip("the installed core was built without TensorRT headers")
    asked = {"precision": "fp16", "profiles": ["x:1x4/2x4/8x4"], "memory_pools": {"tactic_dram": 5}, "refit": "full"}
    asked |= {"tactic_sources": ["-EDGE_MASK_CONVOLUTIONS"], "io_formats": {"x": ["linear"]}, "optimization_level": 5}
    options = to_native(BuildSettings.model_validate(asked))
    options.validate()
    assert options.profiles[0].shapes["x"] == ((1, 4), (2, 4), (8, 4))
    assert options.memory_pools == {"tactic_dram": 5 << 20}
    assert options.tactic_sources == {"edge_mask_convolutions": False}
    assert (options.fp16, options.tf32, options.refit) == (True, False, "full")
