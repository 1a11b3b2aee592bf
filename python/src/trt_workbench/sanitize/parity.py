"""Whether a rewritten model says the same as the file it came from, in ONNX Runtime on random inputs."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.measure.inputs import random_inputs, sum_parts, usual_shapes
from trt_workbench.backends.registry import load_reference
from trt_workbench.core.errors import CheckFailed, UsageProblem, WorkbenchError, did_you_mean, reason_of
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.memory import give_back
from trt_workbench.core.settings import FREE_SIZE
from trt_workbench.model.constants import constants
from trt_workbench.model.opened import Model
from trt_workbench.model.proto import STANDARD
from trt_workbench.model.randomness import refuse_random
from trt_workbench.model.sanitize.check import Arrays, NotLoaded, compare
from trt_workbench.model.sanitize.rewrites import SanitizeSettings
from trt_workbench.model.sanitize.sanitize import SanitizeReport, sanitize
from trt_workbench.model.walking import nodes_within
from trt_workbench.model.weights import save_model

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


if TYPE_CHECKING:
    import onnx

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
        UsageProblem: the model is nondeterministic, a size or shape names nothing in the model, no inputs can be drawn,
            or the first model does not run on them.
    """
    refuse_random(before, "checked", "--no-check writes the result unchecked")

    sessions = contextlib.ExitStack()

    @lru_cache(1)
    def loaded(path: Path) -> Session:
        sessions.close()  # a model at a time: each takes twice its size
        try:
            return sessions.enter_context(load_reference(path))
        except UsageProblem as error:
            raise NotLoaded(str(error)) from error

    def run(path: Path, arrays: Arrays) -> Arrays:
        return loaded(path).run(arrays)

    tensors = before.facts.inputs
    symbols = sorted({name for tensor in tensors for name in tensor.shape or () if isinstance(name, str)})
    # the 1 of "past + 1" is no name
    parts = {part for symbol in symbols for part in sum_parts(symbol) if not part.isdecimal()}
    _check_names("dimension of an input", request.sizes, {*symbols, *parts})
    _check_names("input", request.shapes, {tensor.name for tensor in tensors})
    for tensor in tensors:
        if tensor.shape is None and tensor.name not in request.shapes:
            raise UsageProblem(f"The rank of input {tensor.name} is unknown; pass --shape {tensor.name}:1x3x64x64.")
    with scratch_folder() as folder, sessions:
        path = Path(folder) / "after.onnx"
        save_model(after, path)
        give_back()

        def compared(*sizes: int) -> dict[str, Any]:
            inputs = []
            for batch, size in enumerate(sizes, 1):
                specs, shapes = usual_shapes(before, batch=batch, size=size, sizes=request.sizes, asked=request.shapes)
                drawn = random_inputs(specs, shapes, request.seed + batch, below=_INTEGERS, hint="use --no-check")
                inputs.append(drawn)
            for arrays in far_inputs(before, inputs[-1], request.seed):
                # numbers that the model itself refuses are sizes or indices after all
                with contextlib.suppress(UsageProblem):
                    run(before.path, arrays)
                    inputs.append(arrays)
            return compare(before.path, path, run, inputs, rtol=request.rtol, atol=request.atol)

        try:
            return compared(FREE_SIZE, FREE_SIZE // 2)
        except UsageProblem:  # a model of few steps
            return compared(1, 2)


def sanitize_checked(
    opened: Model, chosen: Sequence[str], settings: SanitizeSettings, request: ParityRequest | None
) -> tuple[onnx.ModelProto, SanitizeReport, dict[str, Any] | None]:
    """Rewrite a model, and compare the two unless `request` is None; a rewrite that is at fault is named.

    Returns:
        The rewritten model, what was done, and the record of the comparison.

    Raises:
        CheckFailed: a rewrite failed, or what it made is not the same model.
        UsageProblem: as `sanitize` and `check_parity`.
    """

    def made(names: Sequence[str]) -> tuple[onnx.ModelProto, SanitizeReport, dict[str, Any] | None]:
        try:
            rewritten, report = sanitize(opened, names, settings)
        except (WorkbenchError, OSError, MemoryError):
            raise
        except Exception as error:
            raise CheckFailed(f"The model cannot be rewritten ({reason_of(error)}): {opened.path}") from error
        return rewritten, report, check_parity(opened, rewritten, request) if request else None

    try:
        return made(chosen)
    except CheckFailed as error:
        for name in chosen:
            try:
                made([one for one in chosen if one != name])
            except (CheckFailed, UsageProblem):
                continue
            raise CheckFailed(f"The rewrite {name} is at fault; leave it out with --skip {name}. {error}") from error
        raise


def _check_names(what: str, given: Iterable[str], known: set[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageProblem(
                f"The model has no {what} named {name!r} for the check; {did_you_mean(name, sorted(known))}"
            )
