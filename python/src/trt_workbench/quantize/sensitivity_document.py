"""What `sensitivity` writes: how much each group of a model loses when it alone is in a lower precision."""

from __future__ import annotations

from typing import Literal

from pydantic import FiniteFloat, NonNegativeFloat, NonNegativeInt

from trt_workbench.core.documents import Strict
from trt_workbench.model.low_precision.kinds import Method


class GroupScore(Strict):
    """The task's own score of the model with one group in the lower precision.

    Attributes:
        value: of the figure.
        loss: the float model's score minus it.
        loss_ci95: ends of the 95 % interval of the loss over resamples of the samples, drawn for both models together.
    """

    value: FiniteFloat
    loss: FiniteFloat
    loss_ci95: tuple[FiniteFloat, FiniteFloat] | None


class GroupLoss(Strict):
    """One group.

    Attributes:
        name: of the group, as `--keep` takes it.
        op_type: its operation.
        macs_share: its share of the model's multiply-accumulates, as `low_macs` of a candidate counts them, 0 to 1.
        weights_share: its share of the weights' elements.
        noise: power of what it changes over the power of what is there, mean over the tensors that are looked at.
        sqnr_db: the same as -10 log10; None where it changes nothing.
        score: None where it was not scored.
    """

    name: str
    op_type: str
    macs_share: NonNegativeFloat
    weights_share: NonNegativeFloat
    noise: NonNegativeFloat
    sqnr_db: FiniteFloat | None
    score: GroupScore | None = None


class Sensitivity(Strict):
    """The document `sensitivity.json`.

    Attributes:
        model: path of the float model.
        model_sha256: its hash, external data included.
        to: the format.
        method: how ranges were chosen; None where the format has none.
        calibrated: whether ranges are from data.
        data_sha256: of the calibration data; None of noise, or where the format has no ranges.
        samples: how many samples the noise was measured on.
        seed: of everything drawn.
        tensors: where the noise was measured: what makes the outputs, or the outputs.
        noise: with every group in the format.
        sqnr_db: the same as -10 log10.
        groups: the noisiest first.
        left_out: groups that were not tried, with the reason.
        figure: name of the score; None where nothing was scored.
        scored: how many samples were scored.
        baseline: score of the float model.
        wall_s: how long it took.
    """

    schema_version: Literal[1] = 1
    model: str
    model_sha256: str
    to: str
    method: Method | None
    calibrated: bool
    data_sha256: str | None
    samples: NonNegativeInt
    seed: NonNegativeInt
    tensors: list[str]
    noise: NonNegativeFloat
    sqnr_db: FiniteFloat | None
    groups: list[GroupLoss]
    left_out: dict[str, str] = {}
    figure: str | None = None
    scored: NonNegativeInt = 0
    baseline: FiniteFloat | None = None
    wall_s: NonNegativeFloat = 0.0
