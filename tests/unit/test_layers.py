"""The package is a stack of layers: an import may only point downwards (docs/architecture.md)."""

import ast
import graphlib
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import trt_workbench
from trt_workbench.backends.base import Backend, Session
from trt_workbench.backends.registry import backend_names
from trt_workbench.backends.state_session import StateSession

PACKAGE = Path(trt_workbench.__file__).parent
LAYERS = ("core", "model", "engine", "backends", "report", "console")
# A folder a feature, named after its command. They are above every layer, and import one another through their faces.
FEATURES = (
    "bench",
    "build_engine",
    "decide",
    "evaluate",
    "gate",
    "infer",
    "inspect",
    "llm",
    "overview",
    "profile",
    "quantize",
    "sanitize",
    "scale",
    "setup",
    "stream",
    "upgrade",
    "verify",
    "vision",
)
# Above everything.
PROGRAM = ("app", "main", "api", "api_commands")
# Where a language model comes from, which is not what executes it.
EXPORTERS = ("model/llm_known.py", "llm/graph.py", "llm/graphs.py")
RUNTIMES = ("onnxruntime", "tensorrt", "tensorrt_rtx", "torch", "transformers", "trt_workbench_native")
HEAVY = ("numpy", "cv2", "onnx", "onnxruntime", "torch", "transformers", "matplotlib", "scipy", "hotcoco")
# They name PyTorch, the package.
PACKAGES_NAMED = ("core/environment.py", "core/launcher.py", "infer/settings.py")
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


@cache
def source(module: Path) -> str:
    return (PACKAGE / module).read_text(encoding="utf-8")


@cache
def imported(module: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source(module))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{module}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def wrong_imports(module: Path, names: set[str]) -> list[str]:
    """Return imports that point upwards in the list of layers, or into another feature past its face."""
    here, wrong = module.parts[0], []
    own = sorted(name.removeprefix("trt_workbench.") for name in names if name.startswith("trt_workbench."))
    for name in own:
        there, *rest = name.split(".")
        if there in PROGRAM:
            wrong.append(name)
        elif there in LAYERS:
            if here in LAYERS and LAYERS.index(there) > LAYERS.index(here):
                wrong.append(name)
        elif there in FEATURES and there != here and (here in LAYERS or len(rest) > 1):
            wrong.append(name)
    return wrong


def test_imports_point_downwards() -> None:
    inside = [module for module in MODULES if len(module.parts) > 1]
    assert {module.parts[0] for module in inside} == {*LAYERS, *FEATURES}
    wrong = {str(module): wrong_imports(module, imported(module)) for module in inside}
    assert {module: names for module, names in wrong.items() if names} == {}


def faces(module: Path) -> dict[str, set[str]]:
    """Names that a module uses of features which it imports whole, by feature."""
    used: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(source(module))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in FEATURES:
            used.setdefault(node.value.id, set()).add(node.attr)
    whole = {name.removeprefix("trt_workbench.") for name in imported(module) if name.startswith("trt_workbench.")}
    return {feature: names for feature, names in used.items() if feature in whole}


