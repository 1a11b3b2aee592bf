"""Whether what is timed is right: the outputs of one call against those of the same model in a reference.

A wrong engine is no less fast: fused kernels have been seen that compute the first row of a batch rightly and every
further one wrongly, so each row of a batch is compared by itself and the worst one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.precision import FAULT, FORMATS, MATCH, find, get, known, ordered, parse
from trt_workbench.errors import UsageProblem

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Tolerance:
    """Relative L2 errors of a row.

    Attributes:
        usual: beyond it outputs are far from the reference, and it is said.
        wrong: beyond it they are wrong.
    """

    usual: float
    wrong: float

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
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
# Kinds of types of which elements that differ are counted.
_COUNTED = "biu"
# A row this much smaller than the others is measured by them: its own size is rounding.
_SMALL_ROW = 1e-2


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
    return max([allowed, *([IMAGES] if images else [])], key=lambda one: one.wrong)


def of_format(precision: str | None) -> Tolerance:
    """Return the limits of a precision's coarsest format, those of the coarsest there is for None.

    Beyond `usual` it is asked what rounding alone makes.
    """
    names = [row.name for row in parse(precision)] if precision else [FORMATS[0].name]
    return Tolerance(MATCH.limit(*names), FAULT.limit(*names))


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


def refuse_random(model: Path) -> None:
    """Raise UsageProblem for a model that draws random numbers, or that cannot be read: no two calls are the same."""
    from trt_workbench.model.opened import Model

    if drawn := _RANDOM & Model.open(model).facts.operators.keys():
        raise UsageProblem(f"the model draws random numbers ({', '.join(sorted(drawn))})")


def compare_outputs(
    found: Arrays,
    expected: Arrays,
    limit: Tolerance,
    batch: int,
    *,
    any_order: bool,
    rounding: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return how far outputs are from those of the reference, as a record holds it.

    Args:
        found: outputs by name.
        expected: of the reference.
        limit: of the relative L2 error; of integers and booleans, of the share of elements that differ.
        batch: rows of outputs whose first dimension it is.
        any_order: whether an output may hold its candidates (second dimension) in another order.
        rounding: by output, how far rounding alone takes it, where that was asked.

    Returns:
        `state` ("matched", "far" or "wrong"), `reason`, `tolerance`, and by output under `tensors` `relative_l2` and
        `cosine` of its worst row, `row`, `compared` ("in order" or "sorted"), and `rounding` where it was asked.
    """
    limits = asdict(limit)
    if sorted(found) != sorted(expected):
        reason = f"the outputs are {', '.join(found)}, those of the reference {', '.join(expected)}"
        return {"state": "wrong", "reason": reason, "tolerance": limits, "tensors": {}}
    tensors: dict[str, dict[str, Any]] = {}
    wrong: list[str] = []
    far: list[str] = []
    for name, want in expected.items():
        got = found[name]
        if got.shape != want.shape:
            wrong.append(f"{name} has shape {list(got.shape)}, the reference {list(want.shape)}")
            continue
        made = (rounding or {}).get(name)
        counted = want.dtype.kind in _COUNTED
        own = limit if made is None else limit.where(made)
        tensors[name] = _tensor(got, want, own, batch, any_order=any_order)
        if made is not None:
            tensors[name]["rounding"] = made
        if tensors[name]["relative_l2"] is None:
            wrong.append(f"{name} is not finite where the reference is, or the other way round")
        elif tensors[name]["relative_l2"] > own.usual:
            row = f" in row {tensors[name]['row']}" if batch > 1 else ""
            explained = "" if made is None else f", of which rounding explains {made:.2g}"
            beyond = wrong if tensors[name]["relative_l2"] > own.wrong else far
            figure = "share of elements that differ" if counted else "relative L2"
            beyond.append(f"{name} is off by {tensors[name]['relative_l2']:.2g}{row} ({figure}{explained})")
    state = "wrong" if wrong else "far" if far else "matched"
    return {"state": state, "reason": "; ".join(wrong or far) or None, "tolerance": limits, "tensors": tensors}


def _tensor(got: NDArray[Any], want: NDArray[Any], limit: Tolerance, batch: int, *, any_order: bool) -> dict[str, Any]:
    rows = batch if want.ndim and want.shape[0] == batch else 1
    measured = {"compared": "in order", **_worst(_rows(got, rows), _rows(want, rows))}
    off = measured["relative_l2"]
    if any_order and want.ndim > 1 and (off is None or off > limit.usual):
        first, second = (np.sort(array, axis=1) for array in (got, want))
        return {"compared": "sorted", **_worst(_rows(first, rows), _rows(second, rows))}
    return measured


def _rows(array: NDArray[Any], rows: int) -> NDArray[Any]:
    return array.reshape(rows, -1)


def _worst(got: NDArray[Any], want: NDArray[Any]) -> dict[str, Any]:
    """Return the figures of the row that is furthest off; all None where it is finite on one side alone."""
    if want.dtype.kind in _COUNTED:
        shares = np.mean(got != want, axis=1) if want.shape[1] else np.zeros(len(want))
        row = int(np.argmax(shares))
        return {"relative_l2": float(shares[row]), "cosine": None, "row": row}
    # row by row: logits of many tokens fill the memory as they are
    rows = [_row(first, second) for first, second in zip(got, want, strict=True)]
    known = [row for row in rows if row is not None]
    if len(known) < len(rows):
        return {"relative_l2": None, "cosine": None, "row": None}
    least = max(_SMALL_ROW * max((size for _, size, _ in known), default=0.0), float(np.finfo(np.float32).tiny))
    errors = [distance / max(size, least) for distance, size, _ in known]
    row = int(np.argmax(errors))
    return {"relative_l2": errors[row], "cosine": known[row][2], "row": row}


def _row(got: NDArray[Any], want: NDArray[Any]) -> tuple[float, float, float | None] | None:
    """Return the distance, the size of `want` and the cosine; None where the two are not finite in the same places."""
    first, second = (np.asarray(array, np.float64) for array in (got, want))
    finite = np.isfinite(second)
    if not finite.all():
        if not np.array_equal(first[~finite], second[~finite], equal_nan=True):
            return None
        first, second = first[finite], second[finite]
    if not np.isfinite(first).all():
        return None
    size, own = float(np.linalg.norm(second)), float(np.linalg.norm(first))
    cosine = float(first @ second) / (own * size) if own and size else None
    return float(np.linalg.norm(first - second)), size, cosine


def _own_precisions(model: Path) -> set[str]:
    """Return the precisions below fp32 that stand in the graph itself."""
    from trt_workbench.model.element_types import kinds_where
    from trt_workbench.model.opened import Model

    opened = Model.open(model)
    types = kinds_where(lambda one: one.is_half)
    graph = opened.proto.graph
    found = {types[tensor.data_type] for tensor in graph.initializer if tensor.data_type in types}
    casts = [attribute.i for node in graph.node if node.op_type == "Cast" for attribute in node.attribute]
    return found | {types[to] for to in casts if to in types} | set(opened.facts.formats)
