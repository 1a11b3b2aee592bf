"""Run a bench matrix: every runtime in a process of its own, repetitions interleaved, every outcome a record."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trt_workbench.bench.config import BenchConfig, ModelEntry
from trt_workbench.bench.embedded import embedded_path
from trt_workbench.bench.matrix import Point, ranges, schedule
from trt_workbench.bench.records import Record, RecordFile, read_samples
from trt_workbench.bench.stability import instabilities
from trt_workbench.bench.statistics import percentile, summarize
from trt_workbench.bench.telemetry import Telemetry, TelemetrySampler
from trt_workbench.bench.worker_process import WorkerFailure, WorkerProcess
from trt_workbench.errors import ComponentMissing, UsageProblem

Progress = Callable[[int, int, str], None]
Done = frozenset[tuple[str, int]]


def model_files(config: BenchConfig) -> dict[str, Path]:
    """Return the file of every model.

    Raises:
        UsageProblem: a file does not exist.
        ComponentMissing: an embedded model is missing.
    """
    return {name: _model_file(name, entry) for name, entry in config.models.items()}


def unavailable_backends(points: Iterable[Point], log: Path, timeout_s: float) -> dict[str, str]:
    """Return why each backend that cannot serve here cannot, by name; each is asked in a process of its own.

    Raises:
        UsageProblem: a backend is unknown.
    """
    reasons = {}
    for backend in dict.fromkeys(point.backend for point in points):
        with WorkerProcess(log) as worker:
            try:
                answer = worker.ask({"verb": "availability", "backend": backend}, timeout_s)
            except WorkerFailure as failure:
                if failure.kind == UsageProblem.__name__:
                    raise UsageProblem(str(failure)) from failure
                answer = {"available": False, "reason": str(failure), "mend": ""}
        if not answer["available"]:
            reasons[backend] = f"{answer['reason']} {answer['mend']}".strip()
    return reasons


def require_available(reasons: dict[str, str]) -> None:
    """Raise ComponentMissing if a backend of the matrix cannot serve here."""
    if reasons:
        name, reason = next(iter(reasons.items()))
        others = f" Nor can {', '.join(list(reasons)[1:])}." if len(reasons) > 1 else ""
        msg = f"Backend {name} cannot serve here: {reason}{others} --skip-unavailable leaves them out and says so."
        raise ComponentMissing(msg)


@dataclass
class BenchRun:
    """A matrix being measured into a folder.

    Attributes:
        config: what was asked.
        points: the points to measure, in order.
        folder: where records.jsonl, samples/ and logs/ go.
        unavailable: why a backend cannot serve here, by name; its points become records that say so.
        done: (key, repetition) pairs that an earlier run has measured.
        progress: called with the measurements done, their total and what comes next.
    """

    config: BenchConfig
    points: Sequence[Point]
    folder: Path
    unavailable: dict[str, str]
    done: Done = frozenset()
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Prepare the folders. Raises UsageProblem or ComponentMissing as `model_files` does."""
        self._models = model_files(self.config)
        self._hashes = {name: _sha256(path) for name, path in self._models.items()}
        self._records = RecordFile(self.folder / "records.jsonl")
        self._throughput: dict[tuple[Any, ...], float] = {}
        self._saturated: set[tuple[Any, ...]] = set()
        self._finished, self._total = 0, len(self.points) * self.config.repetitions
        self._logs = itertools.count()
        for name in ("samples", "logs"):
            (self.folder / name).mkdir(exist_ok=True)

    def run(self) -> None:
        """Measure everything; a failure becomes a record. Raises KeyboardInterrupt when interrupted."""
        for _, group in itertools.groupby(self.points, lambda point: point.work):
            wanted = list(group)
            for point in [point for point in wanted if point.backend in self.unavailable]:
                self._write_off(point, "unavailable", self.unavailable[point.backend], "ComponentMissing")
            served = [point for point in wanted if point.backend not in self.unavailable]
            for point in [point for point in served if _sweep(point) in self._saturated]:
                self._write_off(point, "skipped", "throughput no longer grew at a smaller batch", None)
            fresh = [point for point in served if _sweep(point) not in self._saturated]
            for start in range(0, len(fresh), self.config.processes):
                self._measure_together(fresh[start : start + self.config.processes])

    def _measure_together(self, points: Sequence[Point]) -> None:
        order = [
            (point, repetition)
            for point, repetition in schedule(points, self.config.repetitions, self.config.seed)
            if (point.key, repetition) not in self.done
        ]
        self._finished += len(points) * self.config.repetitions - len(order)
        with contextlib.ExitStack() as stack:
            loaded: dict[str, _Loaded] = {}
            for point in {point.key: point for point, _ in order}.values():
                self._say(f"loading {point.label}")
                try:
                    loaded[point.key] = self._load(point, stack)
                except WorkerFailure as failure:
                    self._write_off(point, "failed", str(failure), failure.kind)
            for point, repetition in order:
                if point.key in loaded:
                    self._say(point.label)
                    self._repetition(point, repetition, loaded[point.key], stack)

    def _load(self, point: Point, stack: contextlib.ExitStack) -> _Loaded:
        worker = stack.enter_context(WorkerProcess(self.folder / "logs" / f"worker-{next(self._logs):03d}.log"))
        request = {
            "verb": "load",
            "point": asdict(point),
            "model": str(self._models[point.work.model]),
            "family": self.config.models[point.work.model].family,
            "ranges": ranges(self.points, point.work),
            "seed": self.config.seed,
        }
        return _Loaded(worker, worker.ask(request, self.config.timeout_s))

    def _repetition(self, point: Point, repetition: int, loaded: _Loaded, stack: contextlib.ExitStack) -> None:
        samples = f"samples/{point.key}-{repetition:03d}.npz"
        request = {
            "verb": "measure",
            "plan": self.config.measure.model_dump(),
            "samples": str(self.folder / samples),
        }
        try:
            if not loaded.alive:
                loaded.replace(self._load(point, stack))
            with TelemetrySampler(loaded.worker.pid) as sampler:
                answer = loaded.worker.ask(request, self.config.timeout_s)
        except WorkerFailure as failure:
            loaded.alive = failure.alive
            self._append(self._record(point, repetition, "failed", error=str(failure), error_kind=failure.kind))
            return
        record = self._measured(point, repetition, loaded, samples, answer["wall_s"], sampler.result)
        self._append(record)
        self._watch_saturation(point, record)

    def _measured(
        self, point: Point, repetition: int, loaded: _Loaded, samples: str, wall_s: float, telemetry: Telemetry
    ) -> Record:
        columns = read_samples(self.folder / samples)
        latency = columns.pop("latency_ms")
        items = loaded.facts["items"] * len(latency)
        energy = telemetry.energy_j
        return self._record(
            point,
            repetition,
            "ok",
            unstable=instabilities(latency, telemetry),
            latency_ms=summarize(latency),
            split_ms={name: percentile(sorted(values), 50) for name, values in columns.items()},
            items_per_s=items / wall_s,
            load_s=loaded.facts["load_s"],
            first_run_ms=loaded.facts["first_run_ms"],
            telemetry=telemetry.as_dict(),
            energy_per_item_j=None if energy is None else energy * wall_s / telemetry.seconds / items,
            provenance=loaded.facts["provenance"],
            samples=samples,
        )

    def _watch_saturation(self, point: Point, record: Record) -> None:
        share = self.config.scenarios[point.work.scenario].saturation
        if share is None or record.repetition != self.config.repetitions - 1 or record.items_per_s is None:
            return
        sweep = _sweep(point)
        if record.items_per_s < self._throughput.get(sweep, 0.0) * (1 + share):
            self._saturated.add(sweep)
        self._throughput[sweep] = max(record.items_per_s, self._throughput.get(sweep, 0.0))

    def _write_off(self, point: Point, status: Any, error: str, kind: str | None) -> None:
        for repetition in range(self.config.repetitions):
            if (point.key, repetition) not in self.done:
                self._append(self._record(point, repetition, status, error=error, error_kind=kind))

    def _record(self, point: Point, repetition: int, status: Any, **values: Any) -> Record:
        work = point.work
        return Record(
            key=point.key,
            scenario=work.scenario,
            kind=work.kind,
            model=work.model,
            model_sha256=self._hashes[work.model],
            work=work.label,
            batch=work.batch,
            dims=dict(work.dims),
            runtime=point.runtime,
            backend=point.backend,
            precision=point.precision,
            repetition=repetition,
            status=status,
            **values,
        )

    def _append(self, record: Record) -> None:
        self._records.append(record)
        self._finished += 1
        self._say(record.runtime)

    def _say(self, text: str) -> None:
        if self.progress:
            self.progress(self._finished, self._total, text)


@dataclass
class _Loaded:
    """A worker that holds a point."""

    worker: WorkerProcess
    facts: dict[str, Any]
    alive: bool = True

    def replace(self, other: _Loaded) -> None:
        self.worker, self.facts, self.alive = other.worker, other.facts, True


def _sweep(point: Point) -> tuple[Any, ...]:
    """What stays the same along a batch sweep."""
    work = point.work
    return work.scenario, work.model, tuple(sorted(work.dims.items())), point.runtime


def _model_file(name: str, entry: ModelEntry) -> Path:
    if entry.embedded is not None:
        return embedded_path(entry.embedded)
    assert entry.path is not None  # checked by ModelEntry
    if not entry.path.is_file():
        msg = f"The file of model {name} does not exist: {entry.path}"
        raise UsageProblem(msg)
    return entry.path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
