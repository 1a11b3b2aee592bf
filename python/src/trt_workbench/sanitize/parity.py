"""Whether a rewritten model says the same as the file it came from, in ONNX Runtime on random inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.inputs import complete_shapes, random_inputs, sum_parts
from trt_workbench.backends.registry import load_reference
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.core.files import scratch_folder
from trt_workbench.model.opened import Model
from trt_workbench.model.randomness import refuse_random
from trt_workbench.model.sanitize.check import Arrays, NotLoaded, compare
from trt_workbench.model.sanitize.sanitize import save_model
from trt_workbench.sanitize.far_inputs import far_inputs

if TYPE_CHECKING:
    import onnx

# Of every symbolic dimension that has no size of its own: one set of inputs each.
_SIZES = (1, 2)
# Token ids and indices have to be small to be valid: BERT has two types of tokens.
_INTEGERS = 2


@dataclass(frozen=True)
class ParityRequest:
    """On what two models are compared.

    Attributes:
        sizes: sizes of symbolic dimensions; of a sum such as "past + 1" its own size counts more than that of its part.
        shapes: whole shapes by input, which count more.
        seed: of the random inputs.
        rtol: relative tolerance of an output's elements.
        atol: absolute tolerance.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seed: int = 0
    rtol: float = 1e-4
    atol: float = 1e-5


def check_parity(before: Model, after: onnx.ModelProto, request: ParityRequest) -> dict[str, Any]:
    """Run both models on the CPU and compare their outputs.

    Returns:
        The record of `sanitize_check.compare`.

    Raises:
        ComponentMissing: ONNX Runtime is absent.
        CheckFailed: the outputs differ.
        UsageProblem: the model is random by design, a size or shape is of nothing in the model, no inputs can be drawn,
            or the first model does not run on them.
    """
    refuse_random(before, "checked", "--no-check writes the result unchecked")

    def run(path: Path, arrays: Arrays) -> Arrays:
        try:
            session = load_reference(path)
        except UsageProblem as error:
            raise NotLoaded(str(error)) from error
        with session:
            return session.run(arrays)

    tensors = before.facts.inputs
    symbols = sorted({name for tensor in tensors for name in tensor.shape or () if isinstance(name, str)})
    # the 1 of "past + 1" is no name
    parts = {part for symbol in symbols for part in sum_parts(symbol) if not part.isdecimal()}
    _check_names("dimension of an input", request.sizes, {*symbols, *parts})
    _check_names("input", request.shapes, {tensor.name for tensor in tensors})
    specs, names = [], {}
    for tensor in tensors:
        names[tensor.name] = tensor.shape or request.shapes.get(tensor.name, ())
        if tensor.shape is None and tensor.name not in request.shapes:
            raise UsageProblem(f"Input {tensor.name} has no known rank; pass --shape {tensor.name}:1x3x64x64.")
        dims = tuple(dim if isinstance(dim, int) else None for dim in names[tensor.name])
        specs.append(TensorSpec(tensor.name, tensor.dtype, dims, tensor.below))
    inputs = []
    for number, size in enumerate(_SIZES):
        sizes = {**{symbol: size for symbol in symbols if sum_parts(symbol) == [symbol]}, **request.sizes}
        shapes = complete_shapes(specs, names, sizes, "", asked=request.shapes, batch=None, default=size)
        inputs.append(random_inputs(specs, shapes, request.seed + number, below=_INTEGERS, hint="use --no-check"))
    for arrays in far_inputs(before, inputs[-1], request.seed):
        # numbers that the model itself refuses are sizes or indices after all
        with contextlib.suppress(UsageProblem):
            run(before.path, arrays)
            inputs.append(arrays)
    with scratch_folder() as folder:
        path = Path(folder) / "after.onnx"
        save_model(after, path)
        return compare(before.path, path, run, inputs, rtol=request.rtol, atol=request.atol)


def _check_names(what: str, given: Iterable[str], known: set[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageProblem(
                f"The model has no {what} called {name!r} to check with; {did_you_mean(name, sorted(known))}"
            )
