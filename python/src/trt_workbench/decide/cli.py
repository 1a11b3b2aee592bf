"""`trtw decide`: a model in every precision on every runtime, scored, measured and judged on one page."""

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
    say_if_allowed,
)
from trt_workbench.console.drawing import present
from trt_workbench.core.counts import grouped
from trt_workbench.core.errors import CheckFailed
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.quantize import CalibrationSettings

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.decide.document import Decision


@handled
def decide(
    model: Annotated[
        Path | None, typer.Argument(help="ONNX file in float32; the embedded detector by default.")
    ] = None,
    *,
    settings: DecideSettings,
    calibration: CalibrationSettings,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Score and time every precision of a model; recommend one.

    Candidates are made in every precision and run on every runtime available here. The answer has an accuracy, a speed,
    and what to ship. Exit code 1 if no lower precision keeps the score within --max-loss and every other limit, with
    --certain 95 % sure: CI can gate a precision with one command. Of fp32 alone the limits decide. Rows that the run
    in --output has, asked for the same, are kept.
    """
    say_if_allowed(allow_unverified=settings.allow_unverified)
    from trt_workbench.console.progress import ProgressUpdate, progress_bar
    from trt_workbench.core.builds import builds_of
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.work import continued
    from trt_workbench.decide.run import DecideRun
    from trt_workbench.decide.subject import subject_of

    subject = subject_of(model, settings, calibration, say)
    with run_directory("decide", output) as run, progress_bar("steps") as start:
        earlier = continued(run, {}, say, "scores", whole=True)  # each row says itself what identifies it
        bars: dict[str, ProgressUpdate] = {}

        def progress(what: str, done: int, total: int, doing: str) -> None:
            if what not in bars:
                bars[what] = start(what)
            bars[what](done, total, doing)

        made = DecideRun(subject, settings, run.path, progress, say, earlier)
        decision = made.run()
        directory = run.commit("partial" if made.interrupted else "complete")
    several = builds_of(directory)
    document = {**decision.model_dump(mode="json"), **({"builds": several} if several else {})}
    drawing = present(directory, document, partial(_shown, decision), as_json=as_json, debug=debug)
    if made.interrupted:
        raise interrupted(directory)
    if not decision.reach.passed:
        raise CheckFailed(decision.recommendation.sentence)
    drawing.end()


def _shown(decision: Decision, directory: Path) -> Parts:
    from trt_workbench.console.builds import shown_builds
    from trt_workbench.core.builds import builds_of

    # what was left out stands in one sentence of its own, and what is simulated in the table
    said = ("measured", "left out")
    unmeasured = [row for row in decision.rows if row.state not in said and not (row.simulated and row.score)]
    alike = grouped(
        unmeasured,
        lambda row: (
            ("no latency of" if row.score else f"{row.state}:" if row.state == "does not apply" else "did not run:"),
            row.reason,
        ),
    )
    reasons = [f"{what} {', '.join(row.label for row in rows)}: {reason}" for (what, reason), rows in alike.items()]
    return [
        decision.table,
        *shown_builds(builds_of(directory)),
        *decision.halves(command=True),
        *(f"  But: {doubt}" for doubt in decision.recommendation.doubts),
        *(f"note: {sentence}" for sentence in [*sorted(reasons), *decision.left_out, *decision.notes]),
    ]
