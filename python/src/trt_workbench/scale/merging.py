"""Which feature puts the shards of a command together, and shows the result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from trt_workbench.core.artefacts import Status
from trt_workbench.core.directory import run_directory
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.shard_files import Shards


class Merging(NamedTuple):
    """How shards of a command become one run.

    Attributes:
        merge: fills a folder with the files of the run, and returns the content of its metrics.json.
        show: prints that.
        require: raises CheckFailed where a gate of the command failed.
        facts: what run.json says of metrics.json.
        keep: what is done with a whole run in its place.
    """

    merge: Callable[[Shards, Path], dict[str, Any]]
    show: Callable[[dict[str, Any], Path], None]
    require: Callable[[dict[str, Any], Path], None] = lambda _metrics, _directory: None
    facts: Callable[[dict[str, Any]], dict[str, Any]] = lambda _metrics: {}
    keep: Callable[[dict[str, Any], Path], object] = lambda _metrics, _directory: None


def _coco() -> Merging:
    from trt_workbench.vision import merge_shards, show

    return Merging(merge_shards, show)


def _llm() -> Merging:
    from trt_workbench.llm import merge_shards, require_gate, show

    return Merging(merge_shards, show, require_gate)


def _bench() -> Merging:
    from trt_workbench.bench import merge_shards, require_sound, show

    return Merging(merge_shards, show, require_sound)


def _stream() -> Merging:
    from trt_workbench.stream import merge_shards, require_gates, show

    return Merging(merge_shards, show, require_gates)


def _verify() -> Merging:
    from trt_workbench.verify import keep_found, merge_shards, require_right, run_facts, show

    return Merging(merge_shards, show, require_right, run_facts, keep_found)


_MERGED: dict[str, Callable[[], Merging]] = {
    "bench": _bench,
    "eval-coco": _coco,
    "eval-llm": _llm,
    "eval-stream": _stream,
    "verify": _verify,
}
"""By the command that makes the shards; imported when such shards are merged."""


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
