"""The embedded detector with a branch for masks: prototypes of an image and, of each cell, what weighs them.

The design follows Bolya et al., "YOLACT: Real-time Instance Segmentation", 2019, in the layout of Ultralytics' exports.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from trt_workbench.core.workspace import embedded_model

sys.path.append(str(Path(__file__).resolve().parents[1] / "shapes-yolov10"))
from export import fold
from model import ConvBN, ShapesYolov10

PROTOTYPES = 32


class Raw(NamedTuple):
    """What the heads say: scores [N,A,C], 0 to 1, boxes [N,A,4] as x1, y1, x2, y2, coefficients [N,A,PROTOTYPES]."""

    scores: Tensor
    boxes: Tensor
    coefficients: Tensor
    prototypes: Tensor
    """[N,PROTOTYPES,IMAGE_SIZE/4,IMAGE_SIZE/4]: a mask's logits are their sum, weighed by its coefficients."""


class ShapesSegmenter(nn.Module):
    """The detector with its one-to-one head, as it was trained, and the branch, which alone is trained."""

    def __init__(self, classes: int, width: int = 40):
        super().__init__()
        self.detector = _trained(classes)
        self.coefficients = nn.ModuleList(
            nn.Sequential(ConvBN(cin, width, 3), ConvBN(width, width, 3), nn.Conv2d(width, PROTOTYPES, 1))
            for cin in (64, 96, 128)
        )
        self.near = nn.Sequential(ConvBN(64, width, 3), nn.Upsample(scale_factor=2.0, mode="nearest"))
        self.prototypes = nn.Sequential(
            ConvBN(width + 32, width, 3), ConvBN(width, width, 3), nn.Conv2d(width, PROTOTYPES, 1)
        )

    def raw(self, images: Tensor) -> Raw:
        """`images` [N,3,IMAGE_SIZE,IMAGE_SIZE], RGB, 0 to 1."""
        c4 = self.detector.stem(images)
        features = self.detector.neck(c4)
        scores, distances = self.detector.one_to_one(features)
        found = [branch(one).flatten(2) for branch, one in zip(self.coefficients, features, strict=True)]
        prototypes = self.prototypes(torch.cat([self.near(features[0]), c4], 1))
        boxes = self.detector.decode(distances)
        return Raw(scores.sigmoid().transpose(1, 2), boxes, torch.cat(found, 2).transpose(1, 2), prototypes)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is deployed: [N,4+C+PROTOTYPES,A], boxes as centre and size in input pixels, and prototypes."""
        raw = self.raw(images)
        low, high = raw.boxes.chunk(2, 2)
        rows = torch.cat([(low + high) / 2, high - low, raw.scores, raw.coefficients], 2)
        return rows.transpose(1, 2), raw.prototypes


def _trained(classes: int) -> ShapesYolov10:
    """Return the embedded detector without its one-to-many head, out of its ONNX file; it is not trained further."""
    detector = ShapesYolov10(classes)
    fold(detector)
    detector.one_to_many = None
    graph = onnx.load(embedded_model()).graph
    arrays = {one.name: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in graph.initializer}
    detector.load_state_dict({name: arrays[f"detector.{name}"] for name in detector.state_dict()})
    return detector.requires_grad_(False)
