"""A bench from its configuration to a finished run directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trt_workbench.backends.registry import check_name, get_backend, model_suffixes
from trt_workbench.bench.builds import with_builds
from trt_workbench.bench.config import BenchConfig, load_config, matrix_of, shipped_configs
from trt_workbench.bench.matrix import Point, expand
from trt_workbench.bench.model_files import check_contracts, model_files, with_models
from trt_workbench.bench.options import check_runtimes, check_shapes
from trt_workbench.bench.run import BenchRun, Progress
from trt_workbench.bench.settings import ANY_MATRIX, MatrixSettings
from trt_workbench.bench.sharding import COMMAND, block_of, measured_in, put_measured, what_decides, write_shard
from trt_workbench.bench.worker import TARGET
from trt_workbench.core.artefacts import Status
from trt_workbench.core.directory import run_directory
from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import ComponentMissing, UsageProblem, WorkbenchError
from trt_workbench.core.shard import Shard
from trt_workbench.core.work import continued
from trt_workbench.core.workers import WorkerFailure, WorkerProcess
from trt_workbench.core.workspace import EMBEDDED_MODELS, embedded_model
from trt_workbench.verify import BenchGate
from trt_workbench.vision import check_family


def require_known(points: Iterable[Point]) -> None:
    """Raise UsageProblem if there is no backend of the name that a point asks for."""
    for backend in dict.fromkeys(point.backend for point in points):
        check_name(backend)


def unavailable_backends(backends: Iterable[str], log: Path, timeout_s: float) -> dict[str, WorkbenchError]:
    """Return why each backend that cannot serve here cannot, by name.

    Raises:
        UsageProblem: a backend is unknown.
    """
    reasons: dict[str, WorkbenchError] = {}
    for backend in dict.fromkeys(backends):
        with WorkerProcess(log, TARGET) as worker:
            try:
                answer = worker.ask({"verb": "availability", "backend": backend}, timeout_s)
            except WorkerFailure as failure:
                if isinstance(failure.error, UsageProblem):
                    raise failure.error from failure
                reasons[backend] = failure.error or ComponentMissing(str(failure))
                continue
        if not answer["available"]:
            reasons[backend] = ComponentMissing(f"{answer['reason']} {answer['fix']}".strip())
    return reasons


def require_available(reasons: Mapping[str, WorkbenchError]) -> None:
    """Raise ComponentMissing, or what asking it raised, if a backend of the matrix cannot serve here."""
    if reasons:
        name, reason = next(iter(reasons.items()))
        others = f" Also not available: {', '.join(list(reasons)[1:])}." if len(reasons) > 1 else ""
        raise type(reason)(
            f"Backend {name} is not available here: {reason}{others} --skip-unavailable skips them and lists them."
        )


@dataclass(frozen=True)
class BenchOutcome:
    """How a bench ended, and where its files are."""

    directory: Path
    status: Status


@dataclass(frozen=True)
class PreparedBench:
    """A checked matrix; nothing has been measured yet.

    Attributes:
        config: what was asked.
        points: the points to measure, in order.
        shard: the block of the sweeps to measure; None for all.
        named: whether somebody named the backends; if not, those that cannot serve here are left out.
        notes: what the user should know, in sentences.
    """

    config: BenchConfig
    points: list[Point]
    shard: Shard | None = None
    named: bool = True
    notes: tuple[str, ...] = ()

    @property
    def own(self) -> list[Point]:
        """The points of the shard, all where there is none."""
        return block_of(self.points, self.shard) if self.shard else self.points

    def run(
        self,
        output: Path | None,
        *,
        skip_unavailable: bool,
        progress: Progress | None,
        gate: BenchGate | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> BenchOutcome:
        """Measure, and move everything into the run directory. What was measured before a failure is kept, too.

        Args:
            output: the run directory to write, of which an unfinished run is continued; None for the default place.
            skip_unavailable: leave out backends that cannot serve here instead of failing.
            progress: as in `BenchRun`.
            gate: as in `BenchRun`.
            note: called with what the user should know.

        Raises:
            UsageProblem: the output cannot be written, a backend is unknown, or the unfinished run was changed.
            ComponentMissing: a backend cannot serve here.
            KeyboardInterrupt: interrupted before anything was measured.
        """
        points = self.own
        with run_directory(COMMAND, output) as run:
            asked = {**what_decides(self.config, self.points), "shard": self.shard and str(self.shard)}
            earlier = continued(run, asked, note, "records.jsonl")
            reasons = unavailable_backends(
                (point.backend for point in points), run.path / "availability.log", self.config.timeout_s
            )
            if self.named and not skip_unavailable:
                require_available(reasons)
            write_json(run.path / "config.json", self.config)
            (run.path / "samples").mkdir()
            put_measured(found := measured_in(earlier), run.path)
            unavailable = {name: str(reason) for name, reason in reasons.items()}
            kept = [record for _, record in found]
            bench = BenchRun(self.config, points, run.path, unavailable, kept, progress, gate, self.points)
            facts: dict[str, Any] = {"allow_unverified": bool(gate and gate.allows_unverified)}
            status: Status = "complete"
            try:
                bench.run()
            except BaseException as error:
                stopped = isinstance(error, KeyboardInterrupt)
                if not (run.path / "records.jsonl").is_file() or (self.shard and not stopped):
                    raise
                status = "partial"
                if not stopped:
                    run.commit(status, **facts)
                    raise
            if self.shard:
                write_shard(run.path, self.config, self.points, self.shard)
                facts["shard"] = str(self.shard)
            return BenchOutcome(run.commit(status, **facts), status)


def prepare_bench(
    config: str,
    only: Sequence[str],
    models: Sequence[str] = (),
    url: str | None = None,
    shard: Shard | None = None,
    builds: int | None = None,
    matrix: MatrixSettings = ANY_MATRIX,
) -> PreparedBench:
    """Check a configuration and expand its matrix.

    Args:
        config: path of a YAML file, the name of a shipped configuration, or a model file.
        only: as in `expand`.
        models: as in `with_models`.
        url: of the server, for runtimes that are one.
        shard: the block of the sweeps to measure; None for all.
        builds: as in `with_builds`.
        matrix: what is measured of a model file.

    Raises:
        UsageProblem: the configuration or a model cannot be used, a backend or one of its options is unknown, or no
            point fits `only`.
        ComponentMissing: an embedded model is missing.
    """
    model = _model_file(config)
    loaded, refused = matrix_of(model, matrix) if model else (_configured(config, matrix), [])
    planned = plan_bench(with_builds(_with_server(with_models(loaded, models), url), builds), only)
    return replace(planned, shard=shard, named=not model or bool(matrix.backends), notes=tuple(refused))


def _model_file(config: str) -> Path | None:
    """Return the model file that is named in place of a configuration; None where none is."""
    path = Path(config)
    if config in EMBEDDED_MODELS and not path.exists():
        return embedded_model(config)
    return path if path.suffix in model_suffixes() else None


def _configured(config: str, matrix: MatrixSettings) -> BenchConfig:
    shipped = shipped_configs()
    if config not in shipped and not Path(config).is_file():
        raise UsageProblem(
            f"There is no such configuration; the shipped ones are {', '.join(shipped)}; else pass a YAML file or a "
            f"model file: {config}"
        )
    if matrix != ANY_MATRIX:
        raise UsageProblem(
            f"Leave out --backends, --precisions, --batch and --dim: the configuration has them: {config}"
        )
    return load_config(shipped.get(config, Path(config)))


def _with_server(config: BenchConfig, url: str | None) -> BenchConfig:
    if url is None:
        return config
    served = [get_backend(one.backend).served for one in config.runtimes]
    if not any(served):
        raise UsageProblem("--url names a server, and no runtime of the configuration uses one, as {backend: v2} does.")
    runtimes = tuple(
        one.model_copy(update={"options": {**one.options, "url": url}}) if there else one
        for one, there in zip(config.runtimes, served, strict=True)
    )
    return config.model_copy(update={"runtimes": runtimes})


def plan_bench(config: BenchConfig, only: Sequence[str]) -> PreparedBench:
    """Expand the matrix of a configuration. Raises UsageProblem as `prepare_bench`."""
    files = model_files(config)
    for name, entry in config.models.items():
        if entry.family:
            check_family(entry.family, f"model {name}")
    check_contracts(config, files)
    points = expand(config, only)
    require_known(points)
    check_runtimes(points)
    check_shapes(points, files)
    return PreparedBench(config, points)