def face(feature: str) -> set[str]:
    stub = ast.parse((PACKAGE / feature / "__init__.pyi").read_text(encoding="utf-8"))
    return {alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_of_a_whole_feature_its_face_is_used() -> None:
    used = {str(module): faces(module) for module in MODULES}
    assert used["scale/merging.py"].keys() == {"bench", "llm", "stream", "verify", "vision"}
    past = {(module, name) for module, own in used.items() for name, names in own.items() if names - face(name)}
    assert past == set()


def of_plug_ins(names: set[str]) -> set[str]:
    """Modules of plug-ins among names: packages that are called like ours, except the native core."""
    tops = {name.split(".")[0] for name in names} - {"trt_workbench", "trt_workbench_native"}
    return {name for name in tops if name.startswith("trt_workbench")}


def test_the_core_imports_no_plug_in() -> None:
    """Nor names a module of one: entry points say where its commands are."""
    assert {str(module): of_plug_ins(imported(module)) for module in MODULES if of_plug_ins(imported(module))} == {}
    packages = {path.name for path in PACKAGE.parents[1].glob("plugins/*/src/*")}
    assert packages == of_plug_ins(packages) != set()
    assert [str(module) for module in MODULES if any(name in source(module) for name in packages)] == []


def outside_types(module: Path) -> set[str]:
    """What a module imports, within functions too, but for the names of types alone."""
    tree = ast.parse(source(module))
    of_types = [one for one in ast.walk(tree) if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"]
    alone = {id(inner) for one in of_types for inner in ast.walk(one)}
    found = (one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and id(one) not in alone)
    return {f"{one.module}.{alias.name}".removeprefix("trt_workbench.") for one in found for alias in one.names}


def test_the_protocol_of_backends_needs_the_core_alone() -> None:
    """So that it is read in minutes, and a backend is added from it."""
    own = {name for name in outside_types(Path("backends/base.py")) if name.split(".")[0] in (*LAYERS, *FEATURES)}
    assert {name.split(".")[0] for name in own} == {"core"}
    assert "model.opened.Model" in outside_types(Path("backends/registry.py"))  # which checks what packages load


def test_only_the_program_is_at_the_root() -> None:
    assert {module.stem for module in MODULES if len(module.parts) == 1} == {"__init__", "__main__", *PROGRAM}


def test_features_do_not_import_one_another_in_a_circle() -> None:
    before: dict[str, set[str]] = {feature: set() for feature in FEATURES}
    for module in MODULES:
        if module.parts[0] in FEATURES:
            used = {name.split(".")[1] for name in imported(module) if name.startswith("trt_workbench.")}
            before[module.parts[0]] |= used & set(FEATURES) - {module.parts[0]}
    assert len(list(graphlib.TopologicalSorter(before).static_order())) == len(FEATURES)


def test_a_package_says_what_it_is_for_in_ten_lines() -> None:
    packages = {module.parent for module in MODULES if len(module.parts) > 1}
    lines = {
        str(package): len((ast.get_docstring(ast.parse(source(package / "__init__.py"))) or "").splitlines())
        for package in packages
    }
    assert {package: count for package, count in lines.items() if not 0 < count <= 10} == {}


def test_a_package_names_files_that_exist() -> None:
    """What goes in and comes out, as the packages say it: paths in the package itself, or in the whole of ours."""
    named = {
        (package, name)
        for package in {module.parent for module in MODULES}
        for name in re.findall(r"`([\w/]+\.py)`", source(package / "__init__.py"))
    }
    assert len(named) > 10
    assert {one for one in named if not any((PACKAGE / place / one[1]).is_file() for place in (one[0], "."))} == set()


def runtimes_imported(module: Path) -> set[str]:
    """Runtimes that a module imports and may not."""
    allowed = {"trt_workbench_native"} if module.parts[0] == "engine" else set()
    if module.as_posix() in EXPORTERS:
        allowed = {"torch", "transformers"}
    return {name.split(".")[0] for name in imported(module)} & set(RUNTIMES) - allowed


def test_only_backends_and_the_engine_import_a_runtime() -> None:
    used = {str(module): runtimes_imported(module) for module in MODULES if module.parts[0] != "backends"}
    assert {module: names for module, names in used.items() if names} == {}


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


def test_no_module_goes_by_the_name_of_a_backend() -> None:
    """What a backend can do stands in its class: a new one is a module and a line of the registry."""
    names = {str(module): names_compared(source(module)) for module in MODULES if module.parts[0] != "backends"}
    assert {module: found for module, found in names.items() if found} == {
        module: ["torch"] for module in PACKAGES_NAMED
    }


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


def test_no_module_goes_by_the_class_of_a_backend() -> None:
    """A backend of another package offers whatever ours do: by attributes and methods, not by what it derives from."""
    kinds = {str(module): kinds_asked_for(source(module)) for module in MODULES if module.parts[0] != "backends"}
    assert {module: found for module, found in kinds.items() if found} == {}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from trt_workbench.backends.ort.backend import OrtBackend\nisinstance(a, OrtBackend)", ["OrtBackend"]),
        ("from trt_workbench.backends.trt.session import TrtSession as T\nisinstance(a, (int, T))", ["T"]),
        (
            "from trt_workbench.backends.torch.backend import TorchBackend\nissubclass(type(a), TorchBackend)",
            ["TorchBackend"],
        ),
        ("getattr(self.session, 'memory_bytes', None)", ["getattr(self.session, 'memory_bytes', None)"]),
        ("hasattr(backend, 'provider')", ["hasattr(backend, 'provider')"]),
        ("from trt_workbench.backends.base import Session\nisinstance(a, Session)", []),
        ("from trt_workbench.backends.images import ImageSession\nisinstance(a, ImageSession)", []),
    ],
)
def test_a_class_would_be_found(code: str, found: list[str]) -> None:
    assert kinds_asked_for(code) == found


@pytest.mark.parametrize(
    ("module", "name", "is_wrong"),
    [
        ("backends/base.py", "backends.ort.cpu.x", False),
        ("backends/base.py", "vision.run", True),
        ("core/errors.py", "model.opened.Model", True),
        ("vision/run.py", "console.common.say", False),
        ("vision/run.py", "verify.require_verified", False),
        ("vision/run.py", "verify.gate.require_verified", True),
        ("vision/run.py", "app.app", True),
    ],
)
def test_a_wrong_import_is_found(module: str, name: str, is_wrong: bool) -> None:
    assert bool(wrong_imports(Path(module), {f"trt_workbench.{name}"})) == is_wrong


@pytest.mark.parametrize(
    ("pattern", "homes"),
    [
        (r'HasField\("g"\)|AttributeProto\.GRAPH', {"model/walking.py"}),
        (r"inline_local_functions", {"model/editing.py"}),
        (r"Popen\(", {"core/workers.py"}),
        (r"def write_report\(", {"report/reports.py"}),
    ],
)
def test_a_concept_has_one_home(pattern: str, homes: set[str]) -> None:
    """Graphs within graphs, functions written out, processes, reports."""
    found = {path.as_posix() for path in MODULES if re.search(pattern, source(path))}
    assert found == homes


def test_commands_import_nothing_heavy() -> None:
    code = f"import sys, trt_workbench.app; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
