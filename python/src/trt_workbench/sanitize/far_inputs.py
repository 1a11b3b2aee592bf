"""Inputs of whole numbers that reach the ends of their type and the constants of a graph.

Of a time stamp that a subtraction brings back to 0, 1, 2, 3, fp32 and int32 keep nothing: small numbers do not show it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.model.constants import constants
from trt_workbench.model.opened import Model
from trt_workbench.model.proto import STANDARD
from trt_workbench.model.walking import nodes_within

# Inputs of operators where a number stays a number: at others it is a size, an index or a count, or may divide by 0.
_ROWS: tuple[tuple[tuple[int, ...], str], ...] = (
    ((0,), "Reshape Expand Tile Slice Gather GatherElements GatherND Squeeze Unsqueeze Split TopK Resize CumSum Trilu"),
    ((0,), "ReduceSum ReduceMax ReduceMin ReduceMean ReduceProd Div Mod BitShift"),
    ((0, 2), "ScatterND ScatterElements Pad"),
    ((2,), "OneHot"),
    ((), "ConstantOfShape Range Loop Scan ReverseSequence NonMaxSuppression Upsample"),
)
_DATA = {name: places for places, names in _ROWS for name in names.split()}
# Behind these, values are small again.
_FORGETS = frozenset({"Shape", "Size", "NonZero", "ArgMax", "ArgMin", "Sign"})
# Whole numbers beyond which types lose digits: uint8, fp16 and bf16, fp32, int32, fp64.
_STEPS = tuple(2**power for power in (8, 11, 24, 31, 53))
_MOST_CONSTANTS = 64


def far_inputs(model: Model, arrays: Mapping[str, NDArray[Any]], seed: int) -> list[dict[str, NDArray[Any]]]:
    """Return `arrays` with whole numbers far from 0, twice: over the whole range, and in steps of 1.

    Args:
        model: whose inputs these are.
        arrays: by input, of the shapes wanted.
        seed: of what is drawn.

    Returns:
        Nothing where every whole number is a size, an index or a count, which has to be small.
    """
    whole = [name for name, array in arrays.items() if array.dtype.kind in "iu" and "mask" not in name.lower()]
    numbers = [name for name in whole if _is_number(model, name)]
    if not numbers:
        return []
    known = _known(model)
    wide, steps = dict(arrays), dict(arrays)
    for name in numbers:
        array, limits = arrays[name], np.iinfo(arrays[name].dtype)
        generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
        near = {sign * one + step for one in (*known, *_STEPS) for sign in (1, -1) for step in (-1, 0, 1, 2)}
        # the least number has no negative: dividing it stops the process
        near |= {limits.max, -limits.max}
        drawn = sorted(one for one in near if limits.min < one <= limits.max)
        wide[name] = generator.choice(np.array(drawn, array.dtype), array.shape).astype(array.dtype)
        base = max((one for one in known if one <= limits.max - array.size), default=limits.max - array.size)
        steps[name] = (np.arange(array.size).astype(array.dtype) + array.dtype.type(max(base, 0))).reshape(array.shape)
    return [wide, steps]


def _known(model: Model) -> list[int]:
    """Return the absolute values of the largest constants of a graph, as whole numbers."""
    found: set[int] = set()
    for value in constants(model.proto.graph).values():
        if value.dtype.kind in "iuf" and value.size:
            largest = value.reshape(-1).astype(np.longdouble)
            found |= {int(one) for one in np.unique(np.abs(largest[np.isfinite(largest)]))[-_MOST_CONSTANTS:]}
    return sorted(found)[-_MOST_CONSTANTS:]


def _is_number(model: Model, name: str) -> bool:
    """Whether the values of an input become no size, index or count anywhere."""
    nodes = list(nodes_within(model.proto.graph.node))
    waiting, seen = [name], {name}
    while waiting:
        read = waiting.pop()
        for node in (one for one in nodes if read in one.input):
            places = [place for place, one in enumerate(node.input) if one == read]
            data = _DATA.get(node.op_type, places)
            if node.domain not in STANDARD or not set(places) <= set(data):
                return False
            if node.op_type not in _FORGETS:
                made = {one for one in node.output if one and model.index.facts(one).dtype != "bool"} - seen
                waiting += made
                seen |= made
    return True
