"""Train masks for the embedded detector on generated scenes and export both.

    python train.py --output DIR [--steps 1200]

Writes training-log.jsonl (one line a hundred steps) and shapes-segmenter.onnx into the output folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import torch
from branch import ShapesSegmenter
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from trt_workbench.vision.scenes.render import MOST_OBJECTS, render
from trt_workbench.vision.scenes.scenes import CLASSES

sys.path.append(str(Path(__file__).resolve().parents[1] / "shapes-yolov10"))
from data import letterbox
from export import converted, fold, write
from loss import assign
from model import IMAGE_SIZE

TRAINING_SEED, VALIDATION_SEED = 11, 12
"""Seeds of the scenes: others than those of the detector, whose boxes are better on scenes that it has seen."""
VALIDATION_SCENES = 96
BATCH, LEARNING_RATE = 8, 3e-3
CELLS_PER_OBJECT = 2
LOG_EVERY = 100
METADATA = {
    "description": "Small segmenter of shapes in generated scenes",
    "author": "trt-workbench",
    "license": "Apache-2.0",
    "version": "1",
    "family": "yolov8-seg",
    "task": "segment",
    "stride": "32",
    "batch": "1",
    "imgsz": str([IMAGE_SIZE, IMAGE_SIZE]),
    "names": str(dict(enumerate(CLASSES))),
}
"""metadata_props, with the keys and forms that Ultralytics' exporter writes, so that tools recognise the model."""


class Scene(NamedTuple):
    """A letterboxed scene, or a batch of them.

    Attributes:
        image: uint8 [3,IMAGE_SIZE,IMAGE_SIZE], RGB.
        labels: int64 [MOST_OBJECTS], -1 where there is no object.
        boxes: float32 [MOST_OBJECTS,4], x1, y1, x2, y2 in input pixels.
        owners: uint8 [IMAGE_SIZE,IMAGE_SIZE], 1 + the object that is seen there, 0 for none.
    """

    image: Tensor
    labels: Tensor
    boxes: Tensor
    owners: Tensor


class Scenes(Dataset[Scene]):
    """The scenes that a seed names, drawn when they are asked for."""

    def __init__(self, seed: int, count: int):
        self.seed, self.count = seed, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Scene:
        cv2.setNumThreads(1)
        rendered = render(self.seed, index)
        canvas, _, left, top = letterbox(rendered.image)
        height, width = rendered.image.shape[:2]
        owners = np.zeros((height, width), np.uint8)
        labels, boxes = torch.full((MOST_OBJECTS,), -1), torch.zeros(MOST_OBJECTS, 4)
        scale = min(IMAGE_SIZE / height, IMAGE_SIZE / width)
        for place, (mask, label) in enumerate(zip(rendered.masks, rendered.labels, strict=True)):
            owners[mask] = place + 1
            labels[place] = int(label)
            x, y, wide, high = cv2.boundingRect(mask.astype(np.uint8))
            boxes[place] = torch.tensor([x, y, x + wide, y + high]) * scale + torch.tensor([left, top, left, top])
        shown = np.zeros((IMAGE_SIZE, IMAGE_SIZE), np.uint8)
        size = round(width * scale), round(height * scale)
        resized = cv2.resize(owners, size, interpolation=cv2.INTER_NEAREST_EXACT)
        shown[top : top + size[1], left : left + size[0]] = resized
        pixels = np.ascontiguousarray(canvas[..., ::-1].transpose(2, 0, 1))
        return Scene(torch.from_numpy(pixels), labels, boxes, torch.from_numpy(shown))


class Drawn(NamedTuple):
    """Masks of cells that are given an object, at half the input's size: logits, truth (0 to 1), inside the box."""

    logits: Tensor
    truth: Tensor
    inside: Tensor


