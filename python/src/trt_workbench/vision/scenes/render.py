"""Draws one generated scene and says what of each object can be seen."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.scenes.shapes import DISTRACTORS, SHAPES, Outline, place

Image = NDArray[np.float32]
"""float32 [H,W,3], BGR, nominally 0 to 255."""
Colour = NDArray[np.float32]
"""float32 [3], BGR, 0 to 255."""


def contrasting(rng: np.random.Generator, base: Colour, distance: float) -> Colour:
    """A random colour that lies `distance` from `base` (Euclidean, in BGR levels) where the cube allows it."""
    direction = rng.normal(size=3)
    direction /= np.linalg.norm(direction)
    # Flip the channels that would leave the cube.
    moved = base + distance * direction
    direction = np.where((moved < 0) | (moved > 255), -direction, direction)
    return np.clip(base + distance * direction, 0, 255).astype(np.float32)


def _mix(amount: NDArray[np.float32], first: Colour, second: Colour) -> Image:
    """Blend two colours by `amount` [H,W], 0 to 1."""
    return first + amount[..., None] * (second - first)


def _ramp(rng: np.random.Generator, height: int, width: int) -> NDArray[np.float32]:
    """Distance in pixels along a random direction, float32 [H,W]."""
    angle = rng.uniform(0, 2 * np.pi)
    x = np.arange(width, dtype=np.float32) * np.float32(np.cos(angle))
    return (np.arange(height, dtype=np.float32) * np.float32(np.sin(angle)))[:, None] + x[None, :]


def gradient(rng: np.random.Generator, height: int, width: int, first: Colour, second: Colour) -> Image:
    """A linear ramp from one colour to the other."""
    ramp = _ramp(rng, height, width)
    low, high = float(ramp.min()), float(ramp.max())
    return _mix((ramp - np.float32(low)) / np.float32(max(high - low, 1.0)), first, second)


def stripes(rng: np.random.Generator, height: int, width: int, first: Colour, second: Colour) -> Image:
    """Parallel stripes with soft or hard edges, 4 to 40 px wide."""
    period = np.float32(2 * np.pi / rng.uniform(8, 80))
    wave = np.sin(_ramp(rng, height, width) * period + np.float32(rng.uniform(0, 2 * np.pi)))
    sharpness = np.float32(rng.choice([0.5, 2.0, 8.0]))
    return _mix(np.clip(wave * sharpness + np.float32(0.5), 0, 1), first, second)


def checks(rng: np.random.Generator, height: int, width: int, first: Colour, second: Colour) -> Image:
    """A turned checkerboard."""
    size = rng.uniform(8, 40)
    angle = rng.uniform(0, np.pi / 2)
    x, y = np.arange(width, dtype=np.float32) / np.float32(size), np.arange(height, dtype=np.float32) / np.float32(size)
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    along = np.floor(x[None, :] * cos + y[:, None] * sin)
    across = np.floor(y[:, None] * cos - x[None, :] * sin)
    return _mix(np.mod(along + across, np.float32(2)), first, second)


def clouds(rng: np.random.Generator, height: int, width: int, first: Colour, second: Colour) -> Image:
    """Smooth noise: a coarse random grid, enlarged."""
    cells = int(rng.integers(3, 24))
    grid = rng.random((cells, cells, 3), dtype=np.float32)
    amount = cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)
    return first + np.clip(amount, 0, 1).astype(np.float32) * (second - first)


def blobs(rng: np.random.Generator, height: int, width: int, first: Colour, second: Colour) -> Image:
    """Many small spots of varied darkness on an even ground, blurred."""
    canvas = np.zeros((height, width), np.uint8)
    for _ in range(int(rng.integers(10, 40))):
        centre = (int(rng.integers(width)), int(rng.integers(height)))
        axes = (int(rng.integers(2, 28)), int(rng.integers(2, 28)))
        turn, level = float(rng.uniform(0, 180)), int(rng.integers(80, 256))
        cv2.ellipse(canvas, centre, axes, turn, 0, 360, level, -1)
    return _mix(cv2.blur(canvas, (9, 9)).astype(np.float32) / np.float32(255), first, second)


TEXTURES = (gradient, stripes, checks, clouds, clouds, blobs)


def background(rng: np.random.Generator, height: int, width: int) -> Image:
    """A whole-image texture of two colours, at times two textures blended; float32 [height,width,3]."""
    base = rng.uniform(0, 255, 3).astype(np.float32)
    image = np.zeros((height, width, 3), np.float32)
    layers = int(rng.integers(1, 3))
    for _ in range(layers):
        texture = TEXTURES[int(rng.integers(len(TEXTURES)))]
        second = contrasting(rng, base, rng.uniform(20, 130))
        image += texture(rng, height, width, base, second) / np.float32(layers)
    return image


def surface(rng: np.random.Generator, height: int, width: int, colour: Colour) -> Image:
    """What an object is made of: plain, shaded or patterned around `colour`; float32 [height,width,3]."""
    if rng.random() < 0.45:
        return np.broadcast_to(colour, (height, width, 3))
    return TEXTURES[int(rng.integers(4))](rng, height, width, colour, contrasting(rng, colour, rng.uniform(15, 70)))


def degrade(rng: np.random.Generator, image: Image) -> NDArray[np.uint8]:
    """Camera faults: blur, uneven exposure, sensor noise; returns uint8 of the same shape."""
    if rng.random() < 0.35:
        image = cv2.GaussianBlur(image, (0, 0), float(rng.uniform(0.5, 1.8))).astype(np.float32)
    if rng.random() < 0.5:
        contrast, mean = np.float32(rng.uniform(0.6, 1.1)), np.float32(image.mean())
        image = (image - mean) * contrast + np.float32(np.clip(mean + rng.uniform(-40, 40), 30, 225))
    if rng.random() < 0.5:
        # The difference of two even draws is triangular: near enough to sensor noise, at a tenth of normal()'s time.
        strength = np.float32(rng.uniform(4, 26) / 104)
        draws = rng.integers(0, 256, (2, *image.shape), dtype=np.uint8)
        image = image + cv2.subtract(draws[0], draws[1], dtype=cv2.CV_32F) * strength
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


SIDES = (240, 480)
"""Least and greatest side of an image, in pixels."""
MOST_OBJECTS = 12
EMPTY_SHARE = 0.04
MIN_VISIBLE = 0.35
"""An object with less of itself in sight is not part of the ground truth."""
RADII = (8.0, 110.0)
"""Least and greatest radius of an object, in pixels; drawn evenly on a logarithmic scale."""
_SUBPIXEL_BITS = 4
_OUTLINES = tuple(SHAPES.values())


@dataclass(frozen=True)
class Rendered:
    """One scene.

    Attributes:
        image: uint8 [H,W,3], BGR.
        masks: bool [H,W] for each object of the ground truth: the pixels where it is seen.
        labels: int64 [K], index into the classes, for the same objects.
    """

    image: NDArray[np.uint8]
    masks: list[NDArray[np.bool_]]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class _Item:
    """One thing to draw. `label` is -1 for a distractor."""

    label: int
    outline: Outline
    contrast: float


def render(seed: int, index: int) -> Rendered:
    """Draw scene `index` of the endless sequence that `seed` names. The same pair always gives the same scene."""
    rng = np.random.default_rng([seed, index])
    height, width = (int(side) for side in rng.integers(SIDES[0], SIDES[1] + 1, 2))
    canvas = background(rng, height, width)
    owner = np.full((height, width), -1, np.int16)
    items = _items(rng, height, width)
    areas = [_paint(rng, canvas, owner, number, item) for number, item in enumerate(items)]
    seen = np.bincount(owner.ravel() + 1, minlength=len(items) + 1)[1:]
    kept = [
        number
        for number, item in enumerate(items)
        if item.label >= 0 and areas[number] and seen[number] >= MIN_VISIBLE * areas[number]
    ]
    masks = [owner == number for number in kept]
    return Rendered(degrade(rng, canvas), masks, np.array([items[number].label for number in kept], np.int64))


def _items(rng: np.random.Generator, height: int, width: int) -> list[_Item]:
    """What to draw, in painting order: distractors lie among the objects and may hide them."""
    objects = 0 if rng.random() < EMPTY_SHARE else int(rng.integers(1, MOST_OBJECTS + 1))
    items: list[_Item] = []
    taken: list[tuple[float, float, float]] = []
    for _ in range(objects):
        label = int(rng.integers(len(_OUTLINES)))
        radius = min(float(np.exp(rng.uniform(*np.log(RADII)))), 0.45 * min(height, width))
        centre = _free_place(rng, height, width, radius, taken)
        items.append(_Item(label, place(_OUTLINES[label](rng), rng, centre, radius), _contrast(rng)))
    for _ in range(int(rng.integers(0, 6))):
        radius = float(rng.uniform(6, 60))
        centre = (float(rng.uniform(0, width)), float(rng.uniform(0, height)))
        outline = DISTRACTORS[int(rng.integers(len(DISTRACTORS)))](rng)
        item = _Item(-1, place(outline, rng, centre, radius), _contrast(rng))
        items.insert(int(rng.integers(len(items) + 1)), item)
    return items


def _contrast(rng: np.random.Generator) -> float:
    """Distance of an object's colour from the ground behind it, in BGR levels; one in eight hardly stands out."""
    return float(rng.uniform(20, 45) if rng.random() < 0.125 else rng.uniform(45, 220))


