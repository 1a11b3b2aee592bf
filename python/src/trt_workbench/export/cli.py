"""`trtw export`: the figures of a run for another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_json

To = Literal["parquet", "bencher", "github-action-benchmark"]


@handled
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory of bench, eval-coco or eval-llm.")],
    *,
    to: Annotated[To, typer.Option(help="Who is to read it.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the files; tmp/export/<run-id>/ by default.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Write the metrics of a run for another tool: Parquet, Bencher, github-action-benchmark.

    Medians and scores have their intervals, where the format holds any. Parquet gets every record.
    """
    from trt_workbench.export.write import write_export

    written = [str(path) for path in write_export(run, to, output)]
    if as_json:
        print_json(written)
    else:
        typer.echo("\n".join(written))
