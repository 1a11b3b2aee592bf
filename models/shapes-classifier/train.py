"""Train the classifier on objects cut out of generated scenes and export it.

    python train.py --output DIR [--scenes 2000] [--epochs 24]

Writes training-log.jsonl (one line an epoch) and shapes-classifier.onnx into the output folder.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from trt_workbench.backends.images import ImageTransform
from trt_workbench.vision.letterbox import letterbox
from trt_workbench.vision.scenes.crops import crops
from trt_workbench.vision.scenes.scenes import CLASSES

sys.path.append(str(Path(__file__).resolve().parents[1] / "shapes-yolov10"))
from export import converted, fold, write

IMAGE_SIZE = 64
TRAINING_SEED, VALIDATION_SEED = 1, 2
"""Seeds of the scenes. The default evaluation set has another one, and plays no part here."""
VALIDATION_SCENES = 200
BATCH, LEARNING_RATE = 64, 4e-3
WIDTHS = (16, 32, 48, 64, 96)
METADATA = {
    "description": "Small classifier of shapes cut out of generated scenes",
    "author": "trt-workbench",
    "license": "Apache-2.0",
    "version": "1",
    "family": "classifier",
    "task": "classify",
    "batch": "1",
    "imgsz": str([IMAGE_SIZE, IMAGE_SIZE]),
    "names": str(dict(enumerate(CLASSES))),
}
"""metadata_props, with the keys and forms that Ultralytics' exporter writes, so that tools recognise the model."""


class ConvBN(nn.Sequential):
    """3x3 convolution without bias, batch normalisation, ReLU."""

    def __init__(self, cin: int, cout: int, stride: int):
        convolution = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class ShapesClassifier(nn.Module):
    """Five convolutions, the mean over the image, one layer of classes."""

    def __init__(self, classes: int):
        super().__init__()
        pairs = zip((3, *WIDTHS), WIDTHS, strict=False)
        self.body = nn.Sequential(
            *(ConvBN(cin, cout, 2 if place < 4 else 1) for place, (cin, cout) in enumerate(pairs))
        )
        self.head = nn.Linear(WIDTHS[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        """Images float32 [N,3,S,S], 0 to 1, to logits [N,classes]; in evaluation to scores, as Ultralytics exports."""
        logits: Tensor = self.head(self.body(images).mean((2, 3)))
        return logits if self.training else logits.softmax(1)


def draw(seed: int, scenes: int) -> tuple[Tensor, Tensor]:
    """Return the objects of scenes, uint8 [N,3,S,S] in RGB, and their labels, int64 [N]."""
    with multiprocessing.get_context("fork").Pool() as pool:
        parts = pool.starmap(_cut, ((seed, index) for index in range(scenes)), chunksize=16)
    found = [one for part in parts for one in part]
    images = torch.from_numpy(np.stack([image for image, _ in found]))
    return images, torch.tensor([label for _, label in found])


def _cut(seed: int, index: int) -> list[tuple[NDArray[np.uint8], int]]:
    cv2.setNumThreads(1)
    transform = ImageTransform(IMAGE_SIZE, IMAGE_SIZE, placement="crop", antialias=True)
    made = ((letterbox(image, transform)[0], label) for image, label in crops(seed, index))
    return [(np.ascontiguousarray(image[..., ::-1].transpose(2, 0, 1)), label) for image, label in made]


def augment(images: Tensor) -> Tensor:
    """Flip, turn by quarters, move, and change the brightness of a batch uint8 [N,3,S,S]; float32, 0 to 1."""
    pixels = images.float() / 255
    if torch.rand(()) < 0.5:
        pixels = pixels.flip(3)
    pixels = pixels.rot90(int(torch.randint(4, ())), (2, 3))
    count = len(pixels)
    theta = torch.eye(2, 3).repeat(count, 1, 1)
    theta[:, :, :2] *= torch.empty(count, 1, 1).uniform_(0.85, 1.15)
    theta[:, :, 2] = torch.empty(count, 2).uniform_(-0.12, 0.12)
    grid = functional.affine_grid(theta, list(pixels.shape), align_corners=False)
    pixels = functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)
    return pixels * torch.empty(count, 3, 1, 1).uniform_(0.8, 1.2) + torch.empty(count, 1, 1, 1).uniform_(-0.1, 0.1)


@torch.no_grad()
def top1(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of images whose best class is right."""
    model.eval()
    found = torch.cat([model(part.float() / 255).argmax(1) for part in images.split(256)])
    return float((found == labels).float().mean())


def train(options: argparse.Namespace) -> ShapesClassifier:
    """Train, with one line of the log an epoch."""
    images, labels = draw(TRAINING_SEED, options.scenes)
    validation = draw(VALIDATION_SEED, VALIDATION_SCENES)
    model = ShapesClassifier(len(CLASSES))
    print(f"{len(images)} objects, {sum(one.numel() for one in model.parameters())} parameters", flush=True)
    optimiser = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=0.02)
    steps = options.epochs * math.ceil(len(images) / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, steps, pct_start=0.1)
    with (options.output / "training-log.jsonl").open("w") as log:
        for epoch in range(1, options.epochs + 1):
            model.train()
            total = 0.0
            for rows in torch.randperm(len(images)).split(BATCH):
                loss = functional.cross_entropy(model(augment(images[rows])), labels[rows], label_smoothing=0.05)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                total += float(loss.detach()) * len(rows) / len(images)
            line = {"epoch": epoch, "loss": round(total, 4), "val_top1": round(top1(model, *validation), 4)}
            log.write(json.dumps(line) + "\n")
            print(line, flush=True)
    return model


def main() -> None:
    """Draw the objects, train, log and export."""
    parser = argparse.ArgumentParser(description="Train the classifier on objects of generated scenes and export it.")
    parser.add_argument("--output", type=Path, required=True, help="folder for the log and the ONNX file")
    parser.add_argument("--scenes", type=int, default=2000, help="training scenes (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights, the order and the augmentation")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # batches are so small that threads wait for one another
    options.output.mkdir(parents=True, exist_ok=True)
    model = train(options)
    fold(model)
    write(converted(model, IMAGE_SIZE, "shapes-classifier", METADATA), options.output / "shapes-classifier.onnx")


if __name__ == "__main__":
    main()
