"""A small YOLOv10-style detector: C2f backbone, PAN neck, one-to-many and one-to-one heads, no NMS at inference.

The design follows Wang et al., "YOLOv10: Real-Time End-to-End Object Detection", 2024: two heads share the features,
the one-to-many head makes training rich, the one-to-one head alone is deployed and gives each object a single box.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

IMAGE_SIZE = 320
STRIDES = (8, 16, 32)
BINS = 16
"""Bins of the distance distribution (DFL): distances of 0 to 15 strides."""


class ConvBN(nn.Sequential):
    """Convolution without bias, batch normalisation and, unless `act` is off, SiLU."""

    def __init__(self, cin: int, cout: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: bool = True):
        super().__init__(
            nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(cout, eps=1e-3, momentum=0.03),
            nn.SiLU(inplace=True) if act else nn.Identity(),
        )


class Bottleneck(nn.Module):
    """Two 3x3 convolutions, with a shortcut if asked for."""

    def __init__(self, channels: int, shortcut: bool):
        super().__init__()
        self.body = nn.Sequential(ConvBN(channels, channels, 3), ConvBN(channels, channels, 3))
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """[N,C,H,W] to the same shape."""
        change: Tensor = self.body(x)
        return x + change if self.shortcut else change


class C2f(nn.Module):
    """Split in two, send one half through `depth` bottlenecks, and join every intermediate result."""

    def __init__(self, cin: int, cout: int, depth: int = 1, shortcut: bool = False):
        super().__init__()
        half = cout // 2
        self.enter = ConvBN(cin, cout)
        self.blocks = nn.ModuleList(Bottleneck(half, shortcut) for _ in range(depth))
        self.leave = ConvBN(half * (2 + depth), cout)

    def forward(self, x: Tensor) -> Tensor:
        """[N,cin,H,W] to [N,cout,H,W]."""
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        joined: Tensor = self.leave(torch.cat(parts, 1))
        return joined


class SCDown(nn.Sequential):
    """Halve the resolution: pointwise convolution for the channels, depthwise one for the stride."""

    def __init__(self, cin: int, cout: int):
        super().__init__(ConvBN(cin, cout), ConvBN(cout, cout, 3, 2, groups=cout, act=False))


class SPPF(nn.Module):
    """Pool at three growing sizes and join the results: context for large objects."""

    def __init__(self, channels: int):
        super().__init__()
        self.enter = ConvBN(channels, channels // 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.leave = ConvBN(channels * 2, channels)

    def forward(self, x: Tensor) -> Tensor:
        """[N,C,H,W] to the same shape."""
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        joined: Tensor = self.leave(torch.cat(parts, 1))
        return joined


class Head(nn.Module):
    """Class scores and box distances for every cell of the three maps, in separate branches."""

    def __init__(self, channels: tuple[int, ...], classes: int, width: int = 48):
        super().__init__()
        self.classes = classes
        boxes = [
            nn.Sequential(ConvBN(c, width, 3), ConvBN(width, width, 3), nn.Conv2d(width, 4 * BINS, 1)) for c in channels
        ]
        scores = [
            nn.Sequential(
                *(ConvBN(c, c, 3, groups=c), ConvBN(c, width), ConvBN(width, width, 3, groups=width)),
                *(ConvBN(width, width), nn.Conv2d(width, classes, 1)),
            )
            for c in channels
        ]
        for box, score, stride in zip(boxes, scores, STRIDES, strict=True):
            nn.init.ones_(box[-1].bias)
            # Start from about five objects an image, spread over classes and cells.
            nn.init.constant_(score[-1].bias, math.log(5 / classes / (IMAGE_SIZE / stride) ** 2))
        self.boxes, self.scores = nn.ModuleList(boxes), nn.ModuleList(scores)

    def forward(self, features: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Raw class scores [N,classes,A] and distance distributions [N,4*BINS,A] for A cells of all maps."""
        cells = [(IMAGE_SIZE // stride) ** 2 for stride in STRIDES]
        scores = [b(f).reshape(-1, self.classes, n) for b, f, n in zip(self.scores, features, cells, strict=True)]
        boxes = [b(f).reshape(-1, 4 * BINS, n) for b, f, n in zip(self.boxes, features, cells, strict=True)]
        return torch.cat(scores, 2), torch.cat(boxes, 2)


class ShapesYolov10(nn.Module):
    """The detector. It takes images of IMAGE_SIZE squared alone, so that every shape but the batch is static."""

    def __init__(self, classes: int):
        super().__init__()
        self.classes = classes
        self.stem = nn.Sequential(ConvBN(3, 16, 3, 2), ConvBN(16, 32, 3, 2), C2f(32, 32, 1, shortcut=True))
        self.to8 = nn.Sequential(ConvBN(32, 64, 3, 2), C2f(64, 64, 2, shortcut=True))
        self.to16 = nn.Sequential(SCDown(64, 96), C2f(96, 96, 2, shortcut=True))
        self.to32 = nn.Sequential(SCDown(96, 128), C2f(128, 128, 1, shortcut=True), SPPF(128))
        self.up16, self.up8 = C2f(128 + 96, 96), C2f(96 + 64, 64)
        self.down16, self.mix16 = ConvBN(64, 64, 3, 2), C2f(64 + 96, 96)
        self.down32, self.mix32 = SCDown(96, 96), C2f(96 + 128, 128)
        self.upsample = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.one_to_many = Head((64, 96, 128), classes)
        self.one_to_one = Head((64, 96, 128), classes)
        centres, strides = _cells()
        self.cells = len(centres)
        self.register_buffer("centres", centres, persistent=False)
        self.register_buffer("strides", strides, persistent=False)
        self.register_buffer("bins", torch.arange(BINS, dtype=torch.float32), persistent=False)

    centres: Tensor
    strides: Tensor
    bins: Tensor

    def features(self, images: Tensor) -> list[Tensor]:
        """Maps at strides 8, 16 and 32 of `images` [N,3,IMAGE_SIZE,IMAGE_SIZE], RGB, 0 to 1."""
        return self.neck(self.stem(images))

    def neck(self, c4: Tensor) -> list[Tensor]:
        """The same of what the stem makes of images, [N,32,IMAGE_SIZE/4,IMAGE_SIZE/4]."""
        c8 = self.to8(c4)
        c16 = self.to16(c8)
        c32 = self.to32(c16)
        p16 = self.up16(torch.cat([self.upsample(c32), c16], 1))
        p8 = self.up8(torch.cat([self.upsample(p16), c8], 1))
        p16 = self.mix16(torch.cat([self.down16(p8), p16], 1))
        return [p8, p16, self.mix32(torch.cat([self.down32(p16), c32], 1))]

    def forward(self, images: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Raw outputs of the one-to-many and of the one-to-one head, for training.

        The one-to-one head sees the features detached: the one-to-many head alone shapes them.
        """
        features = self.features(images)
        return self.one_to_many(features), self.one_to_one([feature.detach() for feature in features])

    def decode(self, distances: Tensor) -> Tensor:
        """Distance distributions [N,4*BINS,A] to boxes [N,A,4] as x1, y1, x2, y2 in input pixels."""
        shares = distances.reshape(-1, 4, BINS, self.cells).softmax(2)
        sides = (shares * self.bins.view(1, 1, BINS, 1)).sum(2) * self.strides
        near, far = sides.chunk(2, 1)
        centres = self.centres.T
        return torch.cat([centres - near, centres + far], 1).transpose(1, 2)


class Deployed(nn.Module):
    """The detector with its one-to-one head alone and the best `detections` of each image, best first."""

    def __init__(self, detector: ShapesYolov10, detections: int = 300):
        super().__init__()
        self.detector = detector
        self.detections = detections

    def forward(self, images: Tensor) -> Tensor:
        """`images` [N,3,IMAGE_SIZE,IMAGE_SIZE] to [N,detections,6]: x1, y1, x2, y2 in input pixels, score, class."""
        raw_scores, distances = self.detector.one_to_one(self.detector.features(images))
        boxes = self.detector.decode(distances)
        cells = self.detector.cells
        scores, index = raw_scores.sigmoid().reshape(-1, self.detector.classes * cells).topk(self.detections, 1)
        label = torch.div(index, cells, rounding_mode="trunc")
        cell = index - label * cells
        # Four columns of indices rather than expand(): that would export as a chain of shape operators.
        chosen = boxes.gather(1, torch.stack([cell] * 4, 2))
        return torch.cat([chosen, scores.unsqueeze(2), label.unsqueeze(2).to(scores.dtype)], 2)


def _cells() -> tuple[Tensor, Tensor]:
    """Centres [A,2] in pixels and strides [A] of the cells of all maps, row by row."""
    centres, strides = [], []
    for stride in STRIDES:
        steps = (torch.arange(IMAGE_SIZE // stride, dtype=torch.float32) + 0.5) * stride
        y, x = torch.meshgrid(steps, steps, indexing="ij")
        centres.append(torch.stack([x.flatten(), y.flatten()], 1))
        strides.append(torch.full((x.numel(),), float(stride)))
    return torch.cat(centres), torch.cat(strides)
