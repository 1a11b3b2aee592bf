"""The loop that eval-coco is measured against: read, letterbox, run, suppress, one image after the other.

It is written as most evaluation scripts are, with NumPy and OpenCV doing the work and no thread of its own. Prints one
JSON document with its speed, and its AP as proof that it does the same work.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

CONF, IOU, MAX_DETS, PAD = 0.001, 0.65, 300, 114


def letterbox(image: NDArray[np.uint8], height: int, width: int) -> tuple[NDArray[np.float32], float]:
    """Return the tensor float32 [1, 3, height, width], BGR, image at the top left, and the resizing ratio."""
    ratio = min(height / image.shape[0], width / image.shape[1])
    new_height, new_width = int(image.shape[0] * ratio), int(image.shape[1] * ratio)
    canvas = np.full((height, width, 3), PAD, np.uint8)
    canvas[:new_height, :new_width] = cv2.resize(image, (new_width, new_height), interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(canvas.transpose(2, 0, 1)[None], np.float32), ratio


def grid(height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the origin [A, 2] in cells and the stride [A, 1] of every cell of YOLOX's three levels."""
    origins, strides = [], []
    for stride in (8, 16, 32):
        rows, columns = np.mgrid[: height // stride, : width // stride]
        origins.append(np.stack([columns, rows], axis=-1).reshape(-1, 2))
        strides.append(np.full((len(origins[-1]), 1), stride))
    return np.concatenate(origins).astype(np.float32), np.concatenate(strides).astype(np.float32)


def decode(
    rows: NDArray[np.float32], origin: NDArray[np.float32], stride: NDArray[np.float32], ratio: float
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Return xywh boxes [K, 4] in source pixels, scores [K] and labels [K] of one image's output [A, 5 + classes]."""
    labels = rows[:, 5:].argmax(axis=1)
    scores = rows[:, 4] * rows[np.arange(len(rows)), 5 + labels]
    keep = scores >= CONF
    rows, origin, stride, labels, scores = rows[keep], origin[keep], stride[keep], labels[keep], scores[keep]
    centre, size = (rows[:, :2] + origin) * stride, np.exp(rows[:, 2:4]) * stride
    boxes = np.concatenate([centre - size / 2, size], axis=1) / ratio
    kept = np.asarray(cv2.dnn.NMSBoxesBatched(boxes, scores, labels, CONF, IOU), np.int64).reshape(-1)
    kept = kept[np.argsort(-scores[kept], kind="stable")][:MAX_DETS]
    return boxes[kept], scores[kept], labels[kept]


def evaluate(session: ort.InferenceSession, folder: Path, coco: COCO) -> tuple[list[dict[str, Any]], float]:
    """Run every image; return COCO's results and the seconds from the first read to the last box."""
    node = session.get_inputs()[0]
    height, width = node.shape[2:]
    origin, stride = grid(height, width)
    categories = sorted(coco.getCatIds())
    session.run(None, {node.name: np.zeros((1, 3, height, width), np.float32)})
    results = []
    start = time.perf_counter()
    for image in coco.loadImgs(sorted(coco.getImgIds())):
        pixels = cv2.imread(str(folder / image["file_name"]))
        tensor, ratio = letterbox(pixels, height, width)
        (output,) = session.run(None, {node.name: tensor})
        for box, score, label in zip(*decode(output[0], origin, stride, ratio), strict=True):
            result = {"image_id": image["id"], "category_id": categories[label], "bbox": box.tolist()}
            results.append({**result, "score": float(score)})
    return results, time.perf_counter() - start


def average_precision(coco: COCO, results: list[dict[str, Any]]) -> float:
    """Return pycocotools' AP."""
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0])


def main() -> None:
    """Measure one pass over the dataset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--annotations", type=Path, required=True)
    parser.add_argument("--intra-op", type=int, help="threads per run; by default ONNX Runtime's choice")
    asked = parser.parse_args()
    options = ort.SessionOptions()
    if asked.intra_op:
        options.intra_op_num_threads = asked.intra_op
    session = ort.InferenceSession(asked.model, options, providers=["CPUExecutionProvider"])
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(asked.annotations))
    results, seconds = evaluate(session, asked.data, coco)
    images = len(coco.getImgIds())
    document = {"images": images, "wall_s": seconds, "images_per_s": images / seconds}
    sys.stdout.write(json.dumps({**document, "AP": average_precision(coco, results)}) + "\n")


if __name__ == "__main__":
    main()
