"""A batch sweep ends where throughput no longer grows. The worker is real and in this process; its clock is not."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.onnx_text import write_onnx

from trt_workbench.bench import run
from trt_workbench.bench.config import BenchConfig
from trt_workbench.bench.matrix import expand
from trt_workbench.bench.reference import ReferenceRuns
from trt_workbench.bench.worker import Worker
from trt_workbench.core.array_files import load_arrays
from trt_workbench.core.records import Record, read_records
from trt_workbench.core.workers import WorkerFailure

# By runtime: throughput of every repetition at the batches 1, 2, 4 and 8, items/s.
Rates = dict[str, list[list[float]]]
SWEEP = {"kind": "arrays", "batch": [1, 2, 4, 8], "saturation": 0.1}


class TimedWorker:
    """Has the interface of `WorkerProcess`; every repetition takes as long as the test says, in whichever process."""

    pid = os.getpid()

    def __init__(self, rates: Rates, begun: dict[str, Iterator[float]]) -> None:
        self._worker, self._all, self._begun = Worker(), rates, begun

    def send(self, request: dict[str, Any]) -> None:
        self._request = json.loads(json.dumps(request))

    def answer(self, _: float) -> dict[str, Any]:
        point = self._request["point"]
        self._items = point["work"]["batch"]
        rates = self._all[point["runtime"]][SWEEP["batch"].index(self._items)]
        self._rates = self._begun.setdefault(f"{point['work']} {point['runtime']}", iter(rates))
        return self._worker.load(self._request)

    def ask(self, request: dict[str, Any], _: float) -> dict[str, Any]:
        answer = self._worker.measure(request)
        calls = len(load_arrays(Path(request["samples"]))["latency_ms"])
        return {**answer, "wall_s": calls * self._items / next(self._rates)}


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the sweep with runtimes of these rates, and return the records."""
    write_onnx(tmp_path / "m.onnx", "g (float[batch,4] x) => (float[batch,4] y) { y = Relu(x) }")

    def bench(
        rates: Rates, unavailable: dict[str, str] | None = None, kept: Sequence[Record] = (), **changes: Any
    ) -> list[Record]:
        settings = {
            "models": {"m": {"path": str(tmp_path / "m.onnx")}},
            "runtimes": [{"backend": "ort-cuda" if name == "gpu" else "ort-cpu", "name": name} for name in rates],
            "scenarios": {"sweep": SWEEP},
            "repetitions": len(next(iter(rates.values()))[0]),
            "measure": {"warmup_ms": 0, "duration_s": 0.001, "slices": 1},
            "compare_outputs": False,
            **changes,
        }
        config = BenchConfig.model_validate(settings)
        begun: dict[str, Iterator[float]] = {}
        monkeypatch.setattr(run, "WorkerProcess", lambda *_: nullcontext(TimedWorker(rates, begun)))
        run.BenchRun(config, expand(config), tmp_path, unavailable or {}, kept).run()
        return read_records(tmp_path / "records.jsonl")

    return bench


def batches(records: list[Record], status: str = "ok", **of: str) -> list[int]:
    """The batches with this status, one for each repetition."""
    wanted = {"status": status, **of}
    return [one.batch for one in records if wanted.items() <= one.model_dump().items()]


@pytest.mark.parametrize(
    ("rates", "last"),
    [
        ([[100], [111], [123], [136]], 8),
        ([[100], [109], [500], [900]], 2),
        ([[100], [90], [500], [900]], 2),
        ([[100], [190], [195], [900]], 4),
        # the median of the repetitions decides: not one that something else slowed down, nor one that was lucky
        ([[100, 100, 100], [10, 120, 121], [150, 150, 150], [180, 180, 180]], 8),
        ([[100, 100, 100], [105, 105, 900], [150, 150, 150], [180, 180, 180]], 2),
    ],
)
def test_a_sweep_ends_at_the_first_batch_that_gains_less_than_the_share(
    measured: Any, rates: list[list[float]], last: int
) -> None:
    records = measured({"ort-cpu": rates})
    repeated = [batch for batch in (1, 2, 4, 8) for _ in rates[0]]
    assert batches(records) == [batch for batch in repeated if batch <= last]
    assert batches(records, "skipped", error="throughput no longer increased at a smaller batch") == [
        batch for batch in repeated if batch > last
    ]


def test_every_sweep_ends_by_itself(measured: Any) -> None:
    flat, growing = [[100.0], [100], [100], [100]], [[100.0], [200], [400], [800]]
    scenarios = {"sweep": SWEEP, "other": SWEEP, "whole": {**SWEEP, "saturation": None}}
    records = measured({"flat": flat, "growing": growing}, scenarios=scenarios)
    for scenario, last in (("sweep", 2), ("other", 2), ("whole", 4)):
        assert len(batches(records, scenario=scenario, runtime="flat")) == last
        assert len(batches(records, scenario=scenario, runtime="growing")) == 4


