"""`trtw quantize`: make a model in a lower precision, with the evidence of its calibration."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_json, print_line, say
from trt_workbench.console.drawing import ReportOutcome, draw
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.settings import Setting
from trt_workbench.quantize.settings import MADE, CalibrationSettings, PlacementSettings, SearchSettings, made_precision

if TYPE_CHECKING:
    from trt_workbench.quantize.candidates import Candidate
    from trt_workbench.quantize.search import Search


@handled
def quantize(
    model: Annotated[Path, typer.Argument(help="ONNX file in float32.")],
    *,
    precision: Annotated[
        str, Setting(f"Target format: {', '.join(MADE)}.", flags="--to", kind=str, read=made_precision)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; tmp/quantize/MODEL.TO.onnx by default.")
    ] = None,
    calibration: CalibrationSettings,
    placement: PlacementSettings,
    searching: SearchSettings,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Convert a model to a lower precision, with its evidence.

    Activation ranges are calibrated on --calibration, preprocessed as for inference. With --keep-score only half of it
    is used for that; on the other half, groups are kept in fp32 until the loss of the score is small enough. Exit code
    1 if it never is.
    """
    from trt_workbench.console.progress import progress_bar
    from trt_workbench.core.precision import read
    from trt_workbench.core.workspace import output_root
    from trt_workbench.model.opened import Model
    from trt_workbench.quantize.candidates import check_user_output, evidence_path, make_candidate
    from trt_workbench.quantize.search import Search

    # raise UsageProblem where something of a search is asked for, but none
    given: dict[str, object] = {"--annotations": searching.annotations, "--split": searching.split}
    given |= {"--score": searching.score, "--better": searching.better, "--budget": searching.budget}
    if searching.keep_score is None and (names := [name for name, value in given.items() if value is not None]):
        raise UsageProblem(f"Pass --keep-score (the allowed loss of the score) with {', '.join(names)}.")
    opened = Model.open(model)
    output = output or output_root() / "quantize" / f"{model.stem}.{precision}.onnx"
    check_user_output(opened, output)
    drawing = ReportOutcome()
    with progress_bar("steps") as start:
        if searching.keep_score is not None:
            candidate, drawing = _searched(
                Search(opened, precision, output, calibration, placement, searching, say, start), debug=debug
            )
        else:
            on_progress = start("Calibrating") if read(precision)[0].is_calibrated else None
            candidate = make_candidate(
                opened, precision, output, calibration=calibration, placement=placement, on_progress=on_progress
            )
    if as_json:
        document = candidate.evidence.model_dump(mode="json")
        print_json({**document, "output": str(output), "evidence": str(evidence_path(output))})
    else:
        _show(candidate)
    drawing.end()


def _searched(search: Search, *, debug: bool) -> tuple[Candidate, ReportOutcome]:
    """Return what a search made, with its run directory drawn. Raises CheckFailed where nothing keeps the bound."""
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.documents import write_json
    from trt_workbench.model.low_precision.evidence import digits_for

    with run_directory("quantize", search.output.with_suffix(".search")) as run:
        found = search.run()
        write_json(run.path / "search.json", found.document)
        directory = run.commit("complete")
    drawing = draw(directory, debug=debug)
    say(f"Search: {directory}")
    if found.candidate is None or not found.document.reach.passed:
        evidence, groups = found.document.evidence, len(found.document.order)
        last, digits = evidence.curve[-1], digits_for(evidence.bound)
        why = f"with {last.kept} of {groups} groups kept in fp32 the loss is {last.loss:.{digits}f}"
        if evidence.began and any(point.keeps(evidence.bound) for point in evidence.curve):
            why += (
                f", and {evidence.began.loss:.{digits}f} with {evidence.began.kept}: {evidence.samples} "
                f"{evidence.unit} cannot tell them apart, pass more"
            )
        ended = " The time was used up; the same command goes on." * found.document.stopped
        raise CheckFailed(
            f"No {search.precision} model is shown to keep {evidence.figure} within {evidence.bound:g}: {why}. "
            f"Nothing is written.{ended}"
        )
    return found.candidate, drawing


def _show(candidate: Candidate) -> None:
    from trt_workbench.core.counts import counted
    from trt_workbench.core.percent import share
    from trt_workbench.model.graph_types import read_precision
    from trt_workbench.model.opened import Model
    from trt_workbench.quantize.candidates import evidence_path

    evidence = candidate.evidence
    print_line(f"Precision: {read_precision(Model.open(candidate.path)).text}")
    low = f"{share(evidence.low_macs, 1)} of the arithmetic, {share(evidence.low_weights, 1)} of the weights"
    print_line(f"In {candidate.precision}: {low}")
    for reason, count in Counter(evidence.kept.values()).most_common():
        print_line(f"Unchanged: {counted(count, 'group')} ({reason})")
    if found := evidence.search:
        print_line(found.words)
    if data := evidence.calibration:
        of = f"of {data.available}" if data.kind == "data" else "of noise: NOT CALIBRATED"
        print_line(f"Ranges: by {evidence.method} from {data.samples} samples {of}, seed {data.seed}")
        clipped = max(evidence.ranges.items(), key=lambda one: one[1].clipped)
        if clipped[1].clipped:
            print_line(f"Clipped most: {share(clipped[1].clipped, 2)} of {clipped[0]}")
    if evidence.opset != evidence.source_opset:
        print_line(f"Operator set: {evidence.opset} (the model has {evidence.source_opset})")
    for note in evidence.notes:
        print_line(f"note: {note}")
    print_line(f"Written: {candidate.path}")
    print_line(f"Evidence: {evidence_path(candidate.path)}")
