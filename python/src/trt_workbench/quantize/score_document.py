"""What a precision scores and loses, as decision.json holds it."""

from __future__ import annotations

from pydantic import FiniteFloat, NonNegativeInt

from trt_workbench.core.documents import Strict

Ends = tuple[FiniteFloat, FiniteFloat]


class ClassLoss(Strict):
    """What one class loses.

    Attributes:
        name: of the class.
        annotations: how many objects of it there are.
        value: its AP.
        baseline: its AP in the baseline.
        loss_ci95: 95 % interval of the difference over the same resamples; None where no resample has it.
    """

    name: str
    annotations: NonNegativeInt
    value: FiniteFloat
    baseline: FiniteFloat
    loss_ci95: Ends | None


class RowScore(Strict):
    """A score, and its distance from the baseline's on the same samples.

    Attributes:
        value: of the figure.
        ci95: its 95 % interval over resamples.
        loss: the baseline's value less this one.
        loss_ci95: 95 % interval of the loss over the same resamples of both (paired); None of the baseline itself.
        counted: whether every sample counts whole or not at all: then the intervals are Wilson's, not over resamples.
        figures: further figures by name.
        classes: of a detector, those that have annotations.
    """

    value: FiniteFloat
    ci95: Ends | None
    loss: FiniteFloat
    loss_ci95: Ends | None
    counted: bool = False
    figures: dict[str, FiniteFloat | None] = {}
    classes: list[ClassLoss] = []

    @property
    def is_widthless(self) -> bool:
        """Whether all resamples lose the same, as where nothing changed: that tells nothing of other samples."""
        return self.loss_ci95 is not None and self.loss_ci95[0] == self.loss_ci95[1]