def masks(model: ShapesSegmenter, scenes: Scene) -> Drawn:
    """Return the masks of the cells that are best aligned with each object."""
    raw = model.raw(scenes.image.float() / 255)
    given = assign(raw.scores, raw.boxes, scenes.labels, scenes.boxes, model.detector.centres, CELLS_PER_OBJECT)
    image, cell = given.positive.nonzero(as_tuple=True)
    objects = given.owner[image, cell]
    planes = [
        torch.einsum("kp,phw->khw", raw.coefficients[one, cell[image == one]], raw.prototypes[one])
        for one in range(len(scenes.image))
    ]
    logits = functional.interpolate(torch.cat(planes)[:, None], scale_factor=2.0, mode="bilinear")[:, 0]
    owned = (scenes.owners[image] == (objects + 1)[:, None, None]).float()
    x1, y1, x2, y2 = (scenes.boxes[image, objects] / 2).T[..., None]
    place = torch.arange(IMAGE_SIZE // 2) + 0.5
    across, down = (place > x1 - 1) & (place < x2 + 1), (place > y1 - 1) & (place < y2 + 1)
    return Drawn(logits, functional.avg_pool2d(owned[:, None], 2)[:, 0], down[:, :, None] & across[:, None])


def mask_loss(drawn: Drawn) -> Tensor:
    """Cross-entropy and Dice of each mask inside its box, so that large objects weigh as much as small ones."""
    inside = drawn.inside.float()
    entropy = functional.binary_cross_entropy_with_logits(drawn.logits, drawn.truth, reduction="none") * inside
    found, truth = drawn.logits.sigmoid() * inside, drawn.truth * inside
    overlap = (2 * (found * truth).sum((1, 2)) + 1) / (found.sum((1, 2)) + truth.sum((1, 2)) + 1)
    return (entropy.sum((1, 2)) / inside.sum((1, 2)).clamp(min=1) + 1 - overlap).mean()


@torch.no_grad()
def mean_iou(model: ShapesSegmenter, batches: list[Scene]) -> float:
    """Return the mean intersection over union of masks with their objects', both inside the object's box."""
    model.eval()
    values = []
    for batch in batches:
        drawn = masks(model, batch)
        found, truth = (drawn.logits > 0) & drawn.inside, (drawn.truth > 0.5) & drawn.inside
        values.append((found & truth).sum((1, 2)) / (found | truth).sum((1, 2)).clamp(min=1))
    return float(torch.cat(values).mean())


def train(options: argparse.Namespace) -> ShapesSegmenter:
    """Train the branch on scenes that are seen once each, with a line of the log for every hundred steps."""
    model = ShapesSegmenter(len(CLASSES))
    learned = [one for one in model.parameters() if one.requires_grad]
    print(f"{sum(one.numel() for one in learned)} parameters of masks", flush=True)
    optimiser = torch.optim.AdamW(learned, LEARNING_RATE, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, options.steps, pct_start=0.1)
    validation = list(DataLoader(Scenes(VALIDATION_SEED, VALIDATION_SCENES), BATCH))
    training = DataLoader(Scenes(TRAINING_SEED, options.steps * BATCH), BATCH, num_workers=1)
    started, total = time.monotonic(), 0.0
    with (options.output / "training-log.jsonl").open("w") as log:
        for step, batch in enumerate(training, 1):
            model.train()
            loss = mask_loss(masks(model, batch))
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(learned, 10.0)
            optimiser.step()
            schedule.step()
            total += float(loss.detach())
            if step % LOG_EVERY == 0 or step == options.steps:
                line = {"step": step, "loss": round(total / ((step - 1) % LOG_EVERY + 1), 4)}
                line |= {"val_iou": round(mean_iou(model, validation), 4)}
                line |= {"seconds": round(time.monotonic() - started, 1)}
                log.write(json.dumps(line) + "\n")
                log.flush()
                print(line, flush=True)
                total = 0.0
    return model


def main() -> None:
    """Train, log and export."""
    parser = argparse.ArgumentParser(description="Train masks for the embedded detector on generated scenes.")
    parser.add_argument("--output", type=Path, required=True, help="folder for the log and the ONNX file")
    parser.add_argument("--steps", type=int, default=1200, help=f"of {BATCH} scenes each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # the scenes are drawn on another processor meanwhile
    options.output.mkdir(parents=True, exist_ok=True)
    model = train(options)
    fold(model)
    document = converted(model, IMAGE_SIZE, "shapes-segmenter", METADATA, outputs=2)
    write(document, options.output / "shapes-segmenter.onnx")


if __name__ == "__main__":
    main()
