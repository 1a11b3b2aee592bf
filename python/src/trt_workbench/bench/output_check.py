"""Whether what is timed is right: the outputs of one call against those of the same model in a reference.

A wrong engine is no less fast: fused kernels have been seen that compute the first row of a batch rightly and every
further one wrongly, so each row of a batch is compared by itself and the worst one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.compare import RowDifferences, compare_rows
from trt_workbench.core.elements import kind
from trt_workbench.core.precision import FAULT, FORMATS, MATCH, find, get, known, ordered, parse

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Tolerance:
    """Relative L2 errors of a row.

    Attributes:
        usual: beyond it outputs are reported as far from the reference.
        wrong: beyond it they are wrong.
        exact: whether integers and booleans must be equal except for what rounding explains; if not, the limits are of
            the share of them that differ.
    """

    usual: float
    wrong: float
    exact: bool = True

    def where(self, rounding: float) -> Tolerance:
        """Return the limits for an output that rounding alone takes so far from the reference.

        Args:
            rounding: error that copies with the precision's own rounding make on the same inputs.
        """
        explained = min(_MARGIN * rounding, _MOST)
        return Tolerance(max(self.usual, min(explained, _MOST_USUAL)), max(self.wrong, explained))


# As verify's yardstick: the worst of a few copies is not the worst there is. A fault is off by about 1.
_MARGIN, _MOST = 2.0, 0.75
# Beyond it a comparison says too little to call outputs matched, as in verify: a mask of another image is right in half
# of its elements.
_MOST_USUAL = 0.25

IMAGES = Tolerance(2e-2, 0.1)
"""The least where images are letterboxed: on a GPU the pixels are rounded otherwise than on the host."""
# They choose among candidates: near ties come in another order, and the last ones may be others.
_CHOOSING = frozenset({"TopK", "NonMaxSuppression"})


def tolerance(precision: str, model: Path, *, tf32: bool, images: bool) -> Tolerance:
    """Return how far the precisions in use may take outputs from the reference.

    Args:
        precision: asked of the backend, such as "fp16" or "int8+fp16".
        model: ONNX file; its own types count, too.
        tf32: whether matrix products may use TF32.
        images: whether the inputs are letterboxed.

    Raises:
        UsageProblem: the model cannot be read.
    """
    allowed = of_format(rounds_in(precision, model, tf32=tf32))
    return replace(max(allowed, IMAGES, key=lambda one: one.wrong), exact=False) if images else allowed


def of_format(precision: str | None) -> Tolerance:
    """Return the limits of a precision's coarsest format, those of the coarsest there is for None.

    Beyond `usual` the error of rounding alone is measured.
    """
    names = [row.name for row in parse(precision)] if precision else [FORMATS[0].name]
    return Tolerance(MATCH.limit(*names), FAULT.limit(*names), exact=precision is not None)


def rounds_in(precision: str, model: Path, *, tf32: bool) -> str | None:
    """Return the formats whose rounding outputs carry, such as "int8+fp16"; None where one is asked that has no row.

    Args:
        precision: asked of the backend, such as "fp16" or "int8+fp16".
        model: ONNX file; its own types count, too.
        tf32: whether matrix products may use TF32.

    Raises:
        UsageProblem: the model cannot be read.
    """
    asked, own = precision.split("+"), [row for name in _own_precisions(model) if (row := find(name))]
    if not all(map(known, asked)):
        return None
    found = ordered([*known(precision), *own, get("tf32" if tf32 else "fp32")])
    return "+".join(row.name for row in found)


def chooses(model: Path) -> bool:
    """Return whether a model chooses among candidates, whose order near ties leave open. Raises UsageProblem."""
    from trt_workbench.model.opened import Model

    return bool(_CHOOSING & Model.open(model).facts.operators.keys())


def compare_outputs(
    found: Arrays,
    expected: Arrays,
    limit: Tolerance,
    batch: int,
    *,
    any_order: bool,
    rounding: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return how far outputs are from those of the reference, as a record holds it.

    Args:
        found: outputs by name.
        expected: of the reference.
        limit: of the relative L2 error, and where it is not exact of the share of integers and booleans that differ.
        batch: rows of outputs whose first dimension it is.
        any_order: whether an output may hold its candidates (second dimension) in another order.
        rounding: by output, what `rounding_of` returned, where it was called.

    Returns:
        `state` ("matched", "far" or "wrong"), `reason`, `tolerance`, and by output under `tensors` `relative_l2` and
        `cosine` of its worst row, `row`, `compared` ("in order" or "sorted"), and where it was asked `rounding` and
        `left_out`.
    """
    limits = {"usual": limit.usual, "wrong": limit.wrong}
    if sorted(found) != sorted(expected):
        reason = f"the outputs are {', '.join(found)}, but the reference has {', '.join(expected)}"
        return {"state": "wrong", "reason": reason, "tolerance": limits, "tensors": {}}
    tensors: dict[str, dict[str, Any]] = {}
    wrong: list[str] = []
    far: list[str] = []
    for name, want in expected.items():
        got, counted = found[name], kind(found[name], want).counted
        if got.shape != want.shape:
            wrong.append(f"{name} has shape {list(got.shape)}, but the reference has {list(want.shape)}")
            continue
        made = (rounding or {}).get(name)
        own = Tolerance(0.0, 0.0) if counted and limit.exact else limit
        own = own if made is None else own.where(made["rounding"])
        compared, each = _compared(got, want, own.usual, batch, any_order=any_order)
        left_out = [] if made is None else made["left_out"]
        sizes = np.delete(each.size, left_out)
        row = int(np.delete(np.arange(len(each.size)), left_out)[sizes.argmax()]) if sizes.size else 0
        off = float(sizes.max(initial=0.0))
        tensors[name] = {
            "compared": compared,
            "relative_l2": off if np.isfinite(off) else None,
            "cosine": each.cosine(row) if sizes.size else None,
            "row": row,
            **(made or {}),
        }
        if np.isinf(off):
            wrong.append(f"{name} is not finite where the reference is, or vice versa")
        elif off > own.usual:
            which = f" in row {row}" if batch > 1 else ""
            explained = "" if made is None else f", of which rounding explains {made['rounding']:.2g}"
            figure = "share of elements that differ" if counted else "relative L2"
            said = f"{name} differs by {off:.2g}{which} ({figure}{explained})"
            (wrong if off > own.wrong else far).append(said)
    state = "wrong" if wrong else "far" if far else "matched"
    return {"state": state, "reason": "; ".join(wrong or far) or None, "tolerance": limits, "tensors": tensors}


