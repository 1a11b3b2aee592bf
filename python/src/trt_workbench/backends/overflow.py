"""Which inner values of a model leave the range of a 16-bit format on given inputs: by name, with their range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.ort.common import CPU_PROVIDER, session_config
from trt_workbench.core.counts import some
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.memory import give_back
from trt_workbench.core.precision import Format, get, names, parse
from trt_workbench.model.graph_types import computed_results
from trt_workbench.model.low_precision.simulate import UNROUNDED, simulated
from trt_workbench.model.low_precision.watch import RANGES, Watched, with_ranges
from trt_workbench.model.opened import Model
from trt_workbench.model.walking import all_nodes
from trt_workbench.model.weights import light, save_model

Inputs = Mapping[str, NDArray[Any]]
_NAMED = 3
# The input that gives infinity where it is 0.
_DIVISORS = {"Div": 1, "Reciprocal": 0, "Log": 0, "Pow": 0}


@dataclass(frozen=True)
class Overflow:
    """A tensor that leaves a format's range.

    Attributes:
        watched: the tensor and its node.
        low: the least finite value before it is rounded, at most 0.
        high: the largest, at least 0; where both are within the range, values are infinite.
        name: of the format.
        underflow: why the value is infinite where its divisor underflows, in words.
    """

    watched: Watched
    low: float
    high: float
    name: str
    underflow: str = ""

    @property
    def size(self) -> float:
        """The largest absolute value."""
        return max(-self.low, self.high)

    def __str__(self) -> str:
        """Return the form used in messages."""
        what = f"{self.watched.tensor} ({self.watched.node})"
        return f"{what} ranges from {self.low:.5g} to {self.high:.5g}" if self.size >= _beyond(get(self.name)) else what


def overflows(model: Path, precision: str, samples: Iterable[Inputs]) -> list[Overflow]:
    """Return the tensors of a model that leave the range of fp16 or bf16, in the graph's order.

    Args:
        model: an ONNX file; of one that has results in fp16 or bf16 these are looked at, else all results in fp32.
        precision: that the model is asked for, such as "fp16".
        samples: inputs of calls.

    Raises:
        UsageProblem: the model cannot be simulated, or does not run on the inputs.
    """
    opened = Model.open(model)
    types = set(computed_results(opened.proto).values())
    asked = [row.name for row in parse(precision)] if precision else []
    halves = names(lambda one: one.is_half)
    name = next((one for one in reversed(halves) if one in types or one in asked), None)
    if name is None:
        return []
    document = opened.load()
    if types.intersection(halves):
        document = simulated(document, halves)
    watching, rows = with_ranges(document)
    if not rows:
        return []
    ranges = np.zeros((len(rows), 4))
    with scratch_folder("trtw-ranges-") as folder:
        path = Path(folder, "model.onnx")
        save_model(watching, path)
        del watching
        document = light(document)
        give_back()
        for values in _ranges(path, samples):
            ranges = np.maximum(ranges, values)
    both = zip(rows, ranges.tolist(), strict=True)
    found = [(Overflow(row, -low, high, name), bool(infinite)) for row, (low, high, infinite, _) in both]
    beyond = [one for one, _ in found if one.size >= _beyond(get(name))]
    # where nothing finite is beyond, the first infinities are those that the others come of
    first = [one for one, infinite in found if infinite][:1]
    least = {row.tensor: (row, 1 / one) for row, one in zip(rows, ranges[:, 3].tolist(), strict=True) if one}
    return beyond or [replace(one, underflow=_underflow(document, one, least)) for one in first]


def _underflow(model: onnx.ModelProto, infinite: Overflow, least: Mapping[str, tuple[Watched, float]]) -> str:
    """Say which tensor underflows, the nearest that a divisor is computed of; "" for none, or if nothing is rounded."""
    makers = {name: node for node in all_nodes(model) for name in node.output}
    maker, smallest = makers.get(infinite.watched.tensor + UNROUNDED), get(infinite.name).smallest
    waiting = [maker.input[_DIVISORS[maker.op_type]]] if maker and maker.op_type in _DIVISORS else []
    for name in waiting:  # which grows
        row, size = least.get(name, (None, 0.0))
        if row and 0 < size <= smallest / 2:  # the half is rounded to even, which is 0
            what = f"{row.tensor} ({row.node}) underflows to 0"
            return f"{what}: its smallest magnitude is {size:.5g}; the smallest of {infinite.name} is {smallest:.5g}"
        waiting += [one for one in (makers[name].input if name in makers else ()) if one not in waiting]
    return ""


def explained(model: Path, precision: str, samples: Iterable[Inputs]) -> str:
    """Return why values of a model in 16 bits are not finite, as the end of a sentence; "" where that is not known."""
    if model.suffix != ".onnx":
        return ""
    try:
        found = overflows(model, precision, samples)
    except UsageProblem:
        return ""
    return words(found)


def explained_of(session: Session, samples: Iterable[Inputs]) -> str:
    """Return which inner values leave the range of a session's 16-bit format, as the end of a sentence; "" for none.

    The model runs on the samples again for it, on the CPU.
    """
    return explained(session.model, session.asked, samples) if session.model else ""


def words(found: list[Overflow]) -> str:
    """Say which tensors leave the range, as the end of a sentence; "" for none."""
    if not found:
        return ""
    if found[0].underflow:
        return f": {found[0]} is infinite because {found[0].underflow}"
    return f": beyond {found[0].name}'s {get(found[0].name).largest:g}, {some(found, _NAMED)}"


def _beyond(row: Format) -> float:
    """Return the least value that is rounded to infinity."""
    return row.largest * (1 + row.unit / (2 - 2 * row.unit))


def _ranges(path: Path, samples: Iterable[Inputs]) -> Iterable[NDArray[Any]]:
    import onnxruntime as ort

    config, _ = session_config(ort, SessionOptions(), "basic", allow_spinning=False)
    config.enable_mem_reuse = False  # to plan it takes 6 s of a detector, whose every tensor is an output's input
    try:
        session = ort.InferenceSession(path, config, providers=[CPU_PROVIDER], enable_fallback=0)
        for inputs in samples:
            yield session.run([RANGES], dict(inputs))[0]
    except Exception as error:  # ONNX Runtime raises many kinds
        raise UsageProblem(f"The ranges of the model's inner values cannot be computed ({error}).") from error
