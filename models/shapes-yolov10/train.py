"""Train the detector on generated scenes and export it.

    python train.py --output DIR [--images 80000] [--epochs 80] [--minutes M] [--batch 256] [--compile]

Writes training-log.jsonl (one line an epoch), weights.safetensors and shapes-yolov10.onnx into the output folder.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from data import Scenes, augment, draw
from export import export
from loss import detector_loss
from model import ShapesYolov10
from safetensors.torch import save_model
from score import coco_ap
from torch import Tensor, nn

from trt_workbench.vision.scenes.scenes import CLASSES

TRAINING_SEED, VALIDATION_SEED = 1, 2
"""Seeds of the scenes. The default evaluation set has another one, and plays no part here."""
EMA_DECAY = 0.999
WARM_UP_STEPS = 200
CLIP_NORM = 10.0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train the detector on generated scenes and export it.")
    parser.add_argument("--output", type=Path, required=True, help="folder for the log, the weights and the ONNX file")
    parser.add_argument("--images", type=int, default=80000, help="training scenes (default: %(default)s)")
    parser.add_argument("--validation-images", type=int, default=1000, help="scenes to watch AP on")
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--minutes", type=float, default=math.inf, help="finish within this time, drawing included")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="peak, at the end of the warm-up")
    parser.add_argument("--weight-decay", type=float, default=0.02)
    parser.add_argument("--score-every", type=int, default=10, help="epochs between two measurements of AP")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes that draw scenes")
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights, the order and the augmentation")
    parser.add_argument("--compile", action="store_true", help="compile the network: faster, after a minute's start")
    return parser.parse_args()


def optimiser(model: nn.Module, rate: float, decay: float) -> torch.optim.Optimizer:
    """AdamW; biases and the scales of normalisation do not decay."""
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=next(model.parameters()).is_cuda)


@dataclass(frozen=True)
class Pace:
    """How far training is: by its steps, or by the clock where that is further.

    Attributes:
        steps: in all.
        started: when training began, on the monotonic clock, in seconds.
        deadline: when it should end, on the same clock.
    """

    steps: int
    started: float
    deadline: float

    def progress(self, step: int) -> float:
        """0 at the start, 1 at the end."""
        elapsed = (time.monotonic() - self.started) / max(self.deadline - self.started, 1e-9)
        return min(max(step / self.steps, elapsed), 1.0)

    def rate_factor(self, step: int) -> float:
        """Share of the peak learning rate: linear warm-up, and half a cosine down to 1 %."""
        cosine = 0.01 + 0.99 * (1 + math.cos(math.pi * self.progress(step))) / 2
        return min((step + 1) / WARM_UP_STEPS, 1.0) * cosine


@torch.no_grad()
def follow(average: nn.Module, model: nn.Module, step: int) -> None:
    """Move the averaged weights and normalisation statistics towards the model's."""
    decay = min(EMA_DECAY, (1 + step) / (10 + step))
    ours, theirs = average.state_dict(), model.state_dict()
    names = [name for name, value in ours.items() if value.dtype.is_floating_point]
    torch._foreach_lerp_([ours[name] for name in names], [theirs[name] for name in names], 1 - decay)


class Trainer:
    """The network in training, its average, and what moves them."""

    def __init__(self, options: argparse.Namespace, device: torch.device, pace: Pace):
        self.model = ShapesYolov10(len(CLASSES)).to(device, memory_format=torch.channels_last)
        self.average = copy.deepcopy(self.model).requires_grad_(False).eval()
        self.optimiser = optimiser(self.model, options.learning_rate, options.weight_decay)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, pace.rate_factor)
        self.step = 0
        if options.compile:
            self.model.compile()

    def learn(self, images: Tensor, labels: Tensor, boxes: Tensor) -> dict[str, Tensor]:
        """One step on a batch of uint8 images; returns the losses."""
        pixels, labels, boxes = augment(images, labels, boxes)
        pixels = pixels.contiguous(memory_format=torch.channels_last)
        with torch.autocast(images.device.type, torch.bfloat16):
            losses = detector_loss(self.model, pixels, labels, boxes)
        self.optimiser.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        self.optimiser.step()
        self.schedule.step()
        self.step += 1
        follow(self.average, self.model, self.step)
        return {name: value.detach() for name, value in losses.items()}

    def epoch(self, scenes: Scenes, batch: int) -> dict[str, float]:
        """One pass over the scenes in random order; returns the mean losses."""
        order = torch.randperm(len(scenes.images), device=scenes.images.device)
        sums: dict[str, Tensor] = {}
        chunks = [chunk for chunk in torch.split(order, batch) if len(chunk) == batch]
        for chunk in chunks:
            losses = self.learn(scenes.images[chunk], scenes.labels[chunk], scenes.boxes[chunk])
            sums = {name: sums.get(name, 0) + value for name, value in losses.items()}
        return {name: round(float(value) / len(chunks), 4) for name, value in sums.items()}


def main() -> None:
    """Draw the scenes, train, log and export."""
    options = arguments()
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    options.output.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    scenes = draw(TRAINING_SEED, options.images, options.workers).to(device)
    validation = draw(VALIDATION_SEED, options.validation_images, options.workers).to(device)
    started = time.monotonic()
    print(f"drew {options.images + options.validation_images} scenes in {started - begun:.1f} s", flush=True)

    pace = Pace(options.epochs * (options.images // options.batch), started, begun + 60 * options.minutes)
    trainer = Trainer(options, device, pace)
    log = options.output / "training-log.jsonl"
    log.write_text("")
    finished, epoch = False, 0
    while not finished:
        epoch += 1
        rate = trainer.schedule.get_last_lr()[0]
        line = {"epoch": epoch, "learning_rate": round(rate, 6), **trainer.epoch(scenes, options.batch)}
        finished = pace.progress(trainer.step) >= 1
        if epoch % options.score_every == 0 or finished:
            line |= {f"val_{name}": round(value, 4) for name, value in coco_ap(trainer.average, validation).items()}
            save_model(trainer.average, str(options.output / "weights.safetensors"))
        line["seconds"] = round(time.monotonic() - started, 1)
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)
    export(trainer.average.cpu(), options.output / "shapes-yolov10.onnx")


if __name__ == "__main__":
    main()
