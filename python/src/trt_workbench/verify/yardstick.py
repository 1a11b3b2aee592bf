"""What a correct engine may differ by: the error that the asked precision itself makes on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.errors import UsageProblem
from trt_workbench.onnxtools.noise import with_rounding
from trt_workbench.verify.difference import Difference, can_match, difference, matched

Arrays = Mapping[str, NDArray[Any]]

# Unit roundoff: half the distance between neighbouring numbers (IEEE 754-2019; bfloat16 and TF32 have 8 and 11 bits).
UNITS = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8, "int8": 2.0**-8}
# From the tightest to the loosest.
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8")
# A runtime rounds otherwise, and more often than once an operation: products are summed in parts, convolutions are
# transformed (Winograd), functions approximated.
_MARGIN = {"fp32": 64.0, "tf32": 16.0, "fp16": 16.0, "bf16": 16.0, "int8": 8.0}
_FLOOR = 8.0  # units of roundoff that are allowed where the noise changes nothing
_COPIES = 2
# Beyond these a limit says nothing.
_MOST_REL_L2, _MOST_CHANGED = 0.25, 0.25


@dataclass(frozen=True)
class Limit:
    """How much an output may differ.

    Attributes:
        precision: whose error it is.
        rel_l2: of floats.
        changed: share of elements, of integers and booleans.
        noise: relative L2 of the noisy copies alone.
        matched: whether the vectors along the second dimension are put in order first, as rounding swaps them.
    """

    precision: str
    rel_l2: float
    changed: float
    noise: float
    matched: bool = False

    @property
    def decides(self) -> bool:
        """Whether a wrong output would be told from a right one; if not, rounding alone turns the output over."""
        return self.rel_l2 < _MOST_REL_L2 and self.changed < _MOST_CHANGED

    def apart(self, found: NDArray[Any], expected: NDArray[Any], *, rows: bool) -> Difference:
        """Return the difference that the limit is for."""
        ordered = matched(found, expected) if self.matched and found.shape == expected.shape else found
        return difference(ordered, expected, rows=rows)

    def allows(self, found: Difference) -> bool:
        """Whether a difference is within the limit; shapes and NaN never are."""
        return not found.shape_differs and found.rel_l2 <= self.rel_l2 and found.changed <= self.changed


class Yardstick:
    """Noisy copies of a model on ONNX Runtime's CPU provider, by precision; made when they are first asked for."""

    def __init__(self, model: Path, folder: Path, seed: int) -> None:
        """Take the model; copies are written to `folder`.

        Raises:
            UsageProblem: the model cannot be read.
        """
        self._path, self._folder, self._seed = model, folder, seed
        self._model: onnx.ModelProto | None = None
        self._sessions: dict[str, list[Session]] = {}

    def limits(self, precision: str, inputs: Arrays, expected: Arrays, rows: Mapping[str, bool]) -> dict[str, Limit]:
        """Return the limit of every output for one set of inputs.

        Args:
            precision: a key of UNITS.
            inputs: of the call.
            expected: what the model itself gives for them.
            rows: by output, whether its first dimension holds independent rows.

        Raises:
            UsageProblem: a noisy copy does not run.
        """
        noisy = [session.run(inputs) for session in self._noisy(precision)]
        return {
            name: limit(precision, [one[name] for one in noisy], array, rows=rows[name])
            for name, array in expected.items()
        }

    def close(self) -> None:
        """Close the copies' sessions."""
        for session in (one for several in self._sessions.values() for one in several):
            session.close()
        self._sessions.clear()

    def _noisy(self, precision: str) -> list[Session]:
        if precision not in self._sessions:
            if self._model is None:
                self._model = onnx.load(self._path)
            self._sessions[precision] = [self._open(precision, number) for number in range(_COPIES)]
        return self._sessions[precision]

    def _open(self, precision: str, number: int) -> Session:
        assert self._model is not None
        ranged = precision == "int8" and not _has_scales(self._model)
        noisy = with_rounding(self._model, UNITS[precision], self._seed + number, ranged=ranged)
        path = self._folder / f"noisy-{precision}-{number}.onnx"
        big = noisy.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF
        onnx.save(noisy, path, save_as_external_data=big, location=f"{path.name}.data" if big else None)
        return require_backend("ort-cpu").load(path, SessionOptions())


def limit(precision: str, noisy: Sequence[NDArray[Any]], clean: NDArray[Any], *, rows: bool) -> Limit:
    """Return the limit that disturbed results give; of results that rounding swaps, for the matched ones.

    Args:
        precision: a key of UNITS.
        noisy: disturbed results.
        clean: the undisturbed one.
        rows: whether the first dimension holds independent rows.
    """
    plain = _limit(precision, [difference(one, clean, rows=rows) for one in noisy], is_matched=False)
    if plain.decides or not can_match(clean):
        return plain
    ordered = [matched(one, clean) if one.shape == clean.shape else one for one in noisy]
    sorted_out = _limit(precision, [difference(one, clean, rows=rows) for one in ordered], is_matched=True)
    return sorted_out if sorted_out.decides else plain


def _limit(precision: str, noise: list[Difference], *, is_matched: bool) -> Limit:
    largest = max((one.rel_l2 for one in noise), default=0.0)
    changed = max((one.changed for one in noise), default=0.0)
    margin = _MARGIN[precision]
    return Limit(
        precision, margin * largest + _FLOOR * UNITS[precision], min(1.0, margin * changed), largest, is_matched
    )


def sensitivity(
    session: Session, inputs: Arrays, precision: str, rows: Mapping[str, bool], seed: int
) -> dict[str, Limit]:
    """Return limits for an engine without its model: what rounding its inputs changes in its own outputs.

    Args:
        session: the engine.
        inputs: of the call.
        precision: that it computes in.
        rows: by output, whether its first dimension holds independent rows.
        seed: of the disturbance.
    """
    generator = np.random.default_rng(seed)
    clean = session.run(inputs)
    noisy = []
    for _ in range(_COPIES):
        disturbed = {
            name: (array * (1 + UNITS[precision] * generator.uniform(-1, 1, array.shape))).astype(array.dtype)
            if array.dtype.kind == "f"
            else array
            for name, array in inputs.items()
        }
        noisy.append(session.run(disturbed))
    return {
        name: limit(precision, [one[name] for one in noisy], array, rows=rows[name]) for name, array in clean.items()
    }


def precision_of(text: str) -> str:
    """Return the loosest precision of a text such as `int8+fp16`, whose error an engine may make.

    Raises:
        UsageProblem: it names none that has a yardstick.
    """
    named = [part for part in text.split("+") if part in UNITS]
    if not named:
        msg = f"There is no yardstick for precision {text!r}; known are {', '.join(PRECISIONS)}."
        raise UsageProblem(msg)
    return max(named, key=PRECISIONS.index)


def _has_scales(model: onnx.ModelProto) -> bool:
    return any(node.op_type == "QuantizeLinear" for node in model.graph.node)
