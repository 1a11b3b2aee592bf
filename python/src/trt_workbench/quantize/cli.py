"""`trtw quantize`: make a model in a lower precision, with the evidence of its calibration."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_json, print_parts, say
from trt_workbench.console.drawing import ReportOutcome, draw
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.quantize.settings import TO, CalibrationSettings, PlacementSettings, SearchSettings

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.quantize.candidates import Candidate
    from trt_workbench.quantize.search import Search


@handled
def quantize(
    model: Annotated[Path, typer.Argument(help="ONNX file in float32.")],
    *,
    precision: Annotated[str, TO],
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
        print_parts(_shown(candidate))
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


def _shown(candidate: Candidate) -> Parts:
    from trt_workbench.core.counts import counted
    from trt_workbench.core.percent import share
    from trt_workbench.model.graph_types import read_precision
    from trt_workbench.model.opened import Model
    from trt_workbench.quantize.candidates import evidence_path

    evidence = candidate.evidence
    data, search, own = evidence.calibration, evidence.search, evidence.source_opset
    of = f"of {data.available}" if data and data.kind == "data" else "of noise: NOT CALIBRATED"
    ranges = [(one.clipped, name) for name, one in evidence.ranges.items()]
    clipped, where = max(ranges, key=itemgetter(0), default=(0.0, ""))
    return [
        f"Precision: {read_precision(Model.open(candidate.path)).text}",
        f"In {candidate.precision}: {share(evidence.low_macs, 1)} of the arithmetic, "
        f"{share(evidence.low_weights, 1)} of the weights",
        *(
            f"Unchanged: {counted(count, 'group')} ({reason})"
            for reason, count in Counter(evidence.kept.values()).most_common()
        ),
        search.words if search else "",
        f"Ranges: by {evidence.method} from {data.samples} samples {of}, seed {data.seed}" if data else "",
        f"Clipped most: {share(clipped, 2)} of {where}" if data and clipped else "",
        "" if evidence.opset == own else f"Operator set: {evidence.opset} (the model has {own})",
        *(f"note: {note}" for note in evidence.notes),
        f"Written: {candidate.path}",
        f"Evidence: {evidence_path(candidate.path)}",
    ]
