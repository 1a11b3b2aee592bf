"""`trtw submit`: a run in shards, by the scheduler that is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_found, say
from trt_workbench.console.drawing import draw
from trt_workbench.core.settings import names

if TYPE_CHECKING:
    from trt_workbench_fleet.array import JobArray
    from trt_workbench_fleet.scheduler import Scheduler

To = Literal["local", "slurm", "kubernetes", "ray"]


@handled
def submit(
    file: Annotated[Path, typer.Argument(metavar="RUN_FILE", help="YAML: what to run, in how many shards, and where.")],
    *,
    to: Annotated[To, typer.Option(help="Scheduler; local is this machine.")] = "local",
    gpu_types: Annotated[str | None, typer.Option(help="GPU types of the file, separated by commas; else all.")] = None,
    run: Annotated[bool, typer.Option("--run", help="Submit, wait and merge; else only write the files.")] = False,
    check_node: Annotated[
        bool, typer.Option("--check-node", help="Check this machine against the file, only.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run shards of a command by Slurm, Kubernetes, Ray or on this machine.

    Without --run the files are only written, readable and commented: a script for sbatch, an Indexed Job, a Ray
    program. Exit code 3 if the scheduler is missing, or a node is not as the file says; 4 if a shard failed for good.
    """
    from trt_workbench_fleet.array import arrays_of, read_array
    from trt_workbench_fleet.document import load_run_file
    from trt_workbench_fleet.node import check_node as check
    from trt_workbench_fleet.run import SCHEDULERS, write_files

    if check_node:
        check(read_array(file))
        return
    types = () if gpu_types is None else names("--gpu-types", gpu_types)
    arrays, scheduler = arrays_of(load_run_file(file), types), SCHEDULERS[to]()
    if run:
        for array in arrays:
            scheduler.require(array)
    written = [path for array in arrays for path in write_files(scheduler, array)]
    if not run:
        _planned(scheduler, arrays, written, as_json=as_json)
        return
    made = [_run(scheduler, array, debug=debug) for array in arrays]
    runs = [directory for directory, _ in made]
    document = {"files": [*map(str, written)], "runs": [*map(str, runs)]}
    print_found(document, lambda _: [f"Merged run: {directory}" for directory in runs], as_json=as_json)
    if runs[1:] and not as_json:
        say(f"Compare the types: trtw report {' '.join(map(str, runs))} --output {arrays[0].base / 'overview'}")
    for _, require_gate in made:
        require_gate()


def _run(scheduler: Scheduler, array: JobArray, *, debug: bool) -> tuple[Path, Callable[[], None]]:
    from trt_workbench.console.progress import progress_bar
    from trt_workbench_fleet.run import run_array

    with progress_bar("shards") as start:
        bar = start(array.name)
        directory, require_gate = run_array(scheduler, array, say, bar)
    draw(directory, debug=debug).end()
    return directory, require_gate


def _planned(scheduler: Scheduler, arrays: list[JobArray], written: list[Path], *, as_json: bool) -> None:
    import shlex

    after = [shlex.join(array.merge) for array in arrays]
    commands = [line for array in arrays for line in scheduler.how(array)]
    document = {"files": [*map(str, written)], "run": commands, "merge": after}
    titles = {"files": "Written", "run": "Run", "merge": "Merge"}
    said = [f"{titles[name]}: {line}" for name, lines in document.items() for line in lines]
    print_found(document, lambda _: said, as_json=as_json)
