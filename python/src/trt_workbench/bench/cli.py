"""`bench`: a matrix of models, runtimes and scenarios, measured and reported."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trt_workbench.bench.settings import MatrixSettings
from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    interrupted,
    note,
    print_json,
    say_if_allowed,
)
from trt_workbench.console.drawing import ReportOutcome, present
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed, DeviceFailure, error_kind
from trt_workbench.core.settings import AllowUnverified, BuildsOption, ServerUrl, Setting
from trt_workbench.core.shard import GpusOption, ShardOption, exclude_each_other
from trt_workbench.core.workers import CRASH, TIMEOUT

if TYPE_CHECKING:
    from trt_workbench.bench.bench_run import BenchOutcome
    from trt_workbench.bench.config import BenchConfig
    from trt_workbench.bench.matrix import Point
    from trt_workbench.console.common import Parts
    from trt_workbench.core.artefacts import BenchArtefacts
    from trt_workbench.core.shard_workers import Device


@handled
def bench(
    *,
    config: Annotated[
        str | None,
        Setting("Model file, YAML file, or the name of a shipped configuration; smoke by default.", argument=True),
    ] = None,
    show: Annotated[bool, Setting("List the shipped configurations and stop.", flags="--list")] = False,
    dry_run: Annotated[bool, Setting("Check the configuration, list the points and stop.")] = False,
    only: Annotated[
        tuple[str, ...], Setting("Measure points that match a pattern (scenario/workload/runtime); repeatable.")
    ] = (),
    model: Annotated[
        tuple[str, ...], Setting("File or folder of a model in the configuration; repeatable.", metavar="NAME=PATH")
    ] = (),
    matrix: MatrixSettings,
    url: ServerUrl = None,
    builds: BuildsOption = None,
    skip_unavailable: Annotated[bool, Setting("Skip unavailable backends, and list them.")] = False,
    allow_unverified: AllowUnverified = False,
    shard: ShardOption = None,
    gpus: GpusOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Measure models on runtimes and rank them.

    Repetitions are interleaved, each runtime runs in its own process, and the ranking has intervals. The same command
    with the --output of a run that was interrupted continues it.
    """
    if show:
        _list()
        return
    exclude_each_other(shard, gpus)
    say_if_allowed(allow_unverified=allow_unverified)
    from trt_workbench.bench.bench_run import prepare_bench

    planned = prepare_bench(config or "smoke", only, model, url, shard, builds, matrix)
    for text in planned.notes:
        note(text)
    if dry_run:
        _show_points(planned.own, as_json=as_json)
        return
    from trt_workbench.verify import BenchGate

    def measured(folder: Path | None) -> BenchOutcome:
        from trt_workbench.console.progress import progress_bar

        with progress_bar("measurements") as start:
            return planned.run(
                folder,
                skip_unavailable=skip_unavailable,
                progress=start("Measuring"),
                gate=BenchGate(allow_unverified),
                note=note,
            )

    if shard:
        from trt_workbench.bench.sharding import COMMAND, what_decides
        from trt_workbench.console.shards import run_shard

        run_shard(
            output,
            shard,
            COMMAND,
            partial(what_decides, planned.config, planned.points),
            lambda folder: measured(folder).directory,
            as_json=as_json,
        )
        return
    if gpus is not None:
        from trt_workbench.bench.shard_worker import job_of
        from trt_workbench.console.shards import require_whole, spread_over

        skipping = skip_unavailable or not planned.named
        job = job_of(planned, only, allow_unverified=allow_unverified, skip_unavailable=skipping)
        devices = _devices(planned.config, gpus)
        found, directory = spread_over(devices, job, "bench", output, "measurements", (), allow_unverified)
        for text in found.metrics["notes"]:
            note(text)
        drawing = _presented(directory, as_json=as_json, debug=debug)
        require_whole(found, directory)
        require_sound({}, directory)
        drawing.end()
        return
    outcome = measured(output)
    drawing = _presented(outcome.directory, as_json=as_json, debug=debug)
    if outcome.status == "partial":
        raise interrupted(outcome.directory)
    require_sound({}, outcome.directory)
    drawing.end()


