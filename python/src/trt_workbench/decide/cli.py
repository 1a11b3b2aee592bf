"""`trtw decide`: a model in every precision on every runtime, scored, measured and judged on one page."""

from __future__ import annotations

from collections.abc import Sequence
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
    print_line,
    print_run,
    print_table,
    say,
    say_if_allowed,
    stdout_console,
)
from trt_workbench.console.drawing import present
from trt_workbench.core.counts import grouped, mebibytes
from trt_workbench.core.errors import CheckFailed
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.quantize import CalibrationSettings

if TYPE_CHECKING:
    from trt_workbench.decide.document import Decision, DecisionRow


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
    from trt_workbench.decide.elsewhere import require_targets
    from trt_workbench.decide.run import DecideRun
    from trt_workbench.decide.subject import subject_of

    require_targets(settings.targets)
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
    drawing = present(directory, document, partial(_show, decision), as_json=as_json, debug=debug)
    if made.interrupted:
        raise interrupted(directory)
    if not decision.reach.passed:
        raise CheckFailed(decision.recommendation.sentence)
    drawing.end()


def _show(decision: Decision, directory: Path) -> None:

    from trt_workbench.console.builds import print_builds
    from trt_workbench.core.builds import builds_of

    console = stdout_console(quiet=False)
    say_line = partial(print_line, console)
    also = decision.kept[1:]
    losses = (f"loss of {name}" for name in also)
    backends = {row.backend for row in decision.rows}
    where = backends.pop() if len(backends) == 1 else ""  # once, so that a row is a line
    timed = sum(row.speed is not None for row in decision.rows) > 1
    columns = (decision.figure, "loss", "at most", *losses, "ms", *["x fp32"] * timed, "MiB", "")
    rows = (
        (row.precision if where else f"{row.precision} on {row.backend}", *_cells(row, also, timed=timed))
        for row in decision.rows
    )
    print_table(console, (f"precision on {where or 'runtime'}", *columns), rows)
    for group in builds_of(directory):
        print_builds(console, group)
    for one in decision.compiles:
        outcome = "compiles" if one.outcome == "built" else f"does not compile: {one.reason}"
        say_line(f"{one.precision} for {one.target}: {outcome}")
    for half in decision.halves(command=True):
        say_line(half)
    for doubt in decision.recommendation.doubts:
        say_line(f"  But: {doubt}")
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
    for sentence in [*sorted(reasons), *decision.left_out, *decision.notes]:
        say_line(f"note: {sentence}")
    print_run(console, directory)


def _cells(row: DecisionRow, also: Sequence[str], *, timed: bool) -> tuple[str, ...]:
    score, speed = row.score, row.speed
    others = [score.others.get(name) if score else None for name in also]
    remarks: list[str] = [row.state] if row.state != "measured" and not row.simulated else []
    remarks += ["simulated"] * row.simulated + ["not calibrated"] * (not row.calibrated)
    told = score and (score.loss_ci95 or row.verdict != "accepted")
    remarks += [row.verdict] if row.verdict and told else []
    return (
        score.words(score.value) if score else "-",
        score.words(score.loss) if score else "-",
        score.words(score.loss_ci95[1]) if score and score.loss_ci95 else "-",
        *(one.words(one.loss) if one else "-" for one in others),
        f"{speed.latency_ms:.3f}" if speed else "-",
        *[f"{speed.speed_up:.2f}" if speed and speed.speed_up else "-"] * timed,
        mebibytes(row.size_bytes) if row.size_bytes else "-",
        ", ".join(remarks),
    )
