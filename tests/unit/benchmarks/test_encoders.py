"""The script that measures streaming encoders: a small run whole, and that its commands are ones for a GPU, too."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.in_app import json_of, stderr_of, trtw
from tests.scripts import load_script

from trt_workbench.backends.trt.backend import split_options
from trt_workbench.bench.config import load_config
from trt_workbench.bench.matrix import expand
from trt_workbench.bench.options import session_options
from trt_workbench.engine.builder import prepare_build
from trt_workbench.engine.describe import request_document
from trt_workbench.model.opened import Model

pytest.importorskip("torch")
pytest.importorskip("safetensors")
FILE = Path(__file__).parents[3] / "tasks" / "benchmarks" / "eval-stream-h200" / "encoders.py"
SMALL = ("--sizes", "1x16", "--switch", "1x16", "--chunks", "30", "--streams", "1,3", "--seconds", "0.1")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The script, whose commands run in this process."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    module = load_script(FILE, monkeypatch)

    def run(line: list[str], **_: Any) -> Any:
        done = trtw(*line[1:])
        return SimpleNamespace(returncode=done.exit_code, stdout=done.stdout, stderr=done.stderr)

    monkeypatch.setattr(sys.modules["engines"], "subprocess", SimpleNamespace(run=run))
    yield module
    for name in ("export", "model", "engines", "encoders_report"):  # names that others may have, too
        if name not in before:
            sys.modules.pop(name, None)


def called(script: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, verb: str, *words: str) -> list[dict[str, Any]]:
    places = ["--work", str(folder / "work"), "--output", str(folder / "kept")]
    monkeypatch.setattr(sys, "argv", ["encoders.py", verb, *places, *SMALL, *words])
    script.main()
    found: list[dict[str, Any]] = script.read(folder / "kept" / "engines.jsonl")
    return found


def test_a_small_run_is_recorded_reported_and_not_done_again(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called(script, monkeypatch, tmp_path, "make")
    models = tmp_path / "work" / "models" / "1x16"
    for contract in ("contract.json", "sizes.json", "switching.json"):
        assert trtw("check-contract", models / contract, models / "1x16.onnx").exit_code == 0
    words = ("--precisions", "fp32", "--backends", "ort-cpu", "torch", "--only", "[!b]*")  # all but bench
    called(script, monkeypatch, tmp_path, "check", *words)
    found = called(script, monkeypatch, tmp_path, "measure", *words)
    assert [(one["step"], one["engine"], one["exit_code"]) for one in found] == [
        ("record", "1x16", 0),
        ("parity", "1x16.ort-cpu.fp32", 0),
        ("parity", "1x16.torch.fp32", 0),
        ("streams", "1x16.ort-cpu.fp32", 0),
        ("switch", "1x16.both.fp32", 0),
    ]
    assert str(tmp_path) not in json.dumps(found)
    text = (tmp_path / "kept" / "README.md").read_text(encoding="utf-8")
    for line in (
        "| 1x16.torch.fp32 | closed-loop | 30 | fp32 | ",
        "| 1x16.ort-cpu.fp32 | 3 | ",
        "| 1x16.both.fp32 | later | ",
        "`trtw eval-stream models/1x16/1x16.onnx --contract models/1x16/contract.json ",
    ):
        assert line in text
    sources = {one["document"]["source"] for one in found}
    assert {f"env-{source}.json" for source in sources} == {path.name for path in (tmp_path / "kept").glob("env*")}
    for verb in ("check", "measure"):
        assert called(script, monkeypatch, tmp_path, verb, *words) == found


def test_the_engines_that_are_built_are_those_that_are_measured(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU's commands: words are known, plans are where later steps look, bench finds its engines in the cache."""
    called(script, monkeypatch, tmp_path, "make")
    asked: list[list[str]] = []

    monkeypatch.setattr(script.Work, "step", lambda *given: asked.append(list(map(str, given[-1]))))
    called(script, monkeypatch, tmp_path, "build")
    builds = list(asked)
    plans = {words[words.index("-o") + 1] for words in builds}
    assert len(plans) == len(builds) == 12  # six forms in two precisions
    built = []
    for words in builds:
        built.append((Path(words[1]), json_of(*words, "--dry-run")["options"]))
    called(script, monkeypatch, tmp_path, "check")
    called(script, monkeypatch, tmp_path, "measure")
    targets = {words[1] for words in asked[len(builds) :] if words[1].endswith(".plan")}
    assert {Path(plan).name.split(".")[1] for plan in plans - targets} == {"b8"}  # bench takes it from the cache
    for words in asked[len(builds) :]:
        if words[1] in targets:
            said = stderr_of(*words)
            assert "does not exist" in said, said
    benches = [words for words in asked if words[0] == "bench"]
    assert len(benches) == 3
    for words in benches:
        for point in expand(load_config(Path(words[1]))):
            if point.backend == "trt":
                model = tmp_path / "work" / "models" / "1x16" / "1x16.onnx"
                contract = model.with_name("contract.json")
                options = session_options(point, model, {}, contract)
                settings = split_options(options)[1]
                if not settings.profiles:  # as the backend does
                    settings = settings.model_copy(update={"profiles": (options.shapes,)})
                assert (model, request_document(prepare_build(Model.open(model), settings))["options"]) in built


