"""`trtw upgrade`: whether models are as correct, as good and as fast in another stack as in the one in use."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    interrupted,
    say,
)
from trt_workbench.console.drawing import present
from trt_workbench.console.progress import waiting
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed, ComponentMissing
from trt_workbench.upgrade.settings import UpgradeSettings

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.upgrade.document import Upgrade


@handled
def upgrade(
    model: Annotated[list[Path], typer.Argument(help="ONNX files.")],
    settings: UpgradeSettings,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check that models are as correct, as good and as fast in another stack as in the one in use.

    A stack is a Python environment, a TensorRT folder, a container, or an earlier run with --record. Each model is
    verified in both at the same shapes with the same inputs, scored on --data, and timed in turns. Exit code 1 if any
    is wrong, refused, slower or of a lower score afterwards, or not proven; 3 if a stack does not start. Models that
    the run in --output has finished, asked for the same, are kept.
    """
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.work import continued
    from trt_workbench.upgrade.document import FAILED, FILE
    from trt_workbench.upgrade.report import read, sentence
    from trt_workbench.upgrade.run import upgrade as compare_stacks

    ended = False
    with run_directory("upgrade", output) as run:
        try:
            with waiting("Comparing") as update:
                earlier = partial(continued, run, note=say, results=FILE, whole=True)
                compare_stacks(settings, model, run.path, update, run.run_id, earlier)
        except BaseException as error:
            ended = isinstance(error, KeyboardInterrupt)
            if not (run.path / FILE).is_file():
                raise
            if not ended:
                run.commit("partial", passed=False)
                raise
        found = read(run.path)
        directory = run.commit("partial" if ended else "complete", passed=found.passed)
    drawing = present(directory, found, partial(_shown, found), as_json=as_json, debug=debug)
    if ended:
        raise interrupted(directory)
    if failed := [one for one in found.models if one.outcome in FAILED]:
        lost = [one for one in failed if one.outcome == "not run"]
        raise (ComponentMissing if lost else CheckFailed)(
            f"Not safe: {', '.join(one.name for one in failed)}. "
            + "".join(f"The first that was not run, {one.name}: {sentence(one).rstrip('.')}. " for one in lost[:1])
            + f"Full report: {directory / 'report.html'}"
        )
    drawing.end()


def _shown(found: Upgrade, directory: Path) -> Parts:
    from trt_workbench.console.builds import shown_builds
    from trt_workbench.core.builds import builds_of
    from trt_workbench.upgrade.report import headline, models, named, parts

    recorded = f"Recorded {counted(len(found.models), 'model')}; compare with --from {directory}"
    return [
        headline(found),
        models(found),
        *shown_builds(builds_of(directory)),
        f"Stack before: {named(found.before)}",
        f"Stack after: {named(found.after)}" if found.after else "",
        *parts(directory, found),
        "" if found.after else recorded,
    ]
