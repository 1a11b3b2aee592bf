"""The package is a stack of layers: an import may only point downwards (docs/architecture.md)."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import trt_workbench

PACKAGE = Path(trt_workbench.__file__).parent
LAYERS = (
    "cli",
    "report",
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
    "system",
)
# At the root, below every layer.
LEAVES = ("errors",)
RUNTIMES = ("onnxruntime", "tensorrt", "torch", "transformers", "trt_workbench_native")
HEAVY = ("numpy", "cv2", "onnx", "onnxruntime", "torch", "transformers", "matplotlib", "scipy", "hotcoco")
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


def test_an_upward_import_is_found() -> None:
    assert upward_imports("pipeline", {"trt_workbench.evaluate.coco", "trt_workbench.backends.base"}) == ["evaluate"]


def test_commands_import_nothing_heavy() -> None:
    code = f"import sys, trt_workbench.cli.app; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
