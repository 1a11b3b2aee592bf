"""pixi.toml held to pixi's schema, to the repository, and to the rules by which pixi chooses environments.

What tasks/run does not honour, such as `depends-on` or `system-requirements`, ends `load` here as it does there.
"""

import ast
import copy
import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import jsonschema
import pytest
import rattler
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from rattler.exceptions import InvalidMatchSpecError

from taskrunner import Machine, all_tasks, lacking, load, resolve, version_tuple
from trt_workbench.app import app

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("TRTW_SHARED", ROOT.parent / "shared"))
# Where a bare `eval-coco` runs, by compute capability and the newest CUDA that the driver serves, and which of the
# environments for GPUs are made for the card. Capabilities are those of NVIDIA's list of CUDA GPUs.
CARDS = {
    "no GPU": (None, None, "default", ()),
    "GTX 1080 (Pascal)": ("6.1", "12.9", "default", ()),
    "V100": ("7.0", "12.9", "default", ()),
    "T4": ("7.5", "13.0", "gpu", ("gpu",)),
    "A100": ("8.0", "13.0", "gpu", ("gpu",)),
    "RTX 3090": ("8.6", "13.0", "gpu", ("gpu",)),
    "L4, RTX 4090": ("8.9", "13.1", "gpu", ("gpu",)),
    "H200": ("9.0", "13.0", "gpu", ("gpu", "h200")),
    "B200": ("10.0", "13.0", "gpu", ("gpu", "h200")),
    "RTX 5090": ("12.0", "13.0", "gpu", ("gpu", "h200", "rtx5090")),
    "RTX 4090, driver 570": ("8.9", "12.8", "default", ()),
    "RTX 5090, driver 570": ("12.0", "12.8", "default", ()),
}
MACHINES = {name: Machine("linux-64", "2.39", driver, arch) for name, (arch, driver, _, _) in CARDS.items()}
# Executables that tasks call and the package that brings each.
BROUGHT_BY = {
    "cmake": "cmake",
    "ctest": "cmake",
    "mypy": "mypy",
    "pytest": "pytest",
    "python": "python",
    "ruff": "ruff",
    "uv": "uv",
}
# What makes an environment gigabytes large.
HEAVY = re.compile(r"cuda|cudnn|cublas|tensorrt|nvinfer|onnxruntime-gpu|^torch")


