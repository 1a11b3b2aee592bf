"""What commands with `--shard` say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.console.common import interrupted, print_json, print_line, print_run, say
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem

if TYPE_CHECKING:
    from trt_workbench.core.shard import Shard
    from trt_workbench.core.shard_files import ShardDocument
    from trt_workbench.core.shard_workers import Device
    from trt_workbench.core.spread import Job, Spread


def run_shard(
    output: Path | None,
    shard: Shard,
    command: str,
    asked: Callable[[], Mapping[str, Any]],
    evaluate: Callable[[Path], Path],
    *,
    as_json: bool,
) -> None:
    """Do a shard, unless its run directory is whole already.

    Args:
        output: its folder, by which it is known when it is run again.
        shard: which one it is.
        command: that does it.
        asked: returns what decides its result.
        evaluate: does it into a folder, and returns its run directory.
        as_json: print shard.json as the one document.
    """
    from trt_workbench.core.documents import read_document
    from trt_workbench.core.shard_files import SHARD, ShardDocument, done_before

    output = required_folder(output)
    if found := done_before(output, shard, command, asked):
        _show(found, output, as_json=as_json, before=True)
        return
    directory = evaluate(output)
    _show(read_document(directory / SHARD, ShardDocument), directory, as_json=as_json)


def required_folder(output: Path | None) -> Path:
    """Return the folder of a shard. Raises UsageProblem without one: to be asked before any work."""
    if output is None:
        raise UsageProblem("--shard needs an --output folder for each shard, such as --output runs/all/shard-0.")
    return output


def spread_over(
    devices: Sequence[Device],
    job: Job,
    command: str,
    output: Path | None,
    unit: str,
    facts: Sequence[str],
    allow_unverified: bool,
) -> tuple[Spread, Path]:
    """Run shards on devices of this machine into one run directory.

    Args:
        devices: one for each shard.
        job: what is done.
        command: of the run.
        output: as of the command.
        unit: what progress counts, in the plural.
        facts: keys of metrics.json that run.json has, too.
        allow_unverified: as the command was asked, for run.json.
    """
    from trt_workbench.console.progress import progress_bar
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.spread import spread

    say(f"{counted(len(devices), 'shard')}: {', '.join(device.name for device in devices)}")
    with run_directory(command, output) as run:
        with progress_bar(unit) as start:
            found = spread(devices, job, run, start("Evaluating"))
        kept = {key: found.metrics[key] for key in (*facts, "shards")}
        return found, run.commit(found.status, allow_unverified=allow_unverified, **kept)


def require_whole(found: Spread, directory: Path) -> None:
    """Raise the error for which something is missing, or typer.Exit where the user ended the work."""
    if error := found.error:
        raise type(error)(f"{error} The rest is kept, marked partial: {directory}") from error
    if not found.is_whole:
        raise interrupted(directory, f": {found.metrics['shards']['text'].rstrip('.')}")


def _show(found: ShardDocument, directory: Path, *, as_json: bool, before: bool = False) -> None:
    """Print what a shard has done. Raises typer.Exit where it was interrupted."""
    if as_json:
        print_json({**found.model_dump(mode="json"), "directory": str(directory), "done_before": before})
    size = found.end - found.first
    if not found.is_whole:
        raise interrupted(directory, f" after {found.done:,} of {counted(size, found.unit)} of shard {found.shard}")
    if as_json:
        return
    state = "already done" if before else "done"
    block = f"{found.first} to {found.end - 1}" if size else "none, as there are more shards"
    print_line(f"Shard {found.shard} is {state}: {counted(size, found.unit)} of {found.items:,} ({block})")
    print_run(directory)