@pytest.mark.parametrize("order", [[8, 1, 4, 2], [2, 1, 8, 4]])
def test_a_list_in_any_order_is_swept_upwards(measured: Any, order: list[int]) -> None:
    flat, growing = [[100.0], [100], [100], [100]], [[100.0], [200], [400], [800]]
    records = measured({"flat": flat, "growing": growing}, scenarios={"sweep": {**SWEEP, "batch": order}})
    assert batches(records, runtime="growing") == [1, 2, 4, 8]
    assert batches(records, runtime="flat") == [1, 2]


def test_a_run_that_goes_on_knows_where_a_sweep_ended(measured: Any, tmp_path: Path) -> None:
    """The worker would have no rate to give."""
    rates = {"flat": [[100.0], [100], [], []]}
    first = [one for one in measured(rates, repetitions=1) if one.status == "ok"]
    assert batches(first) == [1, 2]
    (tmp_path / "records.jsonl").unlink()
    again = measured(rates, kept=first, repetitions=1)
    assert batches(again, "skipped") == [4, 8]
    assert len(again) == 2


class Failing:
    """A worker that cannot load."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def send(self, _: object) -> None:
        pass

    def answer(self, _: float) -> Any:
        raise WorkerFailure("It differs at token 3.", self._kind, alive=True)


@pytest.mark.parametrize(("kind", "status"), [("Disagreement", "wrong"), ("CheckFailed", "failed")])
def test_what_does_not_agree_with_pytorch_is_wrong(
    measured: Any, monkeypatch: pytest.MonkeyPatch, kind: str, status: str
) -> None:
    monkeypatch.setattr(run.BenchRun, "_begin_loading", lambda *_: Failing(kind))
    (record,) = measured({"cpu": [[100.0]]}, scenarios={"one": {"kind": "arrays"}})
    assert (record.status, record.error_kind) == (status, kind)
    assert str(record.error).startswith("It differs at token 3")


def test_what_failed_before_a_sweep_ended_is_tried_again(measured: Any, tmp_path: Path) -> None:
    first = [one for one in measured({"flat": [[100.0], [200], [200], []]}) if one.status == "ok"]
    (tmp_path / "records.jsonl").unlink()
    (tmp_path / "run.json").touch()  # all that lies in a run directory is replaced
    again = measured({"flat": [[100.0], [200], [200], []]}, kept=[one for one in first if one.batch != 2])
    assert batches(again) == [2]
    assert batches(again, "skipped") == [8]


def test_what_cannot_serve_is_written_off_and_the_others_are_measured_a_few_at_a_time(measured: Any) -> None:
    growing = [[100.0], [200], [400], [800]]
    records = measured(dict.fromkeys(("a", "gpu", "b", "c"), growing), {"ort-cuda": "no GPU"}, processes=2)
    absent = {"runtime": "gpu", "error": "no GPU", "error_kind": "ComponentMissing"}
    assert batches(records, "unavailable", **absent) == [1, 2, 4, 8]
    together: dict[str | None, set[str]] = {}
    for record in records:
        together.setdefault(record.group, set()).add(record.runtime)
    assert sorted(map(sorted, together.values())) == [["a", "b"]] * 4 + [["c"]] * 4 + [["gpu"]]


def groups(records: list[Record]) -> list[int]:
    """How many repetitions each process had."""
    return sorted(Counter(record.group for record in records).values())


@pytest.mark.parametrize(("longest_s", "of_a_process"), [(60.0, [2, 2, 2]), (0.0, [6])])
def test_every_round_has_new_processes_unless_loading_takes_long(
    measured: Any, monkeypatch: pytest.MonkeyPatch, longest_s: float, of_a_process: list[int]
) -> None:
    monkeypatch.setattr(run, "LONGEST_LOAD_S", longest_s)
    begun: list[object] = []
    begin = run.BenchRun._begin_loading
    monkeypatch.setattr(run.BenchRun, "_begin_loading", lambda *given: begun.append(given) or begin(*given))
    records = measured({"a": [[100.0] * 3], "b": [[100.0] * 3]}, scenarios={"one": {"kind": "arrays"}})
    assert groups(records) == of_a_process
    assert len(begun) == 2 * len(of_a_process)
    assert len({record.load_s for record in records}) == 2  # of the first process, which may have built an engine


@pytest.mark.parametrize(("names", "order"), [("a", "a"), ("ab", "abbaab"), ("abc", "abccbaabc")])
def test_runtimes_take_turns_slice_by_slice_and_one_alone_is_not_cut(
    measured: Any, monkeypatch: pytest.MonkeyPatch, names: str, order: str
) -> None:
    taken: list[tuple[str, float]] = []
    measure = run.BenchRun._slice

    def sliced(self: Any, one: Any, limits: Any, stack: Any) -> Any:
        taken.append((one.point.runtime, limits.duration_s))
        return measure(self, one, limits, stack)

    monkeypatch.setattr(run.BenchRun, "_slice", sliced)
    settings = {"warmup_ms": 0, "duration_s": 0.006, "slices": 3}
    rates = {name: [[100.0] * 9] for name in names}
    records = measured(rates, scenarios={"one": {"kind": "arrays"}}, measure=settings, repetitions=1)
    places = [name for name, _ in taken[: len(names)]]  # drawn with the seed
    assert "".join(name for name, _ in taken) == "".join(places[names.index(name)] for name in order)
    slices = len(order) // len(names)
    assert {limit for _, limit in taken} == {0.006 / slices}
    assert {len(record.slice_p50_ms) for record in records} == {slices}


@pytest.mark.parametrize(("most", "slices"), [(4, 4), (7, 7), (25, 10)])
def test_there_are_no_more_slices_than_samples(measured: Any, most: int, slices: int) -> None:
    settings = {"warmup_ms": 0, "duration_s": 60, "min_iterations": 1, "max_iterations": most}
    rates = {name: [[100.0] * 10] for name in "ab"}
    records = measured(rates, scenarios={"one": {"kind": "arrays"}}, measure=settings, repetitions=1)
    assert [len(record.slice_p50_ms) for record in records] == [slices, slices]
    assert [(record.latency_ms or {}).get("count") for record in records] == [most, most]


def test_a_runtime_that_crashes_within_its_slices_fails_alone_and_is_loaded_again(
    measured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It crashes in the third slice, cannot be loaded once, and recovers in a process of its own."""
    monkeypatch.setattr(run, "LONGEST_LOAD_S", 0.0)
    loads, asked, load, ask = Counter[str](), Counter[str](), Worker.load, TimedWorker.ask

    def loaded(self: Worker, request: dict[str, Any]) -> dict[str, Any]:
        name = request["point"]["runtime"]
        loads[name] += 1
        if loads["b"] == 2 and name == "b":
            raise WorkerFailure("it has no memory", "DeviceFailure", alive=True)
        return load(self, request)

    def answered(self: TimedWorker, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        name = self._request["point"]["runtime"]
        asked[name] += 1
        if name == "b" and asked["b"] == 3:
            raise WorkerFailure("it was killed", "crash", alive=False)
        return ask(self, request, limit_s)

    monkeypatch.setattr(Worker, "load", loaded)
    monkeypatch.setattr(TimedWorker, "ask", answered)
    settings = {"warmup_ms": 0, "duration_s": 0.004, "slices": 4}
    rates = {name: [[100.0] * 16] for name in "ab"}
    records = measured(rates, scenarios={"one": {"kind": "arrays"}}, measure=settings, repetitions=4)
    ended = [(one.runtime, one.status, one.error) for one in records if one.runtime == "b"]
    assert ended == [
        ("b", "failed", "it was killed"),
        ("b", "failed", "it has no memory"),
        *[("b", "ok", None)] * 2,
    ]
    assert loads == {"a": 1, "b": 3}
    assert [len(one.slice_p50_ms) for one in records if one.runtime == "a"] == [4] * 4


def test_an_engine_that_was_built_again_is_not_measured(measured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = iter("112")
    load = Worker.load

    def loaded(self: Worker, request: dict[str, Any]) -> dict[str, Any]:
        answer = load(self, request)
        return {**answer, "provenance": {**answer["provenance"], "plan_sha256": next(plans)}}

    monkeypatch.setattr(Worker, "load", loaded)
    monkeypatch.setattr(Worker, "_record", lambda _: {"plan_sha256": "1"})
    records = measured({"a": [[100.0] * 3]}, scenarios={"one": {"kind": "arrays"}})
    assert [record.status for record in records] == ["ok", "ok", "failed"]
    assert "another one" in str(records[-1].error)


def test_what_is_wrong_in_a_later_process_has_one_record_a_round(
    measured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter(["matched", "wrong"])
    said = {"reference": "ort-cpu fp32", "reason": "it differs"}
    monkeypatch.setattr(ReferenceRuns, "compare", lambda *_: {**said, "state": next(states)})
    records = measured({"a": [[100.0] * 3]}, scenarios={"one": {"kind": "arrays"}})
    assert [(record.repetition, record.status) for record in records] == [(0, "ok"), (1, "wrong"), (2, "wrong")]
