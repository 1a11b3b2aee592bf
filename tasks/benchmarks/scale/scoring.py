"""What scoring costs: `python scoring.py [--images 5000] [--classes 80] [--per-image 100] [--rounds 3]`.

Makes annotations and detections of val2017's shape, and times the parts of eval-coco's scoring, pycocotools, and
faster-coco-eval where it is installed, in turns. Prints one JSON line: seconds of the processor, medians of the rounds,
and whether all three have the same twelve figures. pycocotools and faster-coco-eval are timed from the arrays to the
figures; eval-coco's scoring also has the 95 % intervals of the figures and of each class, the confusion matrix and the
kinds of errors.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from trt_workbench.core.statistics.bootstrap import draw_counts
from trt_workbench.vision.confusion import confuse
from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.matches import CocoMatches
from trt_workbench.vision.scores import score_detections

SIDE, OBJECTS = 640, 7.3  # objects of an image of val2017


def made(images: int, classes: int, per_image: int) -> tuple[GroundTruth, DetectionTable]:
    """Return annotations of all sizes, and detections near most of them and anywhere."""
    rng = np.random.default_rng(0)
    owners = np.sort(rng.integers(1, images + 1, round(images * OBJECTS)))
    sides = np.exp(rng.uniform(np.log(8), np.log(400), (len(owners), 2)))
    boxes = np.concatenate([rng.uniform(0, SIDE - sides), sides], axis=1)
    labels = rng.integers(1, classes + 1, len(owners))
    truth = GroundTruth(owners, labels, boxes, sides.prod(axis=1) * 0.7, rng.random(len(owners)) < 0.01)
    near = boxes + rng.normal(0, 0.08, boxes.shape) * np.tile(sides, 2)
    more = images * per_image - len(near)
    ids = np.concatenate([owners, rng.integers(1, images + 1, more)])
    sizes = np.exp(rng.uniform(np.log(8), np.log(400), (more, 2)))
    found = np.concatenate([near, np.concatenate([rng.uniform(0, SIDE - sizes), sizes], axis=1)])
    found[:, 2:] = np.maximum(found[:, 2:], 1)
    names = np.concatenate([labels, rng.integers(1, classes + 1, more)])
    scores = np.concatenate([rng.beta(4, 2, len(near)), rng.beta(1, 8, more)]).astype(np.float32)
    order = np.lexsort((-scores, ids))
    return truth, DetectionTable(ids[order], names[order], found[order].astype(np.float32), scores[order])


def by_coco(coco: type, evaluation: type, truth: GroundTruth, found: DetectionTable, images: int, classes: int) -> Any:
    """Return the twelve figures of pycocotools or of what has its classes."""
    columns = (truth.image_ids, truth.category_ids, truth.boxes, truth.areas, truth.crowd.astype(int))
    keys = ("image_id", "category_id", "bbox", "area", "iscrowd")
    rows = zip(*(one.tolist() for one in columns), strict=True)
    dataset = {
        "images": [{"id": number} for number in range(1, images + 1)],
        "categories": [{"id": number, "name": str(number)} for number in range(1, classes + 1)],
        "annotations": [{"id": place, **dict(zip(keys, row, strict=True))} for place, row in enumerate(rows, 1)],
    }
    columns = (found.image_ids, found.category_ids, found.boxes, found.scores)
    rows = zip(*(one.tolist() for one in columns), strict=True)
    results = [dict(zip((*keys[:3], "score"), row, strict=True)) for row in rows]
    expected = coco()
    expected.dataset = dataset
    expected.createIndex()
    made = evaluation(expected, expected.loadRes(results), iouType="bbox")
    made.evaluate()
    made.accumulate()
    made.summarize()
    return made.stats[:12]


def main() -> None:
    """Time all in turns."""
    parser = argparse.ArgumentParser()
    for name, default in (("images", 5000), ("classes", 80), ("per-image", 100), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    truth, found = made(asked.images, asked.classes, asked.per_image)
    ids, categories = np.arange(1, asked.images + 1), [Category(one, str(one)) for one in range(1, asked.classes + 1)]
    counts, shape = draw_counts(asked.images, 0), (truth, found, asked.images, asked.classes)
    matches: list[CocoMatches] = []
    parts: dict[str, Callable[[], Any]] = {
        "figures": lambda: np.array([*score_detections(truth, categories, found).figures.values()]),
        "matches": lambda: matches.append(CocoMatches(ids, truth, categories, found)),
        "intervals": lambda: matches[-1].figures(counts),
        "confusion": lambda: confuse(ids, tuple(categories), truth, found),
        "pycocotools": lambda: by_coco(COCO, COCOeval, *shape),
    }
    with contextlib.suppress(ImportError):
        from faster_coco_eval import COCO as FasterCoco
        from faster_coco_eval import COCOeval_faster

        parts["faster_coco_eval"] = lambda: by_coco(FasterCoco, COCOeval_faster, *shape)
    taken: dict[str, list[float]] = {name: [] for name in parts}
    kept: dict[str, Any] = {}
    for _ in range(asked.rounds):
        for name, work in parts.items():
            began = time.process_time()
            with contextlib.redirect_stdout(io.StringIO()):
                kept[name] = work()
            taken[name].append(time.process_time() - began)
    same = {name: bool((kept[name] == kept["figures"]).all()) for name in [*parts][4:]}
    record = {
        "schema_version": 1,
        **{name: getattr(asked, name) for name in ("images", "classes", "per_image", "rounds")},
        "annotations": len(truth),
        "detections": len(found),
        "resamples": len(counts),
        "cpu_s": {name: statistics.median(values) for name, values in taken.items()},
        "same_figures_as": same,
    }
    sys.stdout.write(f"{json.dumps(record)}\n")


if __name__ == "__main__":
    main()
