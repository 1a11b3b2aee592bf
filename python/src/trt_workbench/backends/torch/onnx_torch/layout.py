"""Operators that move, select or make elements. Semantics: the ONNX operator documentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Ints = Sequence[int]


def reshape(x: Tensor, shape: Ints, *, allowzero: int = 0) -> Tensor:
    """Reshape; a 0 copies the dimension unless allowzero."""
    return x.reshape([x.shape[i] if dim == 0 and not allowzero else dim for i, dim in enumerate(shape)])


def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """Two dimensions, split before `axis`."""
    rows = math.prod(x.shape[: axis if axis >= 0 else axis + x.ndim])
    return x.reshape(rows, -1) if rows else x.reshape(0, 1)


def transpose(x: Tensor, *, perm: Ints | None = None) -> Tensor:
    """Permute dimensions; reverse them by default."""
    return x.permute(*(perm if perm is not None else range(x.ndim - 1, -1, -1))) if x.ndim else x


def squeeze(x: Tensor, axes_input: Ints | int | None = None, *, axes: Ints | None = None) -> Tensor:
    """Drop dimensions of size 1."""
    chosen = axes_input if axes_input is not None else axes
    return x.squeeze() if chosen is None else x.squeeze([chosen] if isinstance(chosen, int) else list(chosen))


def unsqueeze(x: Tensor, axes_input: Ints | int | None = None, *, axes: Ints | None = None) -> Tensor:
    """Add dimensions of size 1 at places of the result."""
    given = axes_input if axes_input is not None else axes
    chosen = [given] if isinstance(given, int) else list(given or ())
    rank = x.ndim + len(chosen)
    for axis in sorted(axis % rank for axis in chosen):
        x = x.unsqueeze(axis)
    return x


def concat(*tensors: Tensor, axis: int) -> Tensor:
    """Join along an axis."""
    return torch.cat(tensors, axis)


def split(
    x: Tensor, sizes: Ints | None = None, *, outputs: int, axis: int = 0, split: Ints | None = None, **given: int
) -> tuple[Tensor, ...]:
    """Cut into pieces of the sizes given, else into equal ones of which the last may be smaller."""
    wanted = sizes if sizes is not None else split
    if wanted is not None:
        return torch.split(x, list(wanted), axis)
    return torch.split(x, -(-x.shape[axis] // given.get("num_outputs", outputs)), axis)


def slice_(x: Tensor, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None) -> Tensor:
    """Cut out ranges; a negative step goes backwards."""
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = axes[place] if axes is not None else place
        step = steps[place] if steps is not None else 1
        if step > 0:
            index: list[Any] = [slice(None)] * x.ndim
            index[axis] = slice(start, end, step)
            x = x[tuple(index)]
        else:
            places = range(*slice(start, end if end >= -x.shape[axis] else None, step).indices(x.shape[axis]))
            x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64, device=x.device))
    return x


def slice_by_attributes(x: Tensor, *, starts: Ints, ends: Ints, axes: Ints | None = None) -> Tensor:
    """Slice before opset 10."""
    return slice_(x, starts, ends, axes)


def gather(x: Tensor, indices: Tensor | Ints | int, *, axis: int = 0) -> Tensor:
    """Select along an axis by indices of any rank; a fixed index selects without a tensor of indices."""
    if isinstance(indices, int):
        return x.select(axis, indices)
    if not isinstance(indices, Tensor):
        indices = torch.tensor(list(indices), dtype=torch.int64, device=x.device)
    axis %= x.ndim
    flat = torch.where(indices < 0, indices + x.shape[axis], indices).reshape(-1)
    return x.index_select(axis, flat).reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Select element by element along an axis."""
    return torch.gather(x, axis, _positive(indices, x.shape[axis]))


