"""Scenes as letterboxed arrays, drawn by many processes into shared memory, and their augmentation on the device."""

from __future__ import annotations

import mmap
import multiprocessing
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from model import IMAGE_SIZE
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from trt_workbench.vision.scenes.render import MOST_OBJECTS
from trt_workbench.vision.scenes.scenes import scene

PAD = 114


@dataclass(frozen=True)
class Scenes:
    """Letterboxed scenes.

    Attributes:
        images: uint8 [N,3,IMAGE_SIZE,IMAGE_SIZE], RGB.
        labels: int64 [N,MOST_OBJECTS], -1 where there is no object.
        boxes: float32 [N,MOST_OBJECTS,4], x1, y1, x2, y2 in input pixels.
    """

    images: Tensor
    labels: Tensor
    boxes: Tensor

    def to(self, device: torch.device) -> Scenes:
        """The same scenes on another device."""
        return Scenes(self.images.to(device), self.labels.to(device), self.boxes.to(device))


def letterbox(image: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], float, float, float]:
    """Scale [H,W,3] to fit the input, centred on grey; returns it with the scale and the offsets in x and y."""
    height, width = image.shape[:2]
    scale = min(IMAGE_SIZE / height, IMAGE_SIZE / width)
    new_width, new_height = round(width * scale), round(height * scale)
    left, top = (IMAGE_SIZE - new_width) // 2, (IMAGE_SIZE - new_height) // 2
    canvas = np.full((IMAGE_SIZE, IMAGE_SIZE, 3), PAD, np.uint8)
    resized = cv2.resize(image, (new_width, new_height), interpolation=cv2.INTER_LINEAR)
    canvas[top : top + new_height, left : left + new_width] = resized
    return canvas, scale, left, top


def draw(seed: int, count: int, workers: int) -> Scenes:
    """Draw scenes 0 to `count` - 1 of `seed` with `workers` processes."""
    images = _shared((count, 3, IMAGE_SIZE, IMAGE_SIZE), np.dtype(np.uint8))
    labels = _shared((count, MOST_OBJECTS), np.dtype(np.int64))
    boxes = _shared((count, MOST_OBJECTS, 4), np.dtype(np.float32))
    # Forked children write into the same pages: the images never pass through a pipe.
    context = multiprocessing.get_context("fork")
    shares = [range(first, count, workers) for first in range(workers)]
    processes = [context.Process(target=_fill, args=(seed, share, images, labels, boxes)) for share in shares]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            message = f"a process that draws scenes ended with code {process.exitcode}"
            raise RuntimeError(message)
    return Scenes(torch.from_numpy(images), torch.from_numpy(labels), torch.from_numpy(boxes))


def _shared(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """A zeroed array that forked processes share."""
    return np.frombuffer(mmap.mmap(-1, int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def _fill(
    seed: int,
    indices: range,
    images: NDArray[np.generic],
    labels: NDArray[np.generic],
    boxes: NDArray[np.generic],
) -> None:
    cv2.setNumThreads(1)
    for index in indices:
        image, found, classes = scene(seed, index)
        canvas, scale, left, top = letterbox(image)
        images[index] = canvas[..., ::-1].transpose(2, 0, 1)
        labels[index] = -1
        labels[index, : len(classes)] = classes
        corners = np.concatenate([found[:, :2], found[:, :2] + found[:, 2:]], axis=1) * np.float32(scale)
        boxes[index, : len(classes)] = corners + np.array([left, top, left, top], np.float32)


def augment(images: Tensor, labels: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Flip, scale, move and recolour a batch on its device.

    Args:
        images: uint8 [N,3,S,S].
        labels: int64 [N,M].
        boxes: float32 [N,M,4], x1, y1, x2, y2 in pixels.

    Returns:
        Images float32 [N,3,S,S], 0 to 1, with labels and boxes that follow them. An object of which less
        than two fifths stay inside is dropped (label -1).
    """
    count, device, size = len(images), images.device, images.shape[-1]
    pixels = (images.float() - PAD) / 255
    warped = torch.rand(count, 1, device=device) < 0.5
    zoom = torch.where(warped, torch.empty(count, 1, device=device).uniform_(0.75, 1.35), 1.0)
    flip = torch.where(torch.rand(count, 2, device=device) < 0.5, -1.0, 1.0)
    shift = torch.where(warped, torch.empty(count, 2, device=device).uniform_(-0.2, 0.2), 0.0)

    # A pixel at p (-1 to 1) goes to flip * zoom * p + shift; affine_grid wants the way back.
    factor = flip * zoom
    theta = torch.zeros(count, 2, 3, device=device)
    theta[:, 0, 0], theta[:, 1, 1], theta[:, :, 2] = 1 / factor[:, 0], 1 / factor[:, 1], -shift / factor
    grid = functional.affine_grid(theta, list(pixels.shape), align_corners=False)
    pixels = functional.grid_sample(pixels, grid, align_corners=False) + PAD / 255

    points = (boxes.reshape(count, -1, 2, 2) * (2 / size) - 1) * factor[:, None, None] + shift[:, None, None]
    points = (points + 1) * (size / 2)
    moved = torch.cat([points.amin(2), points.amax(2)], -1)
    kept = moved.clamp(0, size)
    inside = (kept[..., 2:] - kept[..., :2]).prod(-1) / (moved[..., 2:] - moved[..., :2]).prod(-1).clamp(min=1)
    return _recolour(pixels), torch.where(inside > 0.4, labels, -1), kept


def _recolour(pixels: Tensor) -> Tensor:
    """Exchange colour channels and vary exposure and contrast of a batch [N,3,S,S], 0 to 1."""
    count, device = len(pixels), pixels.device
    order = torch.rand(count, 3, device=device).argsort(1)
    pixels = pixels.gather(1, order[:, :, None, None].expand_as(pixels))
    gain = torch.empty(count, 3, 1, 1, device=device).uniform_(0.8, 1.2)
    return (pixels * gain + torch.empty(count, 1, 1, 1, device=device).uniform_(-0.1, 0.1)).clamp(0, 1)
