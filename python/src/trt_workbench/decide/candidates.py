"""Candidates: the one way from a float model to one in another format, for every format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trt_workbench.decide.settings import CalibrationSettings, PlacementSettings
from trt_workbench.onnxtools.quantize.evidence import Evidence
from trt_workbench.onnxtools.quantize.kinds import To

if TYPE_CHECKING:
    from trt_workbench.decide.calibrate import Calibrated


@dataclass(frozen=True)
class Candidate:
    """A model in another format.

    Attributes:
        path: the ONNX file; its evidence lies beside it as `NAME.json` (`model.int8.onnx`: `model.int8.json`).
        to: the format.
        evidence: how it was made.
    """

    path: Path
    to: To
    evidence: Evidence


def make_candidate(
    model: Path,
    to: To,
    output: Path,
    *,
    calibration: CalibrationSettings | Calibrated | None = None,
    placement: PlacementSettings | None = None,
) -> Candidate:
    """Make `model` in the format `to` and write it whole or not at all.

    Args:
        model: a float ONNX file.
        to: the format.
        output: the ONNX file to write.
        calibration: the data, or what `calibrate` made of it (for several candidates of one model); formats with
            scales found while running (mxfp8, nvfp4) and those of weights alone need none.
        placement: what stays as it is, and how ranges are chosen; by default the format's own method, with what is
            known to be sensitive left alone.

    Returns:
        The candidate.

    Raises:
        UsageProblem: the model cannot be made so, is quantised already, or the data do not fit it.
    """
    raise NotImplementedError
