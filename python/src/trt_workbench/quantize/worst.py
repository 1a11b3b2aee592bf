"""The task's own score of the model with each of its noisiest groups alone in a lower precision."""

from __future__ import annotations

from pathlib import Path

from trt_workbench.core.files import scratch_folder
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import Calibrated, Progress, named
from trt_workbench.quantize.document import GroupScore, Sensitivity
from trt_workbench.quantize.held_out import scorer_of
from trt_workbench.quantize.sensitivity import Maker
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings, ScoreSettings


def with_scores(
    found: Sensitivity,
    calibrated: Calibrated | None,
    calibration: CalibrationSettings,
    placement: PlacementSettings,
    scoring: ScoreSettings,
    count: int,
    on_progress: Progress | None = None,
) -> Sensitivity:
    """Return a sensitivity with the scores of its noisiest groups.

    Args:
        found: the noise by group.
        calibrated: what the ranges come from.
        calibration: the data, of which the other half is scored.
        placement: as the noise was measured with.
        scoring: what the score is.
        count: how many groups.
        on_progress: called with the models scored and their total.

    Raises:
        UsageProblem: there is no such score, or the data do not fit it.
        CheckFailed: a model returns NaN or infinite values.
    """
    model = Model.open(Path(found.model))
    maker = Maker(model, found.to, calibrated, placement)
    names = [group.name for group in found.groups]
    with scratch_folder() as name:
        folder = Path(name)
        scorer = scorer_of(model, calibration, scoring, folder)
        before = folder / "float"
        before.mkdir()
        baseline = scorer.score(model.path, before, None)
        groups = list(found.groups)
        for place, group in enumerate(groups[:count]):
            made = maker.make([one for one in names if one != group.name], folder / model.path.name)
            after = folder / str(place)
            after.mkdir()
            with named(made.path, f"{model.path} with {group.name} alone in {found.to}"):
                score = scorer.score(made.path, after, before).against(baseline)
            value = GroupScore(value=score.value, loss=score.loss, loss_ci95=score.loss_ci95)
            groups[place] = group.model_copy(update={"score": value})
            if on_progress:
                on_progress(place + 1, min(count, len(names)))
    return found.model_copy(
        update={
            "groups": groups,
            "figure": scorer.figure,
            "scored": baseline.count,
            "baseline": baseline.value,
        }
    )
