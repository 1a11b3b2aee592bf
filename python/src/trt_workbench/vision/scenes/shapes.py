"""Outlines of the shapes that generated scenes show: the classes to detect and the distractors among them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Contour = NDArray[np.float32]
Outline = list[Contour]
"""Closed polygons, float32 [V,2] each, around the origin with radius about 1; a second polygon is a hole."""


def _ellipse(rx: float = 1.0, ry: float = 1.0, vertices: int = 48) -> Contour:
    angle = np.linspace(0, 2 * np.pi, vertices, endpoint=False)
    return np.stack([rx * np.cos(angle), ry * np.sin(angle)], axis=1).astype(np.float32)


def circle(_: np.random.Generator) -> Outline:
    """A disc."""
    return [_ellipse()]


def square(_: np.random.Generator) -> Outline:
    """Four equal sides."""
    return [_ellipse(vertices=4)]


def triangle(_: np.random.Generator) -> Outline:
    """Three equal sides."""
    return [_ellipse(vertices=3)]


def hexagon(_: np.random.Generator) -> Outline:
    """Six equal sides."""
    return [_ellipse(vertices=6)]


def star(rng: np.random.Generator) -> Outline:
    """Five points, of varied depth."""
    points = _ellipse(vertices=10)
    points[1::2] *= np.float32(rng.uniform(0.38, 0.55))
    return [points]


def cross(rng: np.random.Generator) -> Outline:
    """Two bars of one width at a right angle."""
    a = rng.uniform(0.25, 0.4)
    arm = np.array([[1, -a], [1, a], [a, a]])
    quarter = np.array([[0, -1], [1, 0]])
    arms = [arm @ np.linalg.matrix_power(quarter.T, turn) for turn in range(4)]
    return [np.concatenate(arms).astype(np.float32)]


def ring(rng: np.random.Generator) -> Outline:
    """A disc with a round hole."""
    return [_ellipse(), _ellipse() * np.float32(rng.uniform(0.45, 0.7))]


def crescent(rng: np.random.Generator) -> Outline:
    """A disc less another of the same size that is moved aside."""
    shift = rng.uniform(0.5, 0.8)
    tip = np.arccos(shift / 2)
    outer = np.linspace(tip, 2 * np.pi - tip, 32)
    inner = np.linspace(np.pi + tip, np.pi - tip, 32)
    x = np.concatenate([np.cos(outer), shift + np.cos(inner)[1:-1]])
    y = np.concatenate([np.sin(outer), np.sin(inner)[1:-1]])
    return [np.stack([x + 0.3, y], axis=1).astype(np.float32)]


def bar(rng: np.random.Generator) -> Outline:
    """Distractor: a long rectangle."""
    a = rng.uniform(0.08, 0.3)
    return [np.array([[-1, -a], [1, -a], [1, a], [-1, a]], np.float32)]


def lens(rng: np.random.Generator) -> Outline:
    """Distractor: a flat ellipse."""
    return [_ellipse(1.0, rng.uniform(0.2, 0.5))]


def zigzag(rng: np.random.Generator) -> Outline:
    """Distractor: a band with sharp turns."""
    x = np.linspace(-1, 1, 6)
    y = np.where(np.arange(6) % 2, 0.35, -0.35) * rng.uniform(0.6, 1.2)
    width = rng.uniform(0.12, 0.3)
    upper, lower = np.stack([x, y + width], axis=1), np.stack([x, y - width], axis=1)
    return [np.concatenate([upper, lower[::-1]]).astype(np.float32)]


def splinter(rng: np.random.Generator) -> Outline:
    """Distractor: an irregular polygon."""
    angle = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(7, 12))))
    radius = rng.uniform(0.25, 1.0, angle.size)
    return [np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32)]


SHAPES: dict[str, Callable[[np.random.Generator], Outline]] = {
    "circle": circle,
    "square": square,
    "triangle": triangle,
    "star": star,
    "cross": cross,
    "ring": ring,
    "hexagon": hexagon,
    "crescent": crescent,
}
"""Class name to outline, in the order of the labels."""

DISTRACTORS: tuple[Callable[[np.random.Generator], Outline], ...] = (bar, lens, zigzag, splinter)


def place(outline: Outline, rng: np.random.Generator, centre: tuple[float, float], radius: float) -> Outline:
    """Turn the outline by a random angle, squeeze it a little and move it to `centre`; pixels, float32 [V,2] each."""
    angle = rng.uniform(0, 2 * np.pi)
    squeeze = np.diag([1.0, rng.uniform(0.8, 1.0)])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    # Squeeze between two turns: the flattened direction does not follow the shape's own axes.
    skew = rng.uniform(0, 2 * np.pi)
    lean = np.array([[np.cos(skew), -np.sin(skew)], [np.sin(skew), np.cos(skew)]])
    matrix = radius * (turn @ lean @ squeeze @ lean.T)
    return [(contour @ matrix.T + np.asarray(centre)).astype(np.float32) for contour in outline]
