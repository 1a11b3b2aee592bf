"""Outputs of detectors at random, with what heads stumble over, and what their families make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import FoundBoxes, Head
from trt_workbench.backends.preparation import Preparation
from trt_workbench.backends.trt.session import head_spec
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.vision.families import DecodeSettings, Detections, Family, recognise
from trt_workbench.vision.feed import arrays_of

SIZE = (96, 160)
CELLS = sum((SIZE[0] // stride) * (SIZE[1] // stride) for stride in (8, 16, 32))
KINDS = ("yolov8", "yolov8 transposed", "yolox", "yolox raw", "yolov10", "detr", "detr classes", "detr-logits")
KINDS += (
    "detr-logits background",
    "detr-pixels",
    "yolov8-seg",
    "yolov8-pose transposed",
    "yolov10-seg",
    "yolov10-pose",
    "yolov10-obb",
)
Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """Outputs of a family, with the settings that they are read with."""

    family: Family
    outputs: Outputs
    settings: DecodeSettings

    @property
    def head(self) -> Head:
        head = self.family.head({name: array.shape for name, array in self.outputs.items()}, self.settings)
        assert head is not None
        return head

    def images(self) -> list[Outputs]:
        """The outputs of each image."""
        count = len(next(iter(self.outputs.values())))
        return [{name: array[at : at + 1] for name, array in self.outputs.items()} for at in range(count)]


def _found(find: Callable[[], list[Detections]]) -> list[NDArray[Any]] | None:
    """What a family finds in an image; None where it refuses."""
    try:
        return arrays_of(find()[0])
    except (UsageProblem, CheckFailed):
        return None


def check(native: Any, case: Case, how: str = "find_boxes_cpu") -> int:
    """Compare, and return in how many images both found boxes."""
    found = getattr(native, how)(head_spec(case.head, [*case.outputs]), [*case.outputs.values()])
    judged = 0
    for one, outputs in zip(found, case.images(), strict=True):
        theirs = _found(lambda outputs=outputs: case.family.decode(outputs, case.settings))
        ours = one and _found(lambda one=one: case.family.completed([FoundBoxes(*one)]))
        if theirs is None:
            assert ours is None
        elif ours is not None:  # what only the processor judges may be right
            judged += 1
            for one, other in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(one, other, strict=True)
    return judged


def random_case(rng: np.random.Generator, kind: str) -> Case:
    """Return a case of a kind: few or many candidates, equal scores, boxes of no area, and at times what is odd."""
    images = int(rng.integers(1, 4))
    classes = int(rng.choice([1, 3, 20]))
    family, outputs = _OUTPUTS[kind.split()[0]](rng, kind, images, classes)
    if rng.random() < 0.25:
        _spoil(rng, outputs)
    if rng.random() < 0.3 and max(float(np.nanmax(np.abs(array))) for array in outputs.values()) < 6e4:
        outputs = {n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in outputs.items()}
    iou = float(rng.choice([0.3, 0.5, 0.65, 0.7, 1.0])) if rng.random() < 0.8 else None
    most = 60 if "seg" in kind else 5000  # masks take their time
    settings = DecodeSettings(float(rng.choice([0.001, 0.05, 0.25, 0.9])), iou, int(rng.choice([1, 17, 300, most])))
    return Case(family, outputs, settings)


def family_of(name: str, outputs: Outputs, names: int | None = None, points: int = 0, **said: Any) -> Family:
    specs = [TensorSpec(key, str(array.dtype), (None, *array.shape[1:])) for key, array in outputs.items()]
    inputs = [TensorSpec("images", "float32", (None, 3, *SIZE))]
    if name == "detr-pixels":
        inputs.append(TensorSpec("orig_target_sizes", "int64", (None, 2)))
    metadata = {} if names is None else {"names": str({index: f"c{index}" for index in range(names)})}
    if points:
        metadata["kpt_shape"] = f"[{points}, 3]"
    return recognise(inputs, specs, metadata, Preparation(family=name, **said))


def _scores(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    """Return scores, few of them high, many of them equal."""
    values = rng.random(shape) ** rng.choice([1, 4, 40])
    if rng.random() < 0.5:
        values = np.round(values, 2)
    if rng.random() < 0.2:
        values[...] = 0.5
    return values.astype(np.float32)


def _boxes(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    """Return centres and sizes in pixels, some of them without area."""
    places = rng.uniform(-20, 180, (*shape, 2))
    sizes = rng.choice([0.0, 1e-9, 4.0, 40.0], (*shape, 2)) * rng.choice([1.0, rng.random()], (*shape, 2))
    values = np.concatenate([places, sizes], axis=-1)
    return (np.round(values) if rng.random() < 0.3 else values).astype(np.float32)


def _corners(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([boxes[..., :2], boxes[..., :2] + boxes[..., 2:]], axis=-1)


def _yolov8(rng: np.random.Generator, kind: str, images: int, classes: int) -> tuple[Family, Outputs]:
    array = np.concatenate([_boxes(rng, images, CELLS), _scores(rng, images, CELLS, classes)], axis=-1)
    outputs = {"output": array if "transposed" in kind else np.ascontiguousarray(array.swapaxes(1, 2))}
    return family_of("yolov8", outputs, classes), outputs


def _yolox(rng: np.random.Generator, kind: str, images: int, classes: int) -> tuple[Family, Outputs]:
    boxes = rng.normal(0, 1, (images, CELLS, 4)).astype(np.float32) if "raw" in kind else _boxes(rng, images, CELLS)
    scores = _scores(rng, images, CELLS, 1 + classes)
    outputs = {"output": np.concatenate([boxes, scores], axis=-1)}
    return family_of("yolox", outputs), outputs


def _rows(rng: np.random.Generator, images: int, classes: int) -> NDArray[np.float32]:
    count = int(rng.choice([1, 300, 3000]))
    labels = rng.integers(0, classes, (images, count, 1)).astype(np.float32)
    return np.concatenate([_corners(_boxes(rng, images, count)), _scores(rng, images, count, 1), labels], axis=-1)


def _yolov10(rng: np.random.Generator, _kind: str, images: int, classes: int) -> tuple[Family, Outputs]:
    outputs = {"output": _rows(rng, images, classes)}
    return family_of("yolov10", outputs, classes if rng.random() < 0.5 else None), outputs


def _detr(rng: np.random.Generator, kind: str, images: int, classes: int) -> tuple[Family, Outputs]:
    rows = _rows(rng, images, classes)
    rows[..., :4] /= 200
    if kind == "detr":
        return family_of("detr", {"output": rows}, 20), {"output": rows}
    outputs = {"output": np.concatenate([rows[..., :4], _scores(rng, *rows.shape[:2], classes)], axis=-1)}
    return family_of("detr", outputs, classes), outputs


def _detr_logits(rng: np.random.Generator, kind: str, images: int, classes: int) -> tuple[Family, Outputs]:
    queries = int(rng.choice([1, 100, 900]))
    background = str(rng.choice(["first", "last"])) if "background" in kind else "none"
    slots = classes + (background != "none")
    logits = rng.normal(-3, rng.choice([0.5, 4.0, 60.0]), (images, queries, slots)).astype(np.float32)
    if rng.random() < 0.5:
        logits = np.round(logits)
    outputs = {"pred_boxes": (_boxes(rng, images, queries) / 200).astype(np.float32), "logits": logits}
    return family_of("detr-logits", outputs, normalize="none", background=background), outputs


def _detr_pixels(rng: np.random.Generator, _kind: str, images: int, classes: int) -> tuple[Family, Outputs]:
    rows = _rows(rng, images, classes)
    labels = rows[..., 5].astype(rng.choice([np.int32, np.int64]))
    outputs = {"labels": labels, "boxes": np.ascontiguousarray(rows[..., :4]), "scores": rows[..., 4].copy()}
    return family_of("detr-pixels", outputs, normalize="none"), outputs


def _yolo_with_more(rng: np.random.Generator, kind: str, images: int, classes: int) -> tuple[Family, Outputs]:
    name, points = kind.split()[0], int(rng.choice([1, 17]))
    wide = {"pose": 3 * points, "seg": 8, "obb": 1}[name.split("-")[1]]
    spread = 1 if "obb" in name else 30
    if name.startswith("yolov8"):
        rows = np.concatenate([_boxes(rng, images, CELLS), _scores(rng, images, CELLS, classes)], axis=-1)
    else:
        rows = _rows(rng, images, classes)
    rows = np.concatenate([rows, rng.normal(0, spread, (*rows.shape[:2], wide)).astype(np.float32)], axis=-1)
    swap = name.startswith("yolov8") and "transposed" not in kind
    outputs = {"output": np.ascontiguousarray(rows.swapaxes(1, 2)) if swap else rows}
    if "seg" in name:
        planes = rng.normal(0, 1, (images, wide, SIZE[0] // 4, SIZE[1] // 4)).astype(np.float32)
        outputs = {"prototypes": planes} | outputs if rng.random() < 0.5 else outputs | {"prototypes": planes}
    return family_of(name, outputs, classes, points if "pose" in name else 0), outputs


ODD_BOXES = np.array(
    [
        [0, 0, 160, 96],  # all of the input, and more
        [-50.5, -40, 400, 300],
        [10, 10, 11, 11],  # a pixel, at either corner too
        [0, 0, 1, 1],
        [159, 95, 160, 96],
        [10.2, 10.2, 10.9, 10.9],  # none
        [10, 10, 10, 10],
        [50, 50, 40, 40],
        [200, 200, 300, 300],
        [-30, -20, -1, -1],
        [5, 0, 6, 96],  # a column, a row
        [0, 5, 160, 6],
        [0, 0, 33, 2],  # a bit more than a word
        [3, 1, 35, 50],
        [-5, -5, 3.5, 3.5],
        [150, 90, 400, 300],
    ],
    np.float32,
)
MASKS: dict[str, tuple[int, int, tuple[int, int, int], int]] = {  # images, boxes of each, prototypes, bits of a float
    "one image": (1, 60, (32, 24, 40), 32),
    "three images": (3, 60, (8, 24, 40), 32),
    "eight images": (8, 25, (32, 24, 40), 16),
    "no boxes": (2, 0, (32, 24, 40), 32),
    "300 boxes": (1, 300, (32, 24, 40), 32),
    "one prototype": (2, 40, (1, 12, 20), 32),
    "as large as the input": (1, 40, (3, 96, 160), 32),
    "of other ratios": (2, 40, (5, 7, 13), 32),
    "a pixel": (1, 40, (2, 1, 1), 32),
}


def masks_case(name: str) -> Case:
    """Return a case of boxes with masks, `ODD_BOXES` among them."""
    images, count, shape, bits = MASKS[name]
    rng = np.random.default_rng([*MASKS].index(name))
    drawn = _corners(_boxes(rng, images, 300))
    drawn[:, : len(ODD_BOXES)] = ODD_BOXES
    scores = rng.random((images, 300, 1)) * (np.arange(300)[:, None] < count)
    rows = [drawn, scores, np.zeros_like(scores), rng.normal(0, 1, (images, 300, shape[0]))]
    outputs = {"output": np.concatenate(rows, axis=-1), "prototypes": rng.normal(0, 1, (images, *shape))}
    outputs = {name: array.astype(f"float{bits}") for name, array in outputs.items()}
    return Case(family_of("yolov10-seg", outputs, 1), outputs, DecodeSettings())


_OUTPUTS = {
    **dict.fromkeys(("yolov8-seg", "yolov8-pose", "yolov10-seg", "yolov10-pose", "yolov10-obb"), _yolo_with_more),
    "yolov8": _yolov8,
    "yolox": _yolox,
    "yolov10": _yolov10,
    "detr": _detr,
    "detr-logits": _detr_logits,
    "detr-pixels": _detr_pixels,
}


def _spoil(rng: np.random.Generator, outputs: Outputs) -> None:
    """Put something in that no detector returns."""
    array = outputs[str(rng.choice(list(outputs)))]
    places = rng.integers(0, array.size, int(rng.choice([1, 5])))
    values = [-1, 1 << 40] if array.dtype.kind == "i" else [np.nan, np.inf, -np.inf, -0.5, 1.5, 7e8, 0.5]
    array.reshape(-1)[places] = np.array(values).astype(array.dtype)[rng.integers(len(values))]
