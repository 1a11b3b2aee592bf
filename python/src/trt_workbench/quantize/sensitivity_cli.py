"""`trtw sensitivity`: what each group of a model costs in a lower precision."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    say,
)
from trt_workbench.console.drawing import present
from trt_workbench.core.counts import counted
from trt_workbench.quantize.settings import TO, CalibrationSettings, PlacementSettings, ScoreSettings

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.quantize.document import Sensitivity

_SHOWN = 20
_KEPT = "fp32 in place of a share: quantize keeps the group in fp32 anyway"


@handled
def sensitivity(
    model: Annotated[Path, typer.Argument(help="ONNX file in float32.")],
    *,
    precision: Annotated[str, replace(TO, default="int8")] = "int8",
    worst: Annotated[int, typer.Option(min=0, help="Number of the noisiest groups to score, each alone.")] = 5,
    output: OutputOption = None,
    calibration: CalibrationSettings,
    placement: PlacementSettings,
    scoring: ScoreSettings,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what each group of a model loses in a lower precision.

    Each group alone is converted, and the noise at the outputs ranks the groups. With --annotations or --score the
    noisiest are also scored, on the half of the calibration data that is not used for ranges.
    """
    from trt_workbench.console.progress import progress_bar
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.documents import write_json
    from trt_workbench.core.files import scratch_folder
    from trt_workbench.core.precision import read
    from trt_workbench.model.opened import Model
    from trt_workbench.quantize.calibrate import calibrate
    from trt_workbench.quantize.held_out import RANGES, scorer_of, with_scores
    from trt_workbench.quantize.sensitivity import measure_sensitivity

    scored = worst > 0 and (scoring.annotations is not None or scoring.score is not None)
    half, opened = RANGES if scored else None, Model.open(model)
    with run_directory("sensitivity", output) as run, progress_bar("groups") as start, scratch_folder() as place:
        scorer = scorer_of(opened, calibration, scoring, Path(place)) if scored else None  # before what takes minutes
        calibrated = (
            calibrate(opened, calibration, start("Calibrating"), half) if read(precision)[0].is_calibrated else None
        )
        found = measure_sensitivity(
            opened, precision, calibrated, calibration, placement, half=half, on_progress=start("Measuring")
        )
        if scorer:
            found = with_scores(found, calibrated, calibration, placement, scorer, worst, start("Scoring"))
        write_json(run.path / "sensitivity.json", found)
        directory = run.commit("complete")
    if not found.calibrated:
        say("The ranges are from noise: NOT CALIBRATED.")
    present(directory, found, partial(_shown, found), as_json=as_json, debug=debug).end()


def _shown(found: Sensitivity, directory: Path) -> Parts:
    from trt_workbench.core.artefacts import read_environment
    from trt_workbench.quantize.sensitivity_report import brings, groups, proposed

    more, scored = len(found.groups) - _SHOWN, counted(found.scored or 0, "sample")
    whole = f"{found.sqnr_db:z.1f} dB" if found.sqnr_db is not None else "no noise"
    return [
        brings(found),
        proposed(found, read_environment(directory).command_line),
        groups(found, _SHOWN),
        f"and {counted(more, 'more group')}" if more > 0 else "",
        _KEPT if len(found.free) < len(found.groups) else "",
        f"Every group in {found.to}: {whole}, on {counted(found.samples, 'sample')}",
        "" if found.baseline is None else f"{found.figure} of the float model: {found.baseline:.4f} on {scored}",
    ]
