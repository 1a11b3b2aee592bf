"""Run a bench matrix: every runtime in a process of its own, repetitions interleaved, every outcome a record."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from trt_workbench.backends.measure.repetition import Slice, merged
from trt_workbench.backends.measure.stability import instabilities, noise_interval, window_drift
from trt_workbench.backends.measure.telemetry import TelemetrySampler
from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.backends.preparation import Preparation
from trt_workbench.backends.registry import get_backend, gpu_in_use
from trt_workbench.bench.builds import built_groups
from trt_workbench.bench.config import BenchConfig
from trt_workbench.bench.matrix import Point, batches, ranges, schedule, sweep_of
from trt_workbench.bench.model_files import contract_file, model_files
from trt_workbench.bench.reference import ReferenceRuns
from trt_workbench.bench.worker import TARGET
from trt_workbench.core.array_files import load_arrays
from trt_workbench.core.builds import FILE, BuildGroups
from trt_workbench.core.documents import append_lines, write_json
from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.records import Record, Status, read_records, write_samples
from trt_workbench.core.statistics.summary import percentile, summarize
from trt_workbench.core.verification import Mark
from trt_workbench.core.workers import WorkerFailure, WorkerProcess
from trt_workbench.llm import Disagreement
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.model.randomness import refuse_random
from trt_workbench.verify import BenchGate, Unverified

Progress = Callable[[int, int, str], None]
LONGEST_LOAD_S = 5.0
"""A point that loads longer is not loaded again for every round, nor are those that it takes turns with."""


@dataclass
class BenchRun:
    """A matrix being measured into a folder.

    Attributes:
        config: what was asked.
        points: the points to measure, in order.
        folder: where records.jsonl, samples/ and logs/ go.
        unavailable: why a backend cannot serve here, by name; its points become records that say so.
        kept: what an earlier run has measured; its repetitions are not measured again.
        progress: called with the measurements done, their total and what comes next.
        gate: rejects TensorRT engines that are not verified; None accepts all.
        matrix: the points of all shards, whose shapes an engine is built for; of this run where there are none.
    """

    config: BenchConfig
    points: Sequence[Point]
    folder: Path
    unavailable: dict[str, str]
    kept: Sequence[Record] = ()
    progress: Progress | None = None
    gate: BenchGate | None = None
    matrix: Sequence[Point] = ()

    def __post_init__(self) -> None:
        """Prepare the folders.

        Raises:
            UsageProblem: a model is nondeterministic, or as `model_files`.
            ComponentMissing: as `model_files`.
        """
        self._models = model_files(self.config)
        for path in self._models.values() if self.config.compare_outputs else ():
            if path.suffix == ".onnx":
                refuse_random(Model.open(path), "compared", "compare_outputs: false measures it without comparison")
        self._hashes = {name: sha256_of(path) for name, path in self._models.items()}
        self._records = self.folder / "records.jsonl"
        self._done = {(one.key, one.repetition) for one in self.kept}
        self._throughput: dict[tuple[Any, ...], dict[int, list[float]]] = {}
        for one in self.kept:
            self._count_throughput(one)
        self._finished, self._total = 0, len(self.points) * self.config.repetitions
        self._logs, self._groups, self._rounds = itertools.count(), itertools.count(), 0
        self._run = uuid.uuid4().hex[:8]  # another one when a run is resumed: its rounds are not those before
        for name in ("samples", "logs"):
            (self.folder / name).mkdir(exist_ok=True)

    def run(self) -> None:
        """Measure everything; a failure becomes a record. Raises KeyboardInterrupt when interrupted."""
        try:
            with ReferenceRuns(self.config, self._models, self.folder) as self._reference:
                self._run_all()
        finally:
            measured = read_records(self._records) if self._records.is_file() else []
            if groups := built_groups(measured):
                write_json(self.folder / FILE, BuildGroups(groups=groups))

    def _run_all(self) -> None:
        for _, group in itertools.groupby(self.points, lambda point: point.work):
            wanted = list(group)
            for point in [point for point in wanted if point.backend in self.unavailable]:
                self._write_off(point, "unavailable", self.unavailable[point.backend], "ComponentMissing")
            served = [point for point in wanted if point.backend not in self.unavailable]
            for point in [point for point in served if self._is_saturated(point)]:
                self._write_off(point, "skipped", "throughput no longer increased at a smaller batch", None)
            fresh = [point for point in served if not self._is_saturated(point)]
            for batch in batches(fresh, self.config.processes):
                self._measure_together(batch)

    def _measure_together(self, points: Sequence[Point]) -> None:
        rounds = schedule(points, self.config.repetitions, self.config.seed, self._rounds)
        self._rounds += self.config.repetitions
        order = [one for one in rounds if (one[0].key, one[1]) not in self._done]
        self._finished += len(points) * self.config.repetitions - len(order)
        self._group = f"{self._run}-{next(self._groups)}"
        with contextlib.ExitStack() as stack:
            loaded = self._load_all([one for one in points if any(one is point for point, _ in order)], stack)
            if forgotten := self._forget_other_engines(loaded.values()):
                self._finished -= forgotten
                order = [one for one in rounds if (one[0].key, one[1]) not in self._done]
            fresh = all(one.facts["load_s"] <= LONGEST_LOAD_S for one in loaded.values())
            for number, (repetition, members) in enumerate(itertools.groupby(order, lambda one: one[1])):
                if number and fresh:
                    self._end_processes(loaded.values(), stack)
                right = [loaded[point.key] for point, _ in members if point.key in loaded]
                self._round([one for one in right if not one.is_wrong], repetition, stack)

    def _end_processes(self, loaded: Iterable[_Loaded], stack: contextlib.ExitStack) -> None:
        """Let every point begin the next round in a new process, whose luck is another, such as where its memory is."""
        stack.close()
        for one in loaded:
            one.alive = False
        self._group = f"{self._run}-{next(self._groups)}"

    def _forget_other_engines(self, loaded: Iterable[_Loaded]) -> int:
        """Drop what the earlier run measured on other engines of these points, and return how many records it was.

        An engine that is no longer in the cache is built again, and is another one.
        """
        now = {one.point.key: one.facts["provenance"].get("plan_sha256") for one in loaded}
        other = [one for one in self.kept if one.key in now and one.provenance.get("plan_sha256") != now[one.key]]
        if other:
            dropped = {(one.key, one.repetition) for one in other}
            self._done -= dropped
            rest = [one for one in read_records(self._records) if (one.key, one.repetition) not in dropped]
            self._records.unlink()
            if rest:
                append_lines(self._records, rest)
        return len(other)

    def _load_all(self, points: Sequence[Point], stack: contextlib.ExitStack) -> dict[str, _Loaded]:
        """Return those that could be loaded, by key; the others become failed records."""
        alone = self.config.loading == "apart"
        together = [one for one in points if not (alone or get_backend(one.backend).times_kernels)]
        loaded = {}
        for batch in [*([one] for one in points if one not in together), together]:
            begun = [(point, self._begin_loading(point, stack)) for point in batch]
            for point, worker in begun:
                self._say(f"loading {point.label}")
                try:
                    loaded[point.key] = _Loaded(point, worker, worker.answer(self.config.timeout_s))
                except WorkerFailure as failure:
                    status, error = _outcome(failure)
                    self._write_off(point, status, error, failure.kind)
        return self._verified(loaded)

    def _verified(self, loaded: dict[str, _Loaded]) -> dict[str, _Loaded]:
        """Return those that the gate accepts, by key, with its mark; the others become records that say so."""
        plans = {key for key, one in loaded.items() if get_backend(one.point.backend).plans}
        if self.gate is None or not plans:
            return loaded
        passed = {}
        with self.gate.opened(self.folder / "logs" / "verify.log", self.config.timeout_s) as check:
            for key, one in loaded.items():
                point, facts = one.point, one.facts
                if key in plans:
                    self._say(f"verifying {point.label}")
                    device = int(point.options.get("device", 0))
                    try:
                        model = self._models[point.source]
                        one.verification = check(facts["provenance"], model, facts["shapes"], device)
                    except CheckFailed as error:
                        status: Status = "failed" if isinstance(error, Unverified) else "wrong"
                        self._write_off(point, status, str(error), type(error).__name__)
                        continue
                passed[key] = one
        return passed

    def _begin_loading(self, point: Point, stack: contextlib.ExitStack) -> WorkerProcess:
        worker = stack.enter_context(WorkerProcess(self.folder / "logs" / f"worker-{next(self._logs):03d}.log", TARGET))
        entry = self.config.models[point.work.model]
        contract = contract_file(entry)
        request = {
            "verb": "load",
            "point": asdict(point),
            "model": str(self._models[point.source]),
            "preparation": vars(Preparation.of(entry)),
            "graphs": entry.graphs and str(entry.graphs),
            "contract": contract and str(contract),
            "ranges": ranges(self.matrix or self.points, point.work),
            "seed": self.config.seed,
        }
        worker.send(request)
        return worker

    def _round(self, members: Sequence[_Loaded], repetition: int, stack: contextlib.ExitStack) -> None:
        """Measure one repetition of every member, slice by slice in turns, every other time in reverse."""
        parts: dict[str, list[Slice]] = {one.point.key: [] for one in members}
        measure = self.config.measure
        slices = min(measure.slices, measure.max_iterations) if len(members) > 1 else 1
        for number in range(slices):
            for one in members[::-1] if number % 2 else members:
                if one.point.key not in parts:
                    continue
                self._say(one.point.label)
                before = parts[one.point.key]
                limits = measure.slice_limits(number, slices, before[-1].p50_ms[0] if before else None)
                try:
                    before.append(self._slice(one, limits, stack))
                except WorkerFailure as failure:
                    del parts[one.point.key]
                    self._failed(one, repetition, failure)
        for one in members:
            if one.point.key in parts:
                self._keep_if_right(one, repetition, merged(parts[one.point.key]))

    def _keep_if_right(self, one: _Loaded, repetition: int, found: Slice) -> None:
        """Write the record of a repetition, unless the outputs are wrong: then every repetition of the point is.

        They are compared once, after the first repetition: CUDA graphs, which change what runs, are captured by then.
        """
        if one.outputs is None:
            self._say(f"comparing the outputs of {one.point.label}")
            try:
                one.outputs = self._reference.compare(one.worker, one.point)
            except WorkerFailure as failure:
                self._failed(one, repetition, failure)
                return
        if one.is_wrong:
            error = f"its outputs differ from {one.outputs['reference']}: {one.outputs['reason']}"
            self._write_off(one.point, "wrong", error, "CheckFailed", outputs=one.outputs)
        else:
            self._append(self._measured(one, repetition, found))

    def _failed(self, one: _Loaded, repetition: int, failure: WorkerFailure) -> None:
        one.alive &= failure.alive  # one that could not be loaded again has no process
        status, error = _outcome(failure)
        self._append(self._record(one.point, repetition, status, error=error, error_kind=failure.kind))

    def _slice(self, one: _Loaded, limits: SamplingLimits, stack: contextlib.ExitStack) -> Slice:
        if not one.alive:
            worker = self._begin_loading(one.point, stack)
            one.replace(worker, worker.answer(self.config.timeout_s))
        path = self.folder / "samples" / ".slice.npz"
        request = {"verb": "measure", "limits": asdict(limits), "samples": str(path)}
        device = gpu_in_use(one.point.backend, one.point.options, one.facts["provenance"])
        with TelemetrySampler(one.worker.pid, device) as sampler:
            answer = one.worker.ask(request, self.config.timeout_s)
        one.facts["provenance"] = answer["provenance"]
        columns = {name: array.tolist() for name, array in load_arrays(path).items()}
        path.unlink()
        return Slice(columns, answer["wall_s"], sampler.result, (percentile(sorted(columns["latency_ms"]), 50),))

    def _measured(self, one: _Loaded, repetition: int, found: Slice) -> Record:
        point, telemetry = one.point, found.telemetry
        samples = f"samples/{point.key}-{repetition:03d}.npz"
        write_samples(self.folder / samples, {name: np.array(values) for name, values in found.columns.items()})
        latency = found.columns["latency_ms"]
        items = one.facts["items"] * len(latency)
        rate = items / found.wall_s
        energy = telemetry.energy_j
        noise = noise_interval(latency)
        return self._record(
            point,
            repetition,
            "ok",
            group=self._group,
            unstable=instabilities(latency, telemetry),
            window_drift=window_drift(latency),
            latency_ms=summarize(latency),
            p50_interval_ms=(noise.low, noise.high),
            slice_p50_ms=list(found.p50_ms),
            split_ms={name: percentile(sorted(v), 50) for name, v in found.columns.items() if name != "latency_ms"},
            items_per_s=rate,
            load_s=one.facts["load_s"],
            first_run_ms=one.facts["first_run_ms"],
            telemetry=telemetry.as_dict(),
            energy_per_item_j=None if energy is None else energy * found.wall_s / telemetry.seconds / items,
            outputs=one.outputs,
            verification=one.verification,
            provenance=one.facts["provenance"],
            samples=samples,
        )

    def _count_throughput(self, record: Record) -> None:
        if record.items_per_s is not None:
            sweep = (*sweep_of(record), record.runtime)
            self._throughput.setdefault(sweep, {}).setdefault(record.batch, []).append(record.items_per_s)

    def _is_saturated(self, point: Point) -> bool:
        """Whether throughput, median over repetitions, grew by less than the scenario's share at a smaller batch."""
        share = self.config.scenarios[point.work.scenario].saturation
        measured = sorted(self._throughput.get((*sweep_of(point.work), point.runtime), {}).items())
        rates = [median(values) for batch, values in measured if batch < point.work.batch]
        best = itertools.accumulate(rates, max)
        return share is not None and any(
            rate < before * (1 + share) for before, rate in zip(best, rates[1:], strict=False)
        )

    def _write_off(self, point: Point, status: Status, error: str, kind: str | None, **more: Any) -> None:
        for repetition in range(self.config.repetitions):
            if (point.key, repetition) not in self._done:
                self._append(self._record(point, repetition, status, error=error, error_kind=kind, **more))

    def _record(self, point: Point, repetition: int, status: Status, **values: Any) -> Record:
        work = point.work
        return Record(
            key=point.key,
            scenario=work.scenario,
            kind=work.kind,
            model=work.model,
            model_sha256=self._hashes[point.source],
            work=work.label,
            batch=work.batch,
            dims=dict(work.dims),
            imgsz=work.imgsz,
            runtime=point.runtime,
            entry=point.entry,
            swept=dict(point.swept),
            backend=point.backend,
            precision=point.precision,
            repetition=repetition,
            status=status,
            **values,
        )

    def _append(self, record: Record) -> None:
        append_lines(self._records, [record])
        self._done.add((record.key, record.repetition))
        self._count_throughput(record)
        self._finished += 1
        self._say(record.runtime)

    def _say(self, text: str) -> None:
        if self.progress:
            self.progress(self._finished, self._total, text)


@dataclass
class _Loaded:
    """A worker that holds a point."""

    point: Point
    worker: WorkerProcess
    facts: dict[str, Any] = field(repr=False)
    alive: bool = True
    outputs: dict[str, Any] | None = None
    verification: Mark | None = None

    @property
    def is_wrong(self) -> bool:
        return self.outputs is not None and self.outputs["state"] == "wrong"

    def replace(self, worker: WorkerProcess, facts: dict[str, Any]) -> None:
        """Go on with another process.

        Raises:
            WorkerFailure: it has another engine, which nobody verified.
        """
        if facts["provenance"].get("plan_sha256") != self.facts["provenance"].get("plan_sha256"):
            raise WorkerFailure("its engine was built again, and is another one", CheckFailed.__name__, alive=False)
        first = {name: self.facts[name] for name in ("load_s", "first_run_ms")}
        self.worker, self.facts, self.alive, self.outputs = worker, {**facts, **first}, True, None


def _outcome(failure: WorkerFailure) -> tuple[Status, str]:
    """What a failure is called, and why: a language model that does not generate what PyTorch generates is wrong."""
    is_wrong = failure.kind == Disagreement.__name__
    return ("wrong", str(failure).rstrip(".")) if is_wrong else ("failed", str(failure))