@pytest.mark.usefixtures("script")
def test_points_of_a_bench_are_medians_of_what_was_stable(tmp_path: Path) -> None:
    def record(runtime: str, p50: float, *unstable: str, status: str = "ok") -> dict[str, Any]:
        fine = status == "ok"
        return {
            "batch": 1, "runtime": runtime, "status": status, "error": None if fine else "no memory",
            "unstable": list(unstable), "latency_ms": {"p50": p50, "p99": 2 * p50}, "first_run_ms": 9.0,
            "split_ms": {"compute_ms": p50 / 2}, "outputs": {"state": "matched"},
            "telemetry": {"device_memory_bytes": int(1e9 * p50)},
        }  # fmt: skip

    records = [record("trt-fp32", value) for value in (1.0, 3.0, 2.0)] + [record("trt-fp32", 50.0, "busy")]
    records += [record("ort-cuda-fp32", 4.0, "busy"), record("torch-fp32", 0.0, status="failed")]
    ours, other, failed = sys.modules["encoders_report"].points(records)
    assert (ours["p50_ms"], ours["p50_low_ms"], ours["p50_high_ms"], ours["p99_ms"]) == (2.0, 1.0, 3.0, 4.0)
    assert (ours["repetitions"], ours["unstable"], ours["device_bytes"]) == (4, 1, 3e9)
    assert ours["parts_ms"] == {"compute_ms": 1.0}
    assert (other["p50_ms"], other["unstable"]) == (4.0, 1)
    assert failed["error"] == "no memory"
    assert "p50_ms" not in failed
    bench = {"step": "bench", "wall_s": 1.0, "exit_code": 0, "command": "bench x"}
    named = {"x.b1": [ours, other, failed], "x.batches": [ours]}
    said = ["Unstable: 2.", "x."]
    made = [{**bench, "engine": name, "document": {"points": one, "summary": said}} for name, one in named.items()]
    (tmp_path / "note.md").write_text("Beside builds.\n", encoding="utf-8")
    sys.modules["encoders_report"].report(tmp_path, made)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    for line in (
        "\n\nBeside builds.\n\n## ",
        "| x, B=1 | trt-fp32 | 2.000 | 1.000 to 3.000 | 4.000 | compute 1.000 | matched | 3000 | 1 of 4 |",
        "| x, B=1 | torch-fp32 | - | - | - | no memory | - | - | - |",
        "- x, B=1: Unstable: 2. x.",
        "- x, B=1, fp32: 0.50 of the lowest other median (ort-cuda-fp32): below",
        "| x | trt-fp32 | 1 | 2.000 | 2.000 | 500 |",
    ):
        assert line in text
