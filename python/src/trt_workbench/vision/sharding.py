"""Shards of an evaluation: what one leaves behind, and how they become the run that one process would have made."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Backend
from trt_workbench.backends.registry import gpu_in_use, require_backend
from trt_workbench.core.array_files import load_arrays, save_arrays
from trt_workbench.core.documents import json_values
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_arrays
from trt_workbench.core.shard import WHOLE
from trt_workbench.core.shard_files import (
    ShardRun,
    Shards,
    write_document,
    writing,
)
from trt_workbench.core.work import identity
from trt_workbench.model.opened import sha256_of
from trt_workbench.vision.dataset import READ_BY, CocoDataset, read_by
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.detections import DetectionTable, read_predictions, write_predictions
from trt_workbench.vision.document import STAGES
from trt_workbench.vision.forms.read import read_form
from trt_workbench.vision.loop import LoopResult
from trt_workbench.vision.scoring import NOTHING, CocoOutcome, Found, score
from trt_workbench.vision.settings import CocoSettings
from trt_workbench.vision.tasks.base import VisionTask
from trt_workbench.vision.tasks.registry import Boxes, task_of

if TYPE_CHECKING:
    from trt_workbench.vision.run import CocoEvaluation, CocoRequest

COMMAND: Final = "eval-coco"
FOUND: Final = "found.npz"
PART: Final = "part"
"""Folder of what is done, in the run directory of an evaluation that was interrupted."""
_IMAGES: Final = ("done", "sizes", "stages_ms")
_TABLE: Final = ("image_ids", "category_ids", "boxes", "scores")
# How fast the work is done, and on which of several alike devices.
_OF_MACHINE: Final = ("workers", "threads", "concurrency", "allow_unverified")


def what_decides(request: CocoRequest) -> dict[str, Any]:
    """Return what decides the result and is known before the work."""
    backend = require_backend(request.backend, request.model.suffix)
    data = read_form(request.images, request.annotations, request.split, request.exif)
    return _asked(request, backend, data.sha256)


def identified(evaluation: CocoEvaluation) -> dict[str, Any]:
    """Return what identifies the result, its times too, so that an interrupted run can be continued."""
    request = evaluation.request
    asked = _asked(request, evaluation.detector.backend, evaluation.dataset.sha256, timed=True)
    how = {name: getattr(request, name) for name in _OF_MACHINE}
    ran = json_values(_ran(evaluation.facts(), evaluation))
    return {**asked, "how": how, "ran": ran, "shard": request.shard and str(request.shard)}


def write_shard(folder: Path, evaluation: CocoEvaluation, found: Found) -> CocoOutcome:
    """Write what a shard, or what is done of a run, found: `predictions.json`, `found.npz` and `shard.json`; no scores.

    Raises:
        UsageProblem: a file cannot be written.
    """
    request, dataset, facts = evaluation.request, evaluation.dataset, evaluation.facts()
    shard, block = request.shard or WHOLE, evaluation.block
    whole = {
        "facts": facts,
        "images": str(dataset.folder.absolute()),
        "annotations": str(dataset.annotations.absolute()),
        **{name: getattr(request, name) for name in READ_BY},
        "detections": len(found.detections),
        "wall_s": found.result.wall_s,
        "read": found.read.counts(),
        "notes": found.notes,
    }
    with writing(folder):
        write_predictions(folder / "predictions.json", found.detections)
        save_arrays(folder / FOUND, _columns(found))
    document = write_document(
        folder,
        shard,
        block,
        command=COMMAND,
        unit="image",
        items=len(dataset.images),
        done=len(found.done),
        asked=_asked(request, evaluation.detector.backend, dataset.sha256),
        ran=json_values(_ran(facts, evaluation)),
        whole=json_values(whole),
    )
    said = {"images": document.done, "verification": facts["verification"], "shard": str(shard)}
    return CocoOutcome("complete" if document.is_whole else "partial", said)


def merge_shards(
    shards: Shards,
    folder: Path,
    *,
    notes: Sequence[str] = (),
    together: bool = False,
    ahead: Future[CocoDataset] | None = None,
) -> dict[str, Any]:
    """Score the images of all shards as one run, and write its files into `folder`.

    Args:
        shards: of this command.
        folder: an existing folder.
        notes: what the user should know besides, in sentences.
        together: whether all of them ran at the same time on this machine, so that the speed is that of all.
        ahead: the data set, as a model for boxes needs it, that is being read.

    Returns:
        The content of `metrics.json`.

    Raises:
        UsageProblem: a shard's files do not fit its shard.json, or the data set is gone or was changed.
    """
    whole = shards.first.whole
    facts, settings = whole["facts"], whole["facts"]["settings"]
    task = task_of(facts["model"]["task"])
    dataset = ahead.result() if ahead and task.name == Boxes.name else read_by({**settings, **whole}, task)
    if dataset.sha256 != shards.first.asked["data_sha256"]:
        raise UsageProblem(f"The annotations have changed since the shards were evaluated: {whole['annotations']}")
    parts = [(one.document.first, found_of(one, task)) for one in shards.runs]
    found = joined(parts, shards.first.items, together=together)
    if not len(found.done):
        raise UsageProblem(f"No image is done in these shards: {shards.runs[0].directory.parent}")
    if (np.diff(found.done) <= 0).any():
        raise UsageProblem(f"The shards' images overlap; {FOUND} was changed: {shards.runs[0].directory}")
    of_done = np.isin(found.detections.image_ids, found.done).all()
    if not of_done or not np.isin(found.done, [image.id for image in dataset.images]).all():
        raise UsageProblem(f"The shards are of images that the data set does not have: {whole['annotations']}")
    before = [note for one in shards.runs for note in one.document.whole["facts"]["notes"]]
    facts = {**facts, "notes": [*dict.fromkeys(before)], "shards": shards.facts()}
    found = replace(found, notes=[*dict.fromkeys([*found.notes, shards.text, *notes])])
    return score(folder, dataset, found, facts).metrics


def found_of(one: ShardRun, task: VisionTask) -> Found:
    """Return what a shard, or a part of a run, found. Raises UsageProblem where its files do not fit its shard.json."""
    arrays, table = _read(one, task)
    whole, done = one.document.whole, arrays["done"]
    read = ImageReader(whole["facts"]["settings"]["exif"])
    read.add(**whole["read"])
    every = np.ones(len(done), np.bool_)
    result = LoopResult(every, arrays["sizes"], arrays["stages_ms"], whole["wall_s"], interrupted=False)
    return Found(done, result, table, read, whole["notes"], (one.directory / "predictions.json",))


def joined(parts: Sequence[tuple[int, Found]], items: int, *, together: bool = False) -> Found:
    """Return what was found in several parts as that of one process.

    Args:
        parts: the place of the first image of each, and what it found; of half a part only the order of images counts.
        items: how many images all parts were asked for.
        together: whether they ran at the same time.
    """
    done, sizes, stages = np.zeros(items, np.bool_), np.zeros((items, 2), np.int32), np.zeros((items, len(STAGES)))
    founds = [found for _, found in parts]
    read = founds[0].read
    for first, found in parts:
        result, place = found.result, slice(first, first + len(found.done))
        done[place], sizes[place], stages[place] = True, result.sizes[result.done], result.stage_ms[result.done]
        if found.read is not read:
            read.add(**found.read.counts())
    detections = DetectionTable.joined([found.detections for found in founds])
    said = dict.fromkeys(note for found in founds for note in found.notes)
    return Found(
        np.concatenate([found.done for found in founds]),
        LoopResult(
            done,
            sizes,
            stages,
            (max if together else sum)(found.result.wall_s for found in founds),
            interrupted=not done.all(),
        ),
        detections,
        read,
        [note for note in said if not (len(detections) and note.startswith(NOTHING))],
        tuple(text for found in founds for text in found.texts) if all(found.texts for found in founds) else (),
    )


def _asked(request: CocoRequest, backend: Backend, data_sha256: str, *, timed: bool = False) -> dict[str, Any]:
    settings = {name: getattr(request, name) for name in CocoSettings.__dataclass_fields__ if name not in _OF_MACHINE}
    settings["options"] = {name: value for name, value in request.options.items() if name != "device"}
    return identity(
        {
            "model_sha256": sha256_of(request.model),
            "data_sha256": data_sha256,
            "split": request.split,
            "backend": backend.name,
            "settings": settings,
        },
        [gpu_in_use(backend.name, request.options)],
        timed=timed,
    )


def _ran(facts: dict[str, Any], evaluation: CocoEvaluation) -> dict[str, Any]:
    """Return what was chosen that decides the result."""
    settings = {name: value for name, value in facts["settings"].items() if name not in (*_OF_MACHINE, "options")}
    return {
        "family": facts["model"]["family"],
        "precision_ran": facts["precision_ran"],
        "chosen": settings,
        "tensorrt": facts["provenance"].get("tensorrt"),
        "engine_sha256": facts["provenance"].get("plan_sha256"),
        "classes_sha256": hash_arrays({"ids": evaluation.classes.ids, "kept": evaluation.classes.kept}),
        "prepared": facts["probe"] and facts["probe"]["chosen"],
    }


def _columns(found: Found) -> dict[str, NDArray[Any]]:
    """Return the images that are done and, of boxes alone, what was found, as the arrays of `FOUND`."""
    rows, table = np.flatnonzero(found.result.done), found.detections
    values = (found.done, found.result.sizes[rows], found.result.stage_ms[rows])
    columns = {} if table.extra else {name: getattr(table, name) for name in _TABLE}
    return {**dict(zip(_IMAGES, values, strict=True)), **columns}


def _read(one: ShardRun, task: VisionTask) -> tuple[dict[str, NDArray[Any]], DetectionTable]:
    """Return what a shard says of its images, and what it found."""
    known, arrays = one.document, load_arrays(one.directory / FOUND)
    is_boxes = "boxes" in arrays
    for name in (*_IMAGES, *(_TABLE if is_boxes else ())):
        if name not in arrays:
            raise UsageProblem(f"{FOUND} lacks {name}; it was changed: {one.directory}")
        one.require_count(FOUND, len(arrays[name]), known.done if name in _IMAGES else known.whole["detections"])
    if is_boxes:
        return arrays, DetectionTable(*(arrays[name] for name in _TABLE))  # type: ignore[arg-type]
    table = read_predictions(one.directory / "predictions.json", task)
    one.require_count("predictions.json", len(table), known.whole["detections"])
    return arrays, table
