"""Training targets and losses: task-aligned assignment (Feng et al., "TOOD", 2021), CIoU and DFL."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from model import BINS, ShapesYolov10
from torch import Tensor
from torch.nn import functional

WEIGHTS = {"box": 7.5, "class": 0.5, "dfl": 1.5}
SCORE_POWER, OVERLAP_POWER = 0.5, 6.0
"""Alignment of a cell with an object: score ** SCORE_POWER * IoU ** OVERLAP_POWER. One measure for both heads."""
CELLS_PER_OBJECT = {"one_to_many": 10, "one_to_one": 1}
LEAST_REACH = 6.0
"""Half the side, in pixels, that a tiny object counts as having when cells inside it are looked for."""


def ciou(first: Tensor, second: Tensor) -> Tensor:
    """Complete IoU (Zheng et al., 2020) of boxes [...,4] as x1, y1, x2, y2; shapes broadcast."""
    epsilon = 1e-7
    x1, y1, x2, y2 = first.unbind(-1)
    u1, v1, u2, v2 = second.unbind(-1)
    w, h, p, q = x2 - x1, y2 - y1 + epsilon, u2 - u1, v2 - v1 + epsilon
    inter = (x2.minimum(u2) - x1.maximum(u1)).clamp(min=0) * (y2.minimum(v2) - y1.maximum(v1)).clamp(min=0)
    iou = inter / (w * h + p * q - inter + epsilon)
    span = (x2.maximum(u2) - x1.minimum(u1)) ** 2 + (y2.maximum(v2) - y1.minimum(v1)) ** 2 + epsilon
    apart = ((u1 + u2 - x1 - x2) ** 2 + (v1 + v2 - y1 - y2) ** 2) / 4
    aspect = 4 / math.pi**2 * (torch.atan(p / q) - torch.atan(w / h)) ** 2
    with torch.no_grad():
        weight = aspect / (aspect - iou + 1 + epsilon)
    return iou - apart / span - weight * aspect


@dataclass(frozen=True)
class Targets:
    """What each cell should say. `scores` [N,A,C]; `boxes` [N,A,4], `positive` bool [N,A], `owner` int64 [N,A]."""

    scores: Tensor
    boxes: Tensor
    positive: Tensor
    owner: Tensor


@torch.no_grad()
def assign(scores: Tensor, boxes: Tensor, labels: Tensor, truth: Tensor, centres: Tensor, count: int) -> Targets:
    """Give each object the `count` cells that are best aligned with it.

    Args:
        scores: predicted probabilities [N,A,C].
        boxes: predicted boxes [N,A,4], pixels.
        labels: classes of the objects [N,M], -1 where there is none.
        truth: boxes of the objects [N,M,4], pixels.
        centres: centres of the cells [A,2], pixels.
        count: cells for each object.

    Returns:
        The targets. The score of a positive cell is its alignment, scaled so that the best cell of an object
        gets that object's best IoU.
    """
    real = labels >= 0
    half = ((truth[..., 2:] - truth[..., :2]) / 2).clamp(min=LEAST_REACH)
    middle = (truth[..., 2:] + truth[..., :2]) / 2
    inside = ((centres[None, None] - middle[:, :, None]).abs() < half[:, :, None]).all(-1) & real[..., None]
    own_score = scores.transpose(1, 2).gather(1, labels.clamp(min=0)[..., None].expand(-1, -1, scores.shape[1]))
    overlap = ciou(truth[:, :, None], boxes[:, None]).clamp(min=0) * inside
    alignment = own_score**SCORE_POWER * overlap**OVERLAP_POWER

    best = alignment.topk(count, dim=-1).indices
    chosen = torch.zeros_like(inside).scatter_(-1, best, True) & inside
    # A cell that several objects want goes to the one that it overlaps most.
    contested = chosen.sum(1, keepdim=True) > 1
    winner = torch.zeros_like(chosen).scatter_(1, overlap.argmax(1, keepdim=True), True)
    chosen = torch.where(contested, winner & inside, chosen)

    positive, owner = chosen.any(1), chosen.int().argmax(1)
    alignment, overlap = alignment * chosen, overlap * chosen
    scaled = alignment / (alignment.amax(-1, keepdim=True) + 1e-9) * overlap.amax(-1, keepdim=True)
    label = labels.gather(1, owner).clamp(min=0)
    target = functional.one_hot(label, scores.shape[2]) * scaled.amax(1)[..., None]
    return Targets(target, truth.gather(1, owner[..., None].expand(-1, -1, 4)), positive, owner)


def head_loss(
    model: ShapesYolov10, raw: tuple[Tensor, Tensor], labels: Tensor, truth: Tensor, count: int
) -> dict[str, Tensor]:
    """Weighted losses of one head: `class`, `box` and `dfl`. Arguments as in `assign`; `raw` as `Head` returns it."""
    logits, distances = raw[0].float().transpose(1, 2), raw[1].float()
    boxes = model.decode(distances)
    targets = assign(logits.sigmoid(), boxes.detach(), labels, truth, model.centres, count)
    total = targets.scores.sum().clamp(min=1)
    class_loss = functional.binary_cross_entropy_with_logits(logits, targets.scores, reduction="sum") / total

    weight = targets.scores.sum(-1) * targets.positive / total
    box_loss = ((1 - ciou(boxes, targets.boxes)) * weight).sum()
    dfl_loss = (_dfl(model, distances, targets.boxes) * weight).sum()
    losses = {"class": class_loss, "box": box_loss, "dfl": dfl_loss}
    return {name: value * WEIGHTS[name] for name, value in losses.items()}


def _dfl(model: ShapesYolov10, distances: Tensor, truth: Tensor) -> Tensor:
    """Distribution focal loss (Li et al., 2020) [N,A]: cross-entropy with the two bins around the true distance."""
    x, y = model.centres.unbind(1)
    sides = [x - truth[..., 0], y - truth[..., 1], truth[..., 2] - x, truth[..., 3] - y]
    wanted = (torch.stack(sides, 1) / model.strides).clamp(0, BINS - 1 - 0.01)
    log_share = distances.reshape(-1, 4, BINS, model.cells).log_softmax(2)
    lower = wanted.long()
    upper_share = wanted - lower
    at_lower = log_share.gather(2, lower[:, :, None]).squeeze(2)
    at_upper = log_share.gather(2, lower[:, :, None] + 1).squeeze(2)
    return -(at_lower * (1 - upper_share) + at_upper * upper_share).mean(1)


def detector_loss(model: ShapesYolov10, images: Tensor, labels: Tensor, truth: Tensor) -> dict[str, Tensor]:
    """Losses of both heads by name, such as `one_to_one_box`; their sum is what training minimises."""
    losses = {}
    for (head, count), raw in zip(CELLS_PER_OBJECT.items(), model(images), strict=True):
        for name, value in head_loss(model, raw, labels, truth, count).items():
            losses[f"{head}_{name}"] = value
    return losses
