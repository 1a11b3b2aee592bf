"""The JSON Schemas of settings files: editors complete and check by them what the commands then read."""

import ast
import json
import re
import runpy
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from trt_workbench.bench.config import BenchConfig
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.workspace import embedded_model
from trt_workbench.core.yaml_settings import load_yaml_settings
from trt_workbench.gate.config import load_gate
from trt_workbench.gate.run import _require_usable
from trt_workbench_fleet.document import RunFile

ROOT = Path(__file__).parents[2]
# What tells the files apart.
KINDS = {"bench": {"runtimes"}, "run": {"shards", "folder"}, "gate": {"verify", "score", "latency"}}
_TOLD = re.compile(f"^({'|'.join(set().union(*KINDS.values()))}):", re.MULTILINE)
_HINTED = re.compile(_TOLD.pattern.replace("^", "(?:^|['\"n])"), re.MULTILINE)  # within a file of Python
PACKAGES = {"bench": "trt_workbench", "gate": "trt_workbench", "run": "trt_workbench_fleet"}
SCHEMAS = {kind: json.loads((files(PACKAGES[kind]) / f"schemas/{kind}.schema.json").read_text()) for kind in KINDS}


def _gate(file: Path) -> None:
    """Read a gate's file as `gate` does before it runs anything; the model and the baselines are not there."""
    config = load_gate(file)
    parts = {
        name: part.model_copy(update={"baseline": ROOT / "python"}) if getattr(part, "baseline", None) else part
        for name in KINDS["gate"]
        if (part := getattr(config, name))
    }
    try:
        _require_usable(config.model_copy(update={"model": embedded_model(), **parts}))
    except UsageProblem as problem:
        if str(ROOT / "python") not in str(problem):  # which is no baseline
            raise


READERS: dict[str, Callable[[Path], Any]] = {
    "gate": _gate,
    "bench": partial(load_yaml_settings, BenchConfig),
    "run": partial(load_yaml_settings, RunFile),
}


def kind_of(text: str) -> str | None:
    if not _TOLD.search(text):
        return None
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None
    if not isinstance(document, dict):
        return None
    return next((kind for kind, keys in KINDS.items() if keys & document.keys()), None)


def texts() -> Iterator[tuple[str, str]]:
    """Every YAML file, every YAML block of a page and every text of a test in the repository, with its place."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.rstrip("\0").split("\0"):
        path = ROOT / name
        if path.suffix in (".yaml", ".yml"):
            yield name, path.read_text("utf-8")
        elif path.suffix == ".md":
            for block in re.findall(r"^```yaml[^\n]*\n(.*?)^```", path.read_text("utf-8"), re.M | re.S):
                yield name, block
        elif path.suffix == ".py" and name.startswith("tests/") and _HINTED.search(path.read_text("utf-8")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
                    yield f"{name}:{node.lineno}", node.value


def refusals(kind: str, text: str) -> list[str]:
    """What the schema has against a file."""
    validator = jsonschema.Draft202012Validator(SCHEMAS[kind])
    return [one.message for one in validator.iter_errors(json.loads(json.dumps(yaml.safe_load(text))))]


def refused_by_reader(kind: str, text: str, folder: Path) -> str | None:
    (folder / "file.yaml").write_text(text, encoding="utf-8")
    try:
        READERS[kind](folder / "file.yaml")
    except WorkbenchError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def written() -> Callable[[str], str]:
    made: Callable[[str], str] = runpy.run_path(str(ROOT / "tasks" / "settings-schemas"))["schema_of"]
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_current(written: Callable[[str], str], kind: str) -> None:
    assert json.loads(written(kind)) == SCHEMAS[kind], "run tasks/settings-schemas"


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_has_its_description(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[kind])
    parts = [SCHEMAS[kind], *SCHEMAS[kind]["$defs"].values()]
    settings = [(name, one) for part in parts for name, one in part.get("properties", {}).items()]
    assert len(settings) > 25
    assert [name for name, one in settings if not one.get("description", "").strip(" .")] == []


def test_what_the_readers_take_is_valid(tmp_path: Path) -> None:
    """Of every example there is: a schema that refuses what its command takes would be worse than none."""
    seen: Counter[str] = Counter()
    for place, text in texts():
        if (kind := kind_of(text)) and refused_by_reader(kind, text, tmp_path) is None:
            seen[kind] += 1
            assert refusals(kind, text) == [], f"{place}:\n{text}"
    assert all(seen[kind] >= least for kind, least in {"bench": 12, "gate": 4, "run": 3}.items()), seen


RIGHT = {
    "gate": """\
model: m.onnx
verify: {backend: ort-cpu, quick: true}
score: {data: ., limit: 40, at_least: {AP: 0.3}, max_loss: 0.01}
latency: {backends: [ort-cpu], batch: "1,8", at_most_ms: 5}
""",
    "bench": """\
models: {one: {path: m.onnx}}
runtimes: [{backend: ort-cpu, threads: [1, 2]}]
scenarios: {sweep: {kind: arrays, batch: [1, 2], dims: {sequence: 16}}}
measure: {duration_s: 0.5}
""",
    "run": """\
name: nightly
command: eval-coco
shards: 8
folder: runs
slurm: {time: "01:00:00", memory: 32G}
kubernetes: {image: "r.example/t:1", claim: data, cpu: 4}
""",
}


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("gate", "model: m.onnx", ""),
        ("gate", "quick: true", "quik: true"),
        ("gate", "quick: true", "quick: often"),
        ("gate", "quick: true", "target: other.onnx"),  # the model is the file's
        ("gate", "limit: 40", "limit: 0"),
        ("gate", "AP: 0.3", "AP: high"),
        ("gate", "AP: 0.3", "aP: 0.3"),
        ("gate", "at_least: {AP: 0.3}, ", ""),
        ("gate", "max_loss: 0.01", "max_loss: -1"),
        ("gate", "at_most_ms: 5", "at_most_ms: 0"),
        ("gate", "at_most_ms: 5", "batch_size: 8, at_most_ms: 5"),
        ("gate", "at_most_ms: 5", "dry_run: true, at_most_ms: 5"),
        ("gate", "at_most_ms: 5", "show: true, at_most_ms: 5"),
        ("bench", "path: m.onnx", "path: 3"),
        ("bench", "path: m.onnx", "path: m.onnx, famly: yolox"),
        ("bench", "backend: ort-cpu, ", ""),
        ("bench", "threads: [1, 2]", "threads: [1, 0]"),
        ("bench", "kind: arrays", "kind: array"),
        ("bench", "sequence: 16", "sequence: []"),
        ("bench", "duration_s: 0.5", "duration_s: 0"),
        ("bench", "one: {", "'no name': {"),
        ("run", "name: nightly", "name: Nightly run"),
        ("run", "command: eval-coco", "command: decide"),
        ("run", "shards: 8", "shards: 0"),
        ("run", "folder: runs", "model_sha256: abc"),
        ("run", 'time: "01:00:00"', "time: 90"),
        ("run", "memory: 32G", "memory: 32 GB"),
        ("run", "cpu: 4", "cpu: [4]"),
        ("run", "image: ", "picture: "),
    ],
)
def test_what_is_broken_is_refused_by_both(kind: str, old: str, new: str, tmp_path: Path) -> None:
    assert refusals(kind, RIGHT[kind]) == []
    assert refused_by_reader(kind, RIGHT[kind], tmp_path) is None
    broken = RIGHT[kind].replace(old, new)
    assert broken != RIGHT[kind]
    assert refused_by_reader(kind, broken, tmp_path)
    assert refusals(kind, broken)
