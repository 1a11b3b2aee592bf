"""The measuring scripts of tasks/benchmarks/tensorrt-h200: parsing, records, verdicts, report."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[3] / "tasks" / "benchmarks" / "tensorrt-h200"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def _pair(case: str, number: int, tool: str, compute: float, rate: float) -> dict[str, Any]:
    figures = {"compute": {"median": compute}, "latency": {"median": compute + 0.02}}
    line = ["/opt/trtexec", "--loadEngine=/tmp/a.plan", "--exportTimes=/tmp/t.json"]
    return {
        "case": case,
        "pair": number,
        "tool": tool,
        "command": line,
        "summary_ms": figures,
        "throughput_qps": rate,
        "enqueue_median_ms": 0.1,
    }


def test_pairs_are_judged_by_the_median_of_ratios_within_pairs() -> None:
    from measuring.verdicts import pair_rows

    records = []
    for number, (theirs, ours) in enumerate(((0.5, 0.5), (1.0, 1.02), (0.5, 0.51))):
        records += [_pair("a", number, "trtexec", theirs, 100.0), _pair("a", number, "workbench", ours, 99.5)]
    records.append(_pair("a", 3, "trtexec", 0.1, 1.0))  # half a pair
    rows = {row[0]: row for row in pair_rows(records)}
    assert rows["a compute, ms"][1:] == ["3", "0.5000", "0.5100", "1.0200", "1.0000 to 1.0200", "**missed**"]
    assert rows["a throughput, queries/s"][-1] == "met"
    assert rows["a enqueue, ms"][-1] == "-"


def test_python_is_judged_by_its_excess_over_the_core_in_the_same_round() -> None:
    from measuring.verdicts import latency_rows

    records = [
        {"engine": "e", "round": number, "way": way, "summary_ms": {"median": value}}
        for number, core in enumerate((0.5, 0.6))
        for way, value in (("c++", core), ("python-runner", core + 0.015), ("python-session", core + 0.025))
    ]
    assert [(row[1], row[-2], row[-1]) for row in latency_rows(records)] == [
        ("python-runner", "+15.0", "met"),
        ("python-session", "+25.0", "**missed**"),
    ]


def test_accuracy_is_held_against_the_processor_run_of_the_same_detector() -> None:
    from measuring.verdicts import accuracy_rows

    def run(name: str, ap: float) -> dict[str, Any]:
        return {"run": f"d {name}", "detector": "d", "AP": ap, "AP50": 0.5, "images": 80, "images_per_s": 9.0}

    rows = accuracy_rows([run("ort-cpu", 0.3), run("trt fp32 host", 0.302), run("trt fp16 device", 0.302)])
    assert [row[-1] for row in rows] == ["-", "**missed**", "met"]


def test_images_are_judged_by_the_memory_that_they_lie_in() -> None:
    from measuring.summary import _SECTIONS
    from measuring.verdicts import image_rows

    def record(engine: str, engine_ms: float | None, **medians: float) -> dict[str, Any]:
        summary = {way: {"median": value} for way, value in medians.items()}
        alone = {} if engine_ms is None else {"engine_ms": engine_ms}
        return {"engine": engine, "size": [720, 1280], "summary_ms": summary, **alone}

    records = [
        record("a", 0.5, host=1.4, host_one_thread=2.0, device=1.0),
        record("a", 0.5, host=1.6, host_one_thread=2.0, device=1.0),  # before the way "device_page_locked"
        record("a", 0.5, host=1.6, host_one_thread=2.0, device=1.0, device_page_locked=0.8),
        record("b", None, host=3.0, device=1.0),  # before the host with one thread
    ]
    rows = image_rows(records)
    size = "1280x720"
    assert rows == [
        [f"a, {size}", "ordinary", "3", "1.000", "0.500", "2.000", "2.00", "1.600", "2.2", "1.60", "**missed**"],
        [f"a, {size}", "page-locked", "1", "0.800", "0.500", "2.000", "2.50", "1.600", "3.7", "2.00", "met"],
        [f"b, {size}", "ordinary", "1", "1.000", "-", "-", "-", "3.000", "-", "3.00", "met"],
    ]
    (head,) = (head for kind, _, head, _ in _SECTIONS if kind == "images")
    assert {len(row) for row in rows} == {len(head.split("|"))}


def test_trtexec_report_and_times_are_read() -> None:
    from measuring.trtexec import parse_report, parse_times

    text = (
        "[I] Throughput: 1989.12 qps\n"
        "[I] Latency: min = 0.5 ms, max = 1 ms, mean = 0.52 ms, median = 0.52 ms, percentile(90%) = 0.6 ms\n"
        "[I] Enqueue Time: min = 0.001 ms, max = 0.2 ms, mean = 0.003 ms, median = 0.0025 ms, percentile(90%) = 1 ms\n"
    )
    assert parse_report(text) == {"throughput_qps": 1989.12, "enqueue_median_ms": 0.0025}
    with pytest.raises(RuntimeError, match="no throughput"):
        parse_report("&&&& FAILED")
    samples = parse_times([{"h2dMs": 0.01, "computeMs": 0.5, "d2hMs": 0.01, "latencyMs": 0.52}])
    assert {name: values.tolist() for name, values in samples.items()} == {
        "h2d": [0.01],
        "compute": [0.5],
        "d2h": [0.01],
        "latency": [0.52],
    }


def test_trtexec_measures_the_same_shapes_and_streams(tmp_path: Path) -> None:
    from measuring.cases import ENGINES, PAIRS, PairCase
    from measuring.trtexec import command

    assert {case.engine for case in PAIRS.values()} <= set(ENGINES)
    line = command(tmp_path / "trtexec", tmp_path / "p", PAIRS["resnet50-b1-fp16-2-streams"], 3.0, tmp_path / "t")
    assert {"--infStreams=2", "--useCudaGraph", "--duration=3"} <= set(line)
    shaped = command(tmp_path / "trtexec", tmp_path / "p", PairCase("resnet18-dynamic-fp16"), 3.0, tmp_path / "t")
    assert "--shapes=input:1x3x224x224" in shaped
    without = command(tmp_path / "trtexec", tmp_path / "p", PAIRS["resnet50-b1-fp16-no-graph"], 3.0, tmp_path / "t")
    assert "--useCudaGraph" not in without


def test_a_finding_of_the_memory_checker_counts_in_later_calls_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from measuring import sanitizer
    from measuring.records import Budget, Recorder, read_records

    checker = tmp_path / "checker"
    checker.write_text('#!/bin/sh\nshift 4\necho "========= ERROR SUMMARY: $1 errors"\n')
    checker.chmod(0o755)
    monkeypatch.setattr(sanitizer, "_runs", lambda *_: {"engines": ["287"], "other": ["0"], "trtexec": ["11"]})
    for _ in range(2):
        recorder = Recorder(tmp_path, "sanitizer")
        assert sanitizer.run_sanitizer(recorder, tmp_path, str(checker), None, Budget(60.0)) == 1
    assert [record["clean"] for record in read_records(tmp_path, "sanitizer")] == [False, True, False]


def test_report_is_made_from_the_records_alone(tmp_path: Path) -> None:
    from measuring.records import Recorder, read_records

    recorder = Recorder(tmp_path, "pairs")
    for number in range(2):
        for tool, compute in (("trtexec", 0.5), ("workbench", 0.501)):
            samples = {"compute": np.array([compute, compute + 0.001])}
            recorder.add("pair", _pair("resnet50-b1-fp16", number, tool, compute, 1990.0), samples)
    recorder.add("sanitizer", {"run": "core", "command": "compute-sanitizer", "result": "ERROR SUMMARY: 0 errors"})
    assert [record["kind"] for record in read_records(tmp_path)] == ["pair"] * 4 + ["sanitizer"]
    with gzip.open(tmp_path / "samples.jsonl.gz", "rt", encoding="utf-8") as file:
        kept = [json.loads(line) for line in file]
    assert [line["compute_100ns"] for line in kept][:2] == [[5000, 5010], [5010, 5020]]
    done = subprocess.run(
        [sys.executable, str(FOLDER / "measure.py"), "report", "--output", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| resnet50-b1-fp16 compute, ms | 2 | 0.5000 | 0.5010 | 1.0020 |" in text
    assert "trtexec --loadEngine=a.plan\n" in text
    assert "ERROR SUMMARY: 0 errors" in text
    assert "several sessions" not in text


def test_the_report_says_which_cases_were_measured_together(tmp_path: Path) -> None:
    from measuring.summary import _sessions

    for name, cases in (("env-pairs", ["a", "b"]), ("env-pairs-2", ["c"])):
        words = ["measure.py", "pairs", "--case", *cases, "--duration-s", "2"]
        (tmp_path / f"{name}.json").write_text(json.dumps({"command_line": words}), encoding="utf-8")
    lines = _sessions(tmp_path).splitlines()
    assert lines[-2:] == ["- `env-pairs-2.json`: c", "- `env-pairs.json`: a, b"]


class Countdown:
    """A budget that is spent after so many questions."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def allows(self, _: float) -> bool:
        self.steps -= 1
        return self.steps >= 0