def rounding_of(
    copies: Sequence[Arrays], expected: Arrays, limit: Tolerance, batch: int, *, any_order: bool
) -> dict[str, Any]:
    """Return by output the error of rounding alone (`rounding`), except rows where that exceeds the limit (`left_out`).

    Args:
        copies: outputs of disturbed copies of the model.
        expected: of the reference.
        limit: as of `compare_outputs`, and so are the others.
        batch: see there.
        any_order: see there.
    """
    from trt_workbench.verify import turned_over

    found = {}
    for name, want in expected.items():
        same = [copy[name] for copy in copies if copy[name].shape == want.shape]
        sizes = [_compared(one, want, limit.usual, batch, any_order=any_order)[1].size for one in same]
        # a copy that is not finite explains nothing
        noise: NDArray[Any] = np.max([np.where(np.isfinite(one), one, 0.0) for one in sizes], axis=0, initial=0.0)
        left_out = turned_over(noise)
        found[name] = {"rounding": float(np.delete(noise, left_out).max(initial=0.0)), "left_out": list(left_out)}
    return found


def _compared(
    got: NDArray[Any], want: NDArray[Any], usual: float, batch: int, *, any_order: bool
) -> tuple[str, RowDifferences]:
    """Compare rows; in the order of their values where they are far and may come in any order."""
    rows = want.ndim > 0 and want.shape[0] == batch
    each = compare_rows(got, want, rows=rows)
    if any_order and want.ndim > 1 and each.size.max(initial=0.0) > usual:
        return "sorted", compare_rows(np.sort(got, axis=1), np.sort(want, axis=1), rows=rows)
    return "in order", each


def _own_precisions(model: Path) -> set[str]:
    """Return the precisions below fp32 in the graph itself."""
    from trt_workbench.model.opened import Model
    from trt_workbench.model.proto import kinds_where

    opened = Model.open(model)
    types = kinds_where(lambda one: one.is_half)
    graph = opened.proto.graph
    found = {types[tensor.data_type] for tensor in graph.initializer if tensor.data_type in types}
    casts = [attribute.i for node in graph.node if node.op_type == "Cast" for attribute in node.attribute]
    return found | {types[to] for to in casts if to in types} | set(opened.facts.formats)