def _free_place(
    rng: np.random.Generator, height: int, width: int, radius: float, taken: list[tuple[float, float, float]]
) -> tuple[float, float]:
    """A centre for an object: mostly clear of the others, at times over them or across the image's edge."""
    crowded = rng.random() < 0.25
    inset = radius * float(rng.uniform(0.0, 1.0) if rng.random() < 0.2 else 1.0)
    x = y = 0.0
    for _ in range(12):
        x, y = float(rng.uniform(inset, width - inset)), float(rng.uniform(inset, height - inset))
        clear = all(np.hypot(x - other_x, y - other_y) > radius + other for other_x, other_y, other in taken)
        if crowded or clear:
            break
    taken.append((x, y, radius))
    return x, y


def _paint(rng: np.random.Generator, canvas: Image, owner: NDArray[np.int16], number: int, item: _Item) -> int:
    """Draw one item onto `canvas` and `owner` in place; returns its whole area in pixels, seen or not."""
    points = np.concatenate(item.outline)
    left, top = (int(value) for value in np.floor(points.min(axis=0)) - 1)
    right, bottom = (int(value) for value in np.ceil(points.max(axis=0)) + 2)
    cover = np.zeros((bottom - top, right - left), np.uint8)
    scale = np.float32(1 << _SUBPIXEL_BITS)
    local = [np.rint((contour - (left, top)) * scale).astype(np.int32) for contour in item.outline]
    cv2.fillPoly(cover, local, 255, cv2.LINE_AA, _SUBPIXEL_BITS)
    area = int(np.count_nonzero(cover > 127))

    rows = slice(max(top, 0), max(min(bottom, canvas.shape[0]), 0))
    columns = slice(max(left, 0), max(min(right, canvas.shape[1]), 0))
    window = canvas[rows, columns]
    if window.size == 0:
        return area
    cover = cover[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]
    colour = contrasting(rng, window.mean(axis=(0, 1)), item.contrast)
    alpha = cover[..., None].astype(np.float32) * np.float32(rng.uniform(0.92, 1.0) / 255)
    window += alpha * (surface(rng, window.shape[0], window.shape[1], colour) - window)
    owner[rows, columns][cover > 127] = number
    return area