def test_builds_get_on_with_any_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from measuring import engines
    from measuring.cases import ENGINES
    from measuring.records import Budget, Recorder

    names = ["yolox-nano-fp32", "shapes-fp32", "yolov10m-fp32"]
    for name in names[:2]:
        (tmp_path / ENGINES[name].model).touch()

    def build(_: Any, plan: Path, __: Path, ___: str) -> None:
        plan.parent.mkdir(parents=True, exist_ok=True)
        plan.touch()

    monkeypatch.setattr(engines, "_build", build)
    recorder = Recorder(tmp_path / "out", "build")
    assert engines.build_all(recorder, tmp_path, [tmp_path], names, Budget(0.0)) == 2
    assert engines.plan_path(tmp_path, names[0]).is_file()
    assert not engines.plan_path(tmp_path, names[1]).is_file()
    assert engines.build_all(recorder, tmp_path, [tmp_path], names, Budget(0.0)) == 1  # without a model


def test_slots_go_on_run_by_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext
    from types import SimpleNamespace

    from measuring import calls
    from measuring.engines import plan_path
    from measuring.records import Recorder, read_records

    from trt_workbench.engine import native

    for name in calls.SLOT_ENGINES:
        plan_path(tmp_path, name).parent.mkdir(exist_ok=True)
        plan_path(tmp_path, name).touch()
    parts: dict[str, Any] = {
        "bench": lambda *_: SimpleNamespace(compute_ms=[0.5]),
        "Runner": lambda *_: nullcontext(),
        "RunnerOptions": SimpleNamespace,
        "BenchOptions": SimpleNamespace,
    }
    monkeypatch.setattr(native, "require", parts.__getitem__)
    monkeypatch.setattr(calls, "load", lambda _: None)
    monkeypatch.setattr(calls, "random_inputs", lambda *_: {})
    monkeypatch.setattr(calls, "_submit_rate", lambda *_: 1980.0)
    monkeypatch.setattr(calls, "_threads_rate", lambda *_: 1900.0)
    recorder = Recorder(tmp_path, "slots")
    whole = len(calls.SLOT_ENGINES) * 2 * 3  # ways and numbers of slots

    def measure(steps: int) -> int:
        return calls.run_slots(recorder, tmp_path, 1, 0.1, Countdown(steps))  # type: ignore[arg-type]

    assert measure(0) == whole
    assert measure(4) == whole - 3  # one question is about loading the engine
    assert measure(100) == 0
    made = read_records(tmp_path, "slots")
    assert len({(r["engine"], r["slots"], r["way"], r["round"]) for r in made}) == len(made) == whole
    assert {r["ratio"] for r in made} == {0.99, 0.95}


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, 0), ("1", 1), ("GPU-b", 1), ("1,0", 1), ("7", None), ("", None)]
)
def test_records_tell_the_state_of_the_gpu_that_works(
    visible: str | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from measuring import records

    names = dict.fromkeys(records._STATE)
    gpus = [{**names, "uuid": f"GPU-{letter}", "sm_clock_mhz": index} for index, letter in enumerate("abc")]
    monkeypatch.setattr("trt_workbench.core.gpu.driver_report", lambda: {"gpus": gpus})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    state = records.gpu_state()
    assert (state and state["sm_clock_mhz"]) == expected
