"""`merge`: one run of the shards of a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from trt_workbench.console.common import (
    COMMON,
    DebugOption,
    JsonOption,
    handled,
    note,
)
from trt_workbench.console.drawing import present
from trt_workbench.console.progress import at_stage
from trt_workbench.core.settings import Setting


@handled
def merge(
    places: Annotated[
        tuple[Path, ...],
        Setting("Run directories of shards, or folders that hold them.", argument=True, metavar="DIR"),
    ],
    *,
    partial: Annotated[bool, Setting("Merge what is there; the result says what is missing.")] = False,
    report: Annotated[bool, Setting("Write report.html and plots/.")] = True,
    output: Annotated[Path | None, Setting("Run directory of the result.", COMMON, flags="--output -o")] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Put shards of a run together.

    On the CPU the result is bit for bit that of one process. Shards of another model, data set, setting, version, GPU
    or driver are refused.
    """
    from trt_workbench.core.shard_files import read_shards
    from trt_workbench.scale.merging import merge_into, merging_of

    with at_stage(lambda: "Merging the shards"):
        shards = read_shards(places, partial=partial)
        metrics, directory = merge_into(shards, output)
    for text in metrics["notes"]:
        note(text)
    merging = merging_of(shards)
    drawing = present(
        directory, metrics, lambda place: merging.show(metrics, place), as_json=as_json, debug=debug, report=report
    )
    merging.require(metrics, directory)
    drawing.end()
