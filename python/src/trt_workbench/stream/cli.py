"""`trtw eval-stream`: compares a streaming model with its reference chunk by chunk, by its contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    kept_if_interrupted,
    note,
    say,
    say_if_allowed,
)
from trt_workbench.console.drawing import present
from trt_workbench.core.counts import counted, sized
from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.percent import signed
from trt_workbench.core.settings import Report
from trt_workbench.core.shard import GpusOption, Shard, ShardOption, exclude_each_other
from trt_workbench.report.tables import Table
from trt_workbench.stream.settings import StreamSettings

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.core.spread import Spread
    from trt_workbench.stream.document import StreamMetrics
    from trt_workbench.stream.paced_document import Paced

# From so many chunks on, what a runtime takes at first is little compared with what a leak would.
_LONG = 1000


@handled
def eval_stream(
    settings: StreamSettings,
    *,
    shard: ShardOption = None,
    gpus: GpusOption = None,
    report: Report = True,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare a streaming model with a reference chunk by chunk.

    Every chunk runs with the reference's state and with the model's own. Without a model, an embedded encoder runs.
    Exit code 1 if a gate fails; the message names chunk, tensor and gate.
    """
    exclude_each_other(shard, gpus)
    say_if_allowed(allow_unverified=settings.allow_unverified)
    if shard:
        _one_shard(settings, shard, output, as_json=as_json)
        return
    spread = None
    if gpus is None:
        metrics, directory = _evaluate(settings, output)
    else:
        spread, metrics, directory = _spread(settings, output, gpus)
    for text in metrics.notes:
        note(text)
    drawing = present(directory, metrics, partial(_shown, metrics), as_json=as_json, debug=debug, report=report)
    if spread:
        from trt_workbench.console.shards import require_whole

        require_whole(spread, directory)
    require_gates({"failures": metrics.failures}, directory)
    drawing.end()


def _spread(
    settings: StreamSettings, output: Path | None, numbers: tuple[int, ...]
) -> tuple[Spread, StreamMetrics, Path]:
    """Compare on several GPUs."""
    from trt_workbench.backends.kept_reference import require_kept
    from trt_workbench.backends.on_gpus import gpus_for
    from trt_workbench.backends.registry import require_backend
    from trt_workbench.console.shards import spread_over
    from trt_workbench.core.documents import read_document
    from trt_workbench.core.shard import WHOLE
    from trt_workbench.core.workspace import ENCODER, embedded_model
    from trt_workbench.stream.document import StreamMetrics
    from trt_workbench.stream.shard_worker import job_of
    from trt_workbench.stream.sharding import settings_of

    settings_of(settings, WHOLE)
    require_kept(Path(settings.reference), output)
    target = settings.target or embedded_model(ENCODER)
    backend = require_backend(settings.backend, target.suffix, say)
    devices = gpus_for([backend], numbers, device="--device" if settings.device else "")
    facts, job = ("chunks", "passed"), job_of(settings, target)
    found, directory = spread_over(devices, job, "eval-stream", output, "precisions", facts, settings.allow_unverified)
    return found, read_document(directory / "metrics.json", StreamMetrics), directory


def _one_shard(settings: StreamSettings, shard: Shard, output: Path | None, *, as_json: bool) -> None:
    """Compare the precisions of a shard, unless that is done already."""
    from trt_workbench.console.shards import run_shard
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.workspace import ENCODER, embedded_model
    from trt_workbench.stream.sharding import COMMAND, settings_of, what_decides, write_shard

    own, target = settings_of(settings, shard), settings.target or embedded_model(ENCODER)
    write = partial(write_shard, settings=settings, target=target, shard=shard)

    def compare(folder: Path) -> Path:
        if own.precision:
            return _evaluate(own, folder, write)[1]
        with run_directory("eval-stream", folder) as run:  # there are more shards than precisions
            write(run.path, metrics=None)
            return run.commit("complete", shard=str(shard))

    run_shard(output, shard, COMMAND, partial(what_decides, settings, target), compare, as_json=as_json)


def require_gates(metrics: Mapping[str, Any], directory: Path) -> None:
    """Raise CheckFailed if a gate failed."""
    if failures := metrics["failures"]:
        tail = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise CheckFailed(f"{failures[0]}{tail}. Full results: {directory / 'metrics.json'}")


def _evaluate(
    settings: StreamSettings, output: Path | None, write: Callable[..., None] | None = None
) -> tuple[StreamMetrics, Path]:
    """Evaluate into a run directory; `write` adds what a shard has."""
    from trt_workbench.backends.kept_reference import require_kept
    from trt_workbench.console.progress import progress_bar
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.work import continued
    from trt_workbench.stream.opening import OpenedStream
    from trt_workbench.stream.run import DONE, StreamEvaluation

    with OpenedStream(settings, say) as opened:
        require_kept(Path(settings.reference), output)
        evaluation = StreamEvaluation(opened)
        opened.introduce()
        with run_directory("eval-stream", output) as run, kept_if_interrupted(run, DONE):
            earlier = partial(continued, run, note=say, results=DONE)
            with progress_bar("chunks") as start:
                metrics = evaluation.run(run.path, start("Evaluating"), earlier)
            if write:
                write(run.path, metrics=metrics)
            facts = {"chunks": metrics.chunks, "allow_unverified": settings.allow_unverified}
            return metrics, run.commit("complete", passed=metrics.passed, **facts)


def show(_metrics: Mapping[str, Any], directory: Path) -> Parts:
    """Return what people see of a run."""
    from trt_workbench.core.documents import read_document
    from trt_workbench.stream.document import StreamMetrics

    return _shown(read_document(directory / "metrics.json", StreamMetrics), directory)


def _shown(metrics: StreamMetrics, _directory: Path) -> Iterator[Table | str]:
    from trt_workbench.stream.document import LANES, fault_matrix

    seconds = "" if metrics.stream_seconds is None else f", {metrics.stream_seconds:.1f} s of audio"
    yield f"{counted(metrics.chunks, 'chunk')}{seconds}, {metrics.backend} compared with {metrics.reference['name']}"
    yield Table(LANES, metrics.lanes, "Compared with the reference, over chunks")
    for precision, ratio in metrics.closed_over_functional.items():
        yield f"{precision}: in closed loop the error is {ratio:.2f} times that with the reference's state"
    if metrics.resident and metrics.chunks >= _LONG:
        grown = metrics.resident
        yield (
            f"Memory: {sized(grown.last_bytes)}, growing by {grown.bytes_per_chunk:.0f} bytes per chunk "
            f"({grown.low:.0f} to {grown.high:.0f})"
        )
    if metrics.faults:
        yield fault_matrix(metrics.faults)
    for paced in metrics.streams:
        yield from _paced(paced)
    yield from (f"FAILED {failure}" for failure in metrics.failures)
    yield f"{metrics.reach.word().capitalize()}."


def _paced(paced: Paced) -> Iterator[Table | str]:
    from trt_workbench.stream.document import levels

    per_stream = sized(paced.memory_bytes["per_stream"])
    yield (
        f"{paced.precision} streams in batches of {', '.join(map(str, paced.check.rows))} compared with each alone: "
        f"{paced.check.text}"
    )
    if paced.switch:
        costs = ", ".join(f"{kind} {signed(cost, 1)}" for kind, cost in paced.switch.cost.items())
        yield f"Time of a chunk after one of the other size, compared with one after its own size: {costs}"
    if paced.levels:
        yield levels(paced)
        yield (f"{paced.text} A stream's state takes {per_stream}, on the {'device' if paced.on_device else 'host'}.")
