"""Backgrounds and surfaces of generated scenes: noise, gradients, stripes, blobs, checks."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.float32]
"""float32 [H,W,3], BGR, nominally 0 to 255."""
Colour = NDArray[np.float32]
"""float32 [3], BGR, 0 to 255."""


def random_colour(rng: np.random.Generator) -> Colour:
    """A colour drawn evenly from the whole cube."""
    return rng.uniform(0, 255, 3).astype(np.float32)


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
    y = np.arange(height, dtype=np.float32) * np.float32(np.sin(angle))
    return y[:, None] + x[None, :]


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
    blurred = cv2.blur(canvas, (9, 9))
    return _mix(blurred.astype(np.float32) / np.float32(255), first, second)


TEXTURES = (gradient, stripes, checks, clouds, clouds, blobs)


def background(rng: np.random.Generator, height: int, width: int) -> Image:
    """A whole-image texture of two colours, at times two textures blended; float32 [height,width,3]."""
    base = random_colour(rng)
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
    texture = TEXTURES[int(rng.integers(4))]
    return texture(rng, height, width, colour, contrasting(rng, colour, rng.uniform(15, 70)))


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
