"""`trtw quantize`: make a model in a lower precision, with the evidence of its calibration."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_workbench.cli.common import (
    DebugOption,
    JsonOption,
    handled,
    print_json,
    print_line,
    stdout_console,
)
from trt_workbench.decide.settings import CalibrationSettings, PlacementSettings
from trt_workbench.onnxtools.quantize.kinds import CALIBRATED, To

if TYPE_CHECKING:
    from trt_workbench.decide.candidates import Candidate


@handled
def quantize(
    model: Annotated[Path, typer.Argument(help="ONNX file in float32.")],
    *,
    to: Annotated[To, typer.Option(help="Format to make.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; tmp/quantize/MODEL.TO.onnx by default.")
    ] = None,
    calibration: CalibrationSettings,
    placement: PlacementSettings,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Make a model in a lower precision, with its evidence.

    Ranges of activations are found on --calibration, prepared as inference prepares it.
    """
    from trt_workbench.cli.progress import progress_bar
    from trt_workbench.decide.candidates import evidence_path, make_candidate
    from trt_workbench.system.workspace import output_root

    output = output or output_root() / "quantize" / f"{model.stem}.{to}.onnx"
    with progress_bar("samples") as start:
        on_progress = start("Calibrating") if to in CALIBRATED else None
        candidate = make_candidate(
            model, to, output, calibration=calibration, placement=placement, on_progress=on_progress
        )
    if as_json:
        document = candidate.evidence.model_dump(mode="json")
        print_json({**document, "output": str(output), "evidence": str(evidence_path(output))})
    else:
        _show(candidate)


def _show(candidate: Candidate) -> None:
    from trt_workbench.decide.candidates import evidence_path
    from trt_workbench.onnxtools.graph_types import read_precision

    tell = partial(print_line, stdout_console(quiet=False))
    evidence = candidate.evidence
    tell(f"Precision: {read_precision(candidate.path).text}")
    tell(f"In {candidate.to}: {evidence.low_macs:.1%} of the arithmetic, {evidence.low_weights:.1%} of the weights")
    for reason, count in Counter(evidence.kept.values()).most_common():
        tell(f"Left as it was: {count} group{'s' * (count > 1)}: {reason}")
    if data := evidence.calibration:
        of = f"of {data.available}" if data.kind == "data" else "of noise: NOT CALIBRATED"
        tell(f"Ranges: by {evidence.method} from {data.samples} samples {of}, seed {data.seed}")
        clipped = max(evidence.ranges.items(), key=lambda one: one[1].clipped)
        if clipped[1].clipped:
            tell(f"Clipped most: {clipped[1].clipped:.2%} of {clipped[0]}")
    if evidence.opset != evidence.source_opset:
        tell(f"Operator set: {evidence.opset} (the model has {evidence.source_opset})")
    for note in evidence.notes:
        tell(f"note: {note}")
    tell(f"Written: {candidate.path}")
    tell(f"Evidence: {evidence_path(candidate.path)}")
