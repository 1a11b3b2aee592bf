"""The package is a stack of layers: an import may only point downwards (docs/architecture.md)."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trt_workbench
from trt_workbench.backends.base import Backend, Session
from trt_workbench.backends.registry import backend_names
from trt_workbench.backends.state_session import StateSession

PACKAGE = Path(trt_workbench.__file__).parent
LAYERS = (
    "cli",
    "report",
    "decide",
    "evaluate",
    "bench",
    "profiling",
    "verify",
    "measure",
    "runs",
    "pipeline",
    "backends",
    "engine",
    "onnxtools",
    "model",
    "system",
    "core",
)
# At the root, below every layer.
LEAVES = ("errors",)
RUNTIMES = ("onnxruntime", "tensorrt", "tensorrt_rtx", "torch", "transformers", "trt_workbench_native")
HEAVY = ("numpy", "cv2", "onnx", "onnxruntime", "torch", "transformers", "matplotlib", "scipy", "hotcoco")
# They name PyTorch, the package.
PACKAGES_NAMED = ("runs/machines.py", "system/environment.py", "system/launcher.py", "pipeline/llm/export.py")
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def upward_imports(layer: str, names: set[str]) -> list[str]:
    own = [name.split(".")[1] for name in names if name.startswith("trt_workbench.")]
    known = {target for target in own if target in LAYERS}
    return sorted(target for target in known if LAYERS.index(target) < LAYERS.index(layer))


@pytest.mark.parametrize("module", [m for m in MODULES if len(m.parts) > 1], ids=str)
def test_imports_point_downwards(module: Path) -> None:
    layer = module.parts[0]
    assert layer in LAYERS
    assert upward_imports(layer, imported(PACKAGE / module)) == []


@pytest.mark.parametrize("module", [m for m in MODULES if len(m.parts) == 1], ids=str)
def test_root_modules_are_leaves(module: Path) -> None:
    assert module.stem in {"__init__", *LEAVES}
    assert not any(name.startswith("trt_workbench.") for name in imported(PACKAGE / module))


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_only_backends_and_the_engine_import_a_runtime(module: Path) -> None:
    used = {name.split(".")[0] for name in imported(PACKAGE / module)} & set(RUNTIMES)
    if module.parts[0] == "backends":
        return
    allowed = {"trt_workbench_native"} if module.parts[0] == "engine" else set()
    if module.parts[0] == "onnxtools" and module.stem.startswith("export_"):
        allowed = {"torch", "transformers"}  # where a model comes from, not what executes it
    assert used <= allowed


def names_compared(text: str) -> list[str]:
    """Names of backends that code compares with, or keeps a table of."""
    tree = ast.parse(text)
    compared: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            compared += [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            compared += node.keys
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Tuple | ast.Set | ast.List):
            compared.append(node.value)
    parts = [part for one in compared if one is not None for part in [one, *ast.iter_child_nodes(one)]]
    return sorted({part.value for part in parts if isinstance(part, ast.Constant)} & set(backend_names()))


@pytest.mark.parametrize("module", [m for m in MODULES if m.parts[0] != "backends"], ids=str)
def test_no_module_goes_by_the_name_of_a_backend(module: Path) -> None:
    """What a backend can do stands in its class: a new one is a module and a line of the registry."""
    packages = {"torch"} if module.as_posix() in PACKAGES_NAMED else set()
    assert set(names_compared((PACKAGE / module).read_text(encoding="utf-8"))) <= packages


@pytest.mark.parametrize("text", ['a == "trt"', 'a in ("torch",)', '{"ort-trt": 1}', 'A = ("x", "trt")', 'A = "trt"'])
def test_a_name_would_be_found(text: str) -> None:
    assert names_compared(text)


def kinds_asked_for(text: str) -> list[str]:
    """Concrete classes of backends and sessions that code tells objects apart by, and attributes that it looks up."""
    tree = ast.parse(text)
    homes = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trt_workbench.backends")
        for alias in node.names
    }
    found = []
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and len(call.args) > 1):
            continue
        if call.func.id in ("isinstance", "issubclass"):
            names = {one.id for one in ast.walk(call.args[1]) if isinstance(one, ast.Name)} & homes.keys()
            found += [name for name in names if is_concrete(*homes[name])]
        elif call.func.id in ("hasattr", "getattr") and re.search("backend|session", ast.unparse(call.args[0])):
            found.append(ast.unparse(call))
    return sorted(found)


def is_concrete(module: str | None, name: str) -> bool:
    kind = getattr(importlib.import_module(str(module)), name)
    is_ours = isinstance(kind, type) and issubclass(kind, Backend | Session)
    return is_ours and kind not in (Backend, Session, StateSession)  # the protocol itself


@pytest.mark.parametrize("module", [m for m in MODULES if m.parts[0] != "backends"], ids=str)
def test_no_module_goes_by_the_class_of_a_backend(module: Path) -> None:
    """A backend of another package offers whatever ours do: by attributes and methods, not by what it derives from."""
    assert kinds_asked_for((PACKAGE / module).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from trt_workbench.backends.ort_backend import OrtBackend\nisinstance(a, OrtBackend)", ["OrtBackend"]),
        ("from trt_workbench.backends.trt_session import TrtSession as T\nisinstance(a, (int, T))", ["T"]),
        ("from trt_workbench.backends.torch import TorchBackend\nissubclass(type(a), TorchBackend)", ["TorchBackend"]),
        ("getattr(self.session, 'memory_bytes', None)", ["getattr(self.session, 'memory_bytes', None)"]),
        ("hasattr(backend, 'provider')", ["hasattr(backend, 'provider')"]),
        ("from trt_workbench.backends.base import Session\nisinstance(a, Session)", []),
        ("from trt_workbench.backends.images import ImageSession\nisinstance(a, ImageSession)", []),
    ],
)
def test_a_class_would_be_found(code: str, found: list[str]) -> None:
    assert kinds_asked_for(code) == found


def test_an_upward_import_is_found() -> None:
    assert upward_imports("pipeline", {"trt_workbench.evaluate.coco", "trt_workbench.backends.base"}) == ["evaluate"]


@pytest.mark.parametrize(
    ("pattern", "homes"),
    [
        (r'HasField\("g"\)|AttributeProto\.GRAPH', {"model/walking.py"}),
        (r"inline_local_functions", {"model/editing.py"}),
        (r"Popen\(", {"core/workers.py", "system/tensorrt_wheel.py"}),  # pip, whose download is watched
        (r"def write_report\(", {"report/reports.py"}),
    ],
)
def test_a_concept_has_one_home(pattern: str, homes: set[str]) -> None:
    """Graphs within graphs, functions written out, processes, reports."""
    found = {path.as_posix() for path in MODULES if re.search(pattern, (PACKAGE / path).read_text(encoding="utf-8"))}
    assert found == homes


def test_commands_import_nothing_heavy() -> None:
    code = f"import sys, trt_workbench.cli.app; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