def _devices(config: BenchConfig, numbers: tuple[int, ...]) -> list[Device]:
    """Return the GPUs to measure on, each with sweeps of its own."""
    from trt_workbench.backends.on_gpus import gpus_for
    from trt_workbench.backends.registry import get_backend

    chosen = next((one.name for one in config.runtimes if "device" in one.options), None)
    backends = [get_backend(one.backend) for one in config.runtimes]
    return gpus_for(backends, numbers, device=f"the option device of {chosen}" if chosen else "")


def show(_metrics: Mapping[str, Any], directory: Path) -> Parts:
    """Return what people see of a run."""
    from trt_workbench.core.artefacts import read_bench_run

    return shown(read_bench_run(directory))


def shown(run: BenchArtefacts) -> Parts:
    """Yield what was measured."""
    from trt_workbench.bench.view import standings, tables
    from trt_workbench.bench.words import alarms, summary
    from trt_workbench.console.builds import shown_builds
    from trt_workbench.core.builds import builds_of

    made, first = tables(run), alarms(run.records)
    yield from first
    for one in made:
        yield standings(one)
        for row in one.rows:
            if "time_to_first_token" in row.split_ms:  # of a language model
                token, each = row.split_ms["time_to_first_token"], row.split_ms["time_per_token"]
                yield f"{row.standing.runtime}: first token {token:.3f} ms, each further {each:.3f} ms"
    yield from shown_builds(builds_of(run.directory))
    yield from summary(run, made)[len(first) :]


def require_sound(_metrics: Mapping[str, Any], directory: Path) -> None:
    """Raise where nothing was measured, outputs are wrong, or engines are not verified."""
    from trt_workbench.bench.words import reach
    from trt_workbench.core.artefacts import read_bench_run

    run = read_bench_run(directory)
    if not reach(run).passed:
        _require_right_outputs(run)
        _require_verified(run)
        _require_points(run)


def _require_right_outputs(run: BenchArtefacts) -> None:
    """Raise CheckFailed if any point gave wrong outputs."""
    wrong = {(one.work, one.runtime): one.error for one in run.records if one.status == "wrong"}
    if wrong:
        (work, runtime), error = next(iter(wrong.items()))
        raise CheckFailed(f"Wrong outputs at {counted(len(wrong), 'point')}, not ranked; {work} on {runtime}: {error}.")


def _require_verified(run: BenchArtefacts) -> None:
    """Raise Unverified if the gate refused any engine."""
    from trt_workbench.verify import Unverified

    refused = {(one.work, one.runtime): one.error for one in run.records if one.error_kind == Unverified.__name__}
    if refused:
        (work, runtime), error = next(iter(refused.items()))
        what = f"Not measured, as engines are not verified: {counted(len(refused), 'point')}"
        raise Unverified(f"{what}; {work} on {runtime}: {error}")


def _require_points(run: BenchArtefacts) -> None:
    """Raise CheckFailed if a point failed; the error of the first reason, where it is of a known kind, if all did."""
    measured = any(record.status == "ok" for record in run.records)
    failed = {(one.work, one.runtime): one for one in run.records if one.status == "failed" or not measured}
    if not failed:
        return
    (work, runtime), first = next(iter(failed.items()))
    ended = first.error_kind in (CRASH, TIMEOUT)
    kind = None if measured else DeviceFailure if ended else error_kind(str(first.error_kind))
    every = len({(one.work, one.runtime) for one in run.records})
    what = f"{len(failed)} of {counted(every, 'point')} were not measured" if measured else "Nothing was measured"
    page = run.directory / "report.html"
    raise (kind or CheckFailed)(f"{what}; the first reason in {page}: {work} on {runtime}: {first.error}")


def _list() -> None:
    from trt_workbench.bench.config import load_config, shipped_configs

    for name, path in shipped_configs().items():
        typer.echo(f"{name:12} {load_config(path).title}")


def _show_points(points: list[Point], *, as_json: bool) -> None:
    if as_json:
        print_json([point.label for point in points])
        return
    for point in points:
        typer.echo(point.label)


def _presented(directory: Path, *, as_json: bool, debug: bool) -> ReportOutcome:
    from trt_workbench.bench.view import tables
    from trt_workbench.bench.words import summary
    from trt_workbench.core.artefacts import read_bench_run
    from trt_workbench.core.builds import builds_of

    run, groups = read_bench_run(directory), builds_of(directory)
    document = {
        "status": run.run.status,
        "summary": summary(run, tables(run)),
        **({"builds": groups} if groups else {}),
    }
    return present(directory, document, lambda _: shown(run), as_json=as_json, debug=debug)
