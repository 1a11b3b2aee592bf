"""Scores on a half of the calibration data: AP with annotations, WER of utterances, else likeness to floats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

from trt_workbench.backends.preparation import Exif, Preparation
from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import scratch_folder
from trt_workbench.model.low_precision.kinds import RANDOM
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import Calibrated, Progress, named
from trt_workbench.quantize.data import HALVES, CalibrationData, Half, calibration_data, drawn, speech, spoken_in
from trt_workbench.quantize.document import GroupScore, Sensitivity
from trt_workbench.quantize.figures import COSINE, WER, metric_for, metric_of
from trt_workbench.quantize.scores import ANNOTATED
from trt_workbench.quantize.sensitivity import Maker
from trt_workbench.quantize.settings import AP, MOST_SCORED, CalibrationSettings, PlacementSettings, ScoreSettings
from trt_workbench.quantize.task import Detection, Likeness, Task
from trt_workbench.vision import (
    CALIBRATION_SPLIT,
    TASK_KEYS,
    CocoDataset,
    check_annotations,
    family_of,
    image_files,
    read_dataset,
    read_form,
    task_of,
)

RANGES, HELD_OUT = HALVES
"""The halves of the calibration data: ranges are found on one, and candidates scored on the other."""


def scorer_of(
    model: Model, calibration: CalibrationSettings, settings: ScoreSettings, folder: Path, half: Half = HELD_OUT
) -> Task:
    """Return what scores candidates of a model.

    Args:
        model: the float model.
        calibration: the data.
        settings: how they are scored.
        folder: where the annotations of the half are written.
        half: that is scored.

    Raises:
        UsageProblem: there is no such score, or the data do not fit it.
    """
    if calibration.calibration == RANDOM:
        raise UsageProblem("Noise gives no score; pass data with --calibration.")
    scored, asked = replace(calibration, samples=MOST_SCORED), (settings.score, settings.better)
    if spoken := spoken_in(model.path, calibration):
        metric_for(metric_of(WER), *asked)
        if settings.annotations is not None:
            raise UsageProblem("Utterances are scored by their words; remove --annotations.")
        chosen = drawn(len(spoken.utterances), scored, Path(spoken.source), half)
        return cast("Task", speech().WordsTask(spoken, chosen=tuple(chosen)))
    if settings.annotations is not None and not metric_of(*asked).takes_targets:
        metric_for(ANNOTATED, *asked)
        listed = labels_of(settings, calibration)
        data = calibration_data(model, scored, half)
        annotations = _of_half(listed, calibration.exif, data, folder / f"half-{half}.json")
        task = task_of(family_of(model, calibration).task)
        return Detection(
            listed.folder,
            annotations,
            Preparation.of(calibration),
            classes=calibration.classes,
            shown=(),
            threads=calibration.threads,
            seed=calibration.seed,
            **Detection.kept((AP,), task.decided_by),
        )
    metric = metric_for(COSINE, *asked)
    if settings.score is None and image_files(Path(calibration.calibration or "")):
        raise UsageProblem(
            "Images of a detector need --annotations for AP; --score cosine compares outputs with the float model's."
        )
    return Likeness.checked(model, scored, metric, settings.annotations, half)


def labels_of(settings: ScoreSettings, calibration: CalibrationSettings) -> CocoDataset:
    """Return the calibration images that have annotations.

    Raises:
        UsageProblem: the annotations cannot be used.
    """
    images, annotations = Path(calibration.calibration or ""), settings.annotations
    assert annotations is not None  # as the score is AP
    if not images.is_dir():
        raise UsageProblem(f"With --annotations, --calibration must be the folder of their images: {images}")
    split = settings.split or CALIBRATION_SPLIT
    listed = read_dataset(images, annotations, split=split, exif=calibration.exif, allow_missing=True)
    check_annotations(listed)
    return listed


def _of_half(listed: CocoDataset, exif: Exif, data: CalibrationData, path: Path) -> Path:
    """Write the annotations of the images of one half into `path`, which is returned."""
    names = {Path(name).resolve() for name in data.names}
    ids = {image.id for image in listed.images if listed.path(image).resolve() in names}
    if not ids:
        raise UsageProblem(f"The annotations list none of the calibration images: {listed.annotations}")
    document = read_form(listed.folder, listed.annotations, listed.split, exif, TASK_KEYS).document
    images = [one for one in document["images"] if one["id"] in ids]
    rows = [one for one in document["annotations"] if one["image_id"] in ids]
    marked = {"of_images": True} if listed.of_images else {}
    write_json(path, {**document, **marked, "images": images, "annotations": rows})
    return path


def with_scores(
    found: Sensitivity,
    calibrated: Calibrated | None,
    calibration: CalibrationSettings,
    placement: PlacementSettings,
    scorer: Task,
    count: int,
    on_progress: Progress | None = None,
) -> Sensitivity:
    """Return a sensitivity with the scores of its noisiest groups.

    Args:
        found: the noise by group.
        calibrated: what the ranges come from.
        calibration: the data, of which the other half is scored.
        placement: as the noise was measured with.
        scorer: of the other half, by `scorer_of`.
        count: how many groups.
        on_progress: called with the models scored and their total.

    Raises:
        CheckFailed: a model returns NaN or infinite values.
    """
    model = Model.open(Path(found.model))
    maker = Maker(model, found.to, calibrated, placement)
    names = [group.name for group in found.groups]
    with scratch_folder() as name:
        folder = Path(name)
        before = folder / "float"
        baseline = scorer.score(model.path, before, None, calibration.seed)
        groups = list(found.groups)
        for place, group in enumerate(groups[:count]):
            made = maker.make([one for one in names if one != group.name], folder / model.path.name)
            after = folder / str(place)
            with named(made.path, f"{model.path} with {group.name} alone in {found.to}"):
                score = scorer.score(made.path, after, before, calibration.seed).against(baseline)
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