@pytest.fixture
def manifest():
    return tomllib.loads((ROOT / "pixi.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def loaded():
    return load(ROOT)


def layers(manifest):
    """Yield every table that may hold dependencies, tasks and the like, with its name."""
    yield "default", manifest
    yield from manifest["feature"].items()


def tables(manifest, key):
    """Yield (layer, name, value) of every entry of the tables called `key`."""
    for layer, table in layers(manifest):
        for name, value in table.get(key, {}).items():
            yield layer, name, value


def undescribed_tasks(manifest):
    return [name for _, name, task in tables(manifest, "tasks") if not task.get("description", "").strip()]


def commands_without_a_task(manifest):
    tasks = {name for _, name, _ in tables(manifest, "tasks")}
    return [command.name for command in app.registered_commands if command.name not in tasks]


def undefined_environments(manifest):
    named = {task.get("default-environment", "default") for _, _, task in tables(manifest, "tasks")}
    return sorted(named - {"default", *manifest["environments"]})


def unused_features(manifest):
    used = {feature for features in manifest["environments"].values() for feature in features}
    return sorted(manifest["feature"].keys() - used)


def bad_match_specs(manifest):
    bad = []
    for _, name, spec in tables(manifest, "dependencies"):
        version = spec if isinstance(spec, str) else spec.get("version", "*")
        build = "" if isinstance(spec, str) else spec.get("build", "")
        try:
            rattler.MatchSpec(f"{name} {version} {build}".strip(), strict=True)
        except InvalidMatchSpecError:
            bad.append(name)
    return bad


def bad_requirements(manifest):
    bad = []
    for _, name, spec in tables(manifest, "pypi-dependencies"):
        table = {"version": spec} if isinstance(spec, str) else spec
        if "path" in table:
            project = ROOT / table["path"] / "pyproject.toml"
            named = tomllib.loads(project.read_text())["project"]["name"] if project.is_file() else ""
            if canonicalize_name(named) != canonicalize_name(name):
                bad.append(name)
            continue
        version = table.get("version", "*")
        try:
            Requirement(f"{name}[{','.join(table.get('extras', []))}]{'' if version == '*' else version}")
        except InvalidRequirement:
            bad.append(name)
    return bad


def foreign_indexes(manifest):
    """Return what is fetched from an index of its own: where that one is blocked, no environment can be resolved.

    So are TensorRT's libraries, for which PyPI has stubs alone; TensorRT-RTX's are on PyPI.
    """
    requirements = list(tables(manifest, "pypi-dependencies"))
    named = [name for _, name, spec in requirements if isinstance(spec, dict) and "index" in spec]
    return named + [name for _, name, _ in requirements if re.match("tensorrt(?!-rtx)", name)]


def platforms_out_of_order(manifest):
    """The first entry that fits wins and figures are floors, so the most demanding one must come first."""
    archs = [
        version_tuple(entry["cuda"]["arch"]) if "cuda" in entry else () for entry in manifest["workspace"]["platforms"]
    ]
    return [] if archs == sorted(archs, reverse=True) else archs


def packages_of(manifest, environment):
    names = set()
    for feature in ({}, *(manifest["feature"][name] for name in manifest["environments"][environment])):
        names |= {*feature.get("dependencies", {}), *feature.get("pypi-dependencies", {})}
    return names | {*manifest.get("dependencies", {}), *manifest.get("pypi-dependencies", {})}


def quarrelling_wheels(manifest):
    both = {"onnxruntime", "onnxruntime-gpu"}
    return [name for name in manifest["environments"] if both <= packages_of(manifest, name)]


def heavy_packages_without_gpu(manifest):
    return [
        package
        for environment in ("default", "dev")
        for package in packages_of(manifest, environment)
        if HEAVY.search(package)
    ]


def commands_that_do_not_exist(manifest):
    """Check every command of every task in every environment that has the task."""
    scripts = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]["scripts"]
    missing = []
    for environment, features in manifest["environments"].items():
        tasks = {**manifest.get("tasks", {})}
        for feature in features:
            tasks |= manifest["feature"][feature].get("tasks", {})
        packages = packages_of(manifest, environment)
        for task in tasks.values():
            for part in task.get("cmd", "").split("&&"):
                words = shlex.split(part)
                if words and not command_exists(words, scripts, packages):
                    missing.append(f"{environment}: {part.strip()}")
    return missing


def command_exists(words, scripts, packages):
    program = words[0]
    if program in scripts:
        subcommands = {command.name for command in app.registered_commands}
        known = program != "trtw" or len(words) == 1 or words[1] in subcommands
        return "trt-workbench" in packages and known and entry_point_exists(scripts[program])
    if "/" in program:
        return os.access(ROOT / program, os.X_OK)
    if program == "python" and words[1] != "-m" and not (ROOT / words[1]).is_file():
        return False
    return BROUGHT_BY.get(program) in packages


def entry_point_exists(entry_point):
    module, function = entry_point.split(":")
    path = ROOT / "python" / "src" / f"{module.replace('.', '/')}.py"
    if not path.is_file():
        return False
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body)


CHECKS = (
    bad_match_specs,
    bad_requirements,
    commands_that_do_not_exist,
    commands_without_a_task,
    foreign_indexes,
    heavy_packages_without_gpu,
    platforms_out_of_order,
    quarrelling_wheels,
    undefined_environments,
    undescribed_tasks,
    unused_features,
)


