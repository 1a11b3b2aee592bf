"""Which feature puts the shards of a command together, and shows the result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trt_workbench import bench, llm, stream, verify, vision
from trt_workbench.core.artefacts import Status
from trt_workbench.core.directory import run_directory
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.shard_files import Shards

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts


class Merging(NamedTuple):
    """How shards of a command become one run.

    Attributes:
        merge: fills a folder with the files of the run, and returns the content of its metrics.json.
        show: returns what people see of it.
        require: raises CheckFailed where a gate of the command failed.
        facts: what run.json says of metrics.json.
        keep: what is done with a whole run in its place.
    """

    merge: Callable[[Shards, Path], dict[str, Any]]
    show: Callable[[dict[str, Any], Path], Parts]
    require: Callable[[dict[str, Any], Path], None] = lambda _metrics, _directory: None
    facts: Callable[[dict[str, Any]], dict[str, Any]] = lambda _metrics: {}
    keep: Callable[[dict[str, Any], Path], object] = lambda _metrics, _directory: None


_MERGED: dict[str, Callable[[], Merging]] = {
    "bench": lambda: Merging(bench.merge_shards, bench.show, bench.require_sound),
    "eval-coco": lambda: Merging(vision.merge_shards, vision.show),
    "eval-llm": lambda: Merging(llm.merge_shards, llm.show, llm.require_gate),
    "eval-stream": lambda: Merging(stream.merge_shards, stream.show, stream.require_gates),
    "verify": lambda: Merging(
        verify.merge_shards, verify.show, verify.require_right, verify.run_facts, verify.keep_found
    ),
}
"""By the command that makes the shards; a feature is imported when its shards are merged."""


def merging_of(shards: Shards) -> Merging:
    """Return how shards are merged. Raises UsageProblem where their command is not known."""
    if (command := shards.first.command) not in _MERGED:
        raise UsageProblem(f"Shards of {command!r} cannot be merged by this release: {shards.runs[0].directory}")
    return _MERGED[command]()


def merge_into(shards: Shards, output: Path | None) -> tuple[dict[str, Any], Path]:
    """Make a run directory of shards; return the content of its metrics.json, and the directory.

    Raises:
        UsageProblem: as the command's own function, or the folder cannot be used.
    """
    merging = merging_of(shards)
    if output and output.resolve() in [one.directory.resolve() for one in shards.runs]:
        raise UsageProblem(
            f"The output folder is one of the shards, which the run would replace; choose another: {output}"
        )
    with run_directory(shards.first.command, output) as run:
        metrics = merging.merge(shards, run.path)
        shards.write(run.path)
        status: Status = "partial" if shards.missing else "complete"
        directory = run.commit(status, **merging.facts(metrics), shards=shards.facts())
    if not shards.missing:
        merging.keep(metrics, directory)
    return metrics, directory