def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Select by index tuples in the last dimension."""
    depth = indices.shape[-1]
    batch = list(x.shape[:batch_dims])
    lead = [torch.arange(size, device=x.device) for size in batch]
    grids = torch.meshgrid(*lead, indexing="ij") if lead else ()
    rest = indices.ndim - 1 - batch_dims
    batch_index = [grid.reshape(*grid.shape, *([1] * rest)) for grid in grids]
    return x[(*batch_index, *(indices[..., place] for place in range(depth)))]


_SCATTER = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    """Put elements along an axis."""
    places = _positive(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, _SCATTER[reduction])


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Put slices by index tuples in the last dimension."""
    depth = indices.shape[-1]
    sizes = x.shape[:depth]
    flat = torch.zeros_like(indices[..., 0])
    for place, size in enumerate(sizes):
        flat = flat * size + _positive(indices[..., place], size)
    rows = x.reshape(-1, *x.shape[depth:])
    values = updates.reshape(-1, *x.shape[depth:])
    flat = flat.reshape(-1)
    if reduction == "none":
        return rows.index_copy(0, flat, values).reshape(x.shape)
    places = flat.reshape(-1, *([1] * (rows.ndim - 1))).expand_as(values)
    return rows.scatter_reduce(0, places, values, _SCATTER[reduction]).reshape(x.shape)


def _positive(indices: Tensor, size: int) -> Tensor:
    return torch.where(indices < 0, indices + size, indices)


def expand(x: Tensor, shape: Ints) -> Tensor:
    """Broadcast to a shape, in both directions."""
    return x.expand(torch.broadcast_shapes(tuple(x.shape), tuple(shape)))  # type: ignore[no-untyped-call]


def tile(x: Tensor, repeats: Ints) -> Tensor:
    """Repeat along every dimension."""
    return x.repeat(tuple(repeats))


def pad(
    x: Tensor,
    pads: Ints,
    value: float | Sequence[float] | None = None,
    axes: Ints | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Pad at the beginnings and the ends; negative numbers crop."""
    chosen = [axis % x.ndim for axis in axes] if axes is not None else list(range(x.ndim))
    fill = value[0] if isinstance(value, Sequence) else value or 0
    if mode == "constant":
        widths = [0] * (2 * x.ndim)
        for place, axis in enumerate(chosen):
            widths[2 * (x.ndim - 1 - axis)] = pads[place]
            widths[2 * (x.ndim - 1 - axis) + 1] = pads[place + len(chosen)]
        return F.pad(x, widths, value=fill)
    for place, axis in enumerate(chosen):
        before, after = pads[place], pads[place + len(chosen)]
        x = x.index_select(axis, _border(x.shape[axis], before, after, mode, x.device))
    return x


def _border(size: int, before: int, after: int, mode: str, device: torch.device) -> Tensor:
    places = torch.arange(-before, size + after, device=device)
    if mode == "edge":
        return places.clamp(0, size - 1)
    if mode == "wrap":
        return places % size
    period = max(2 * (size - 1), 1)
    places = places.abs() % period
    return torch.where(places >= size, period - places, places)


def pad_by_attributes(x: Tensor, *, pads: Ints, value: float = 0.0, mode: str = "constant") -> Tensor:
    """Pad before opset 11."""
    return pad(x, pads, value, mode=mode)


def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Move channels into blocks of pixels."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)
    return F.pixel_shuffle(x, b)


def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Move blocks of pixels into channels."""
    if mode == "CRD":
        return F.pixel_unshuffle(x, blocksize)
    n, c, h, w = x.shape
    b = blocksize
    return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


def trilu(x: Tensor, k: Ints | int = 0, *, upper: int = 1) -> Tensor:
    """Upper or lower triangle."""
    offset = k if isinstance(k, int) else k[0]
    return torch.triu(x, offset) if upper else torch.tril(x, offset)


def one_hot(indices: Tensor, depth: Ints | int, values: Tensor, *, axis: int = -1) -> Tensor:
    """One value at the index, another elsewhere, along a new axis."""
    size = int(depth) if isinstance(depth, int | float) else int(depth[0])
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    shape = [1] * (indices.ndim + 1)
    shape[axis] = size
    places = torch.where(indices < 0, indices + size, indices).unsqueeze(axis)
    hit = torch.arange(size, device=indices.device).reshape(shape) == places
    return torch.where(hit, values[1], values[0])


def non_zero(x: Tensor) -> Tensor:
    """Indices of non-zero elements, one column each."""
    return torch.nonzero(x).T


OPERATORS: dict[str, Callable[..., Any]] = {
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "NonZero": non_zero,
    "OneHot": one_hot,
    "Pad": pad,
    "Reshape": reshape,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
}
# What an operator was before some opset.
OLDER: dict[str, tuple[int, Callable[..., Any]]] = {"Slice": (10, slice_by_attributes), "Pad": (11, pad_by_attributes)}
HOST_INPUTS = {
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}