def schema_errors(manifest):
    path = SHARED / "schemas" / "pixi.schema.json"
    if not path.is_file():
        pytest.skip(f"pixi's schema is not there (TRTW_SHARED, or {path})")
    schema = json.loads(path.read_text(encoding="utf-8"))
    return [f"{error.json_path}: {error.message}" for error in jsonschema.Draft7Validator(schema).iter_errors(manifest)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_manifest_has_none_of(check, manifest):
    assert check(manifest) == []


def test_the_manifest_meets_pixis_schema(manifest):
    assert schema_errors(manifest) == []


def spoil(manifest, path, value):
    """Return a copy of the manifest with the entry at `path` set to `value`."""
    spoiled = copy.deepcopy(manifest)
    table = spoiled
    for key in path[:-1]:
        table = table.setdefault(key, {}) if isinstance(table, dict) else table[key]
    table[path[-1]] = value
    return spoiled


@pytest.mark.parametrize(
    ("check", "path", "value"),
    [
        (bad_match_specs, ("feature", "cuda", "dependencies", "cuda-nvcc"), "=>13"),
        (bad_requirements, ("feature", "cpu", "pypi-dependencies", "onnxruntime"), "1.31.1 or so"),
        (bad_requirements, ("feature", "base", "pypi-dependencies", "trt-workbench"), {"path": "cpp"}),
        (commands_that_do_not_exist, ("tasks", "eval-coco", "cmd"), "eval-cocoo"),
        (commands_that_do_not_exist, ("tasks", "doctor", "cmd"), "trtw surgeon"),
        (commands_that_do_not_exist, ("feature", "checking", "tasks", "lint", "cmd"), "ruff check . && tasks/absent"),
        (commands_that_do_not_exist, ("tasks", "trtw", "cmd"), "pytest"),
        (commands_without_a_task, ("feature", "llm", "tasks"), {}),
        (
            foreign_indexes,
            ("feature", "cpu", "pypi-dependencies", "x"),
            {"version": "*", "index": "https://example.org"},
        ),
        (foreign_indexes, ("feature", "ort-gpu", "pypi-dependencies", "tensorrt-cu13-libs"), "==10.16.1.11"),
        (heavy_packages_without_gpu, ("feature", "cpu", "pypi-dependencies", "torch"), "*"),
        (platforms_out_of_order, ("workspace", "platforms", 0, "cuda", "arch"), "8.0"),
        (quarrelling_wheels, ("feature", "base", "pypi-dependencies", "onnxruntime"), "*"),
        (undefined_environments, ("tasks", "trtw", "default-environment"), "absent"),
        (undescribed_tasks, ("tasks", "trtw", "description"), " "),
        (unused_features, ("feature", "forgotten"), {}),
        (schema_errors, ("tasks", "trtw", "command"), "trtw"),
        (schema_errors, ("workspace", "platforms", 0, "name"), "linux"),
    ],
)
def test_a_spoiled_manifest_is_caught(check, path, value, manifest):
    assert check(spoil(manifest, path, value)) != check(manifest)


@pytest.mark.parametrize(
    ("task", "machine", "environment"),
    [
        *(("eval-coco", card, environment) for card, (_, _, environment, _) in CARDS.items()),
        *((task, card, "gpu") for task in ("setup-tensorrt", "build-engine", "test-gpu") for card in CARDS),
        *(("build-ort", card, "gpu-trt11") for card in CARDS),
        *(("eval-llm", card, "llm") for card in CARDS),
        *(("check-target", card, "rtx") for card in CARDS),
        *(("test", card, "dev") for card in CARDS),
    ],
)
def test_where_a_bare_task_runs(task, machine, environment, loaded):
    assert resolve(loaded, task, None, MACHINES[machine]).name == environment
    assert where_pixi_runs(loaded, task, MACHINES[machine]) == environment


def where_pixi_runs(loaded, task, machine):
    """Return the environment of a bare task by pixi 0.77's rules (its task_environment.rs and run.rs).

    Where the default environment lacks the task, whether the machine can run an environment plays no part.
    """
    environments = loaded
    if found := environments["default"].tasks.get(task):
        named = environments.get(found.get("default-environment", ""))
        return named.name if named and task in named.tasks and not lacking(named, machine) else "default"
    hits = [environment for environment in environments.values() if task in environment.tasks]
    return next(hit.name for hit in hits if len(hits) == 1 or hit.tasks[task].get("default-environment") == hit.name)


@pytest.mark.parametrize("card", CARDS)
def test_a_card_can_run_the_environments_that_are_made_for_it(card, loaded):
    runnable = {name for name, environment in loaded.items() if not lacking(environment, MACHINES[card])}
    assert runnable & {"gpu", "h200", "rtx5090"} == {*CARDS[card][3]}


def test_setup_tensorrt_runs_where_it_is_asked_to(loaded):
    for name in ("gpu", "gpu-trt11", "h200", "rtx5090", "rtx5090-trt11"):
        assert resolve(loaded, "setup-tensorrt", name, MACHINES["RTX 5090"]).name == name


def test_starting_needs_no_index_but_those_of_conda_forge_and_pypi(manifest):
    """pixi resolves every environment before it runs any."""
    assert manifest["workspace"]["channels"] == ["conda-forge"]
    assert manifest["workspace"]["conda-pypi-map"] is False


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_no_bare_task_is_ambiguous_anywhere(machine, loaded):
    for task in all_tasks(loaded):
        resolve(loaded, task, None, machine)


def test_a_task_is_the_same_in_every_environment(loaded):
    for name, task in all_tasks(loaded).items():
        assert {repr(e.tasks[name]) for e in loaded.values() if name in e.tasks} == {repr(task)}


def test_every_environment_has_exactly_one_platform(loaded):
    assert {name: len(environment.platforms) for name, environment in loaded.items()} == dict.fromkeys(loaded, 1)
