"""The arrays that a chunk of a stream is fed with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.array_files import load_arrays, numpy_dtype
from trt_workbench.core.elements import widened
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.memory import require_room
from trt_workbench.stream.contract.expressions import Expression
from trt_workbench.stream.contract.front_ends import SPEECH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trt_workbench.stream.contract.contract import Contract
    from trt_workbench.stream.contract.parts import Chunk, FrameCounter, Mask, State


def initial_value(contract: Contract, pair: State, values: Mapping[str, int], folder: Path | None) -> NDArray[Any]:
    """Return what a state input holds before the first chunk.

    Raises:
        UsageProblem: the file of an initial value cannot be read, or does not fit; the state takes too much memory.
    """
    tensor, shape = contract.inputs[pair.input], contract.shape(pair.input, values)
    dtype = numpy_dtype(tensor.dtype)
    require_room(f"State {pair.input}", shape, dtype.itemsize)
    if isinstance(pair.init, Expression):
        return np.full(shape, pair.init.whole(values), dtype)
    if isinstance(pair.init, float):
        return np.full(shape, pair.init, dtype)
    path = (folder or Path()) / pair.init.file
    arrays = load_arrays(path)
    if len(arrays) != 1:
        raise UsageProblem(
            f"The initial value of {pair.input} must be one array, but the file has {len(arrays)}: {path}"
        )
    (array,) = arrays.values()
    axis = contract.batch_axis(pair.input)
    if axis is not None and array.ndim == len(shape) - 1:
        array = np.expand_dims(array, axis)
    wanted = tuple(1 if place == axis else size for place, size in enumerate(shape))
    if array.shape not in (wanted, shape) or array.dtype != dtype:
        raise UsageProblem(
            f"The initial value of {pair.input} is {array.dtype} {list(array.shape)}, "
            f"but the contract says {dtype} {list(wanted)}: {path}"
        )
    if np.isnan(widened(array)).any():
        raise UsageProblem(f"The initial value of {pair.input} holds NaN: {path}")
    return np.broadcast_to(array, shape).copy()


def chunk_inputs(
    contract: Contract, chunk: Chunk, signal: NDArray[Any], values: Mapping[str, int]
) -> dict[str, NDArray[Any]]:
    """Return every input of a chunk except the states; `signal` is the whole stream."""
    name, tensor = contract.signal
    axis = tensor.time_axis
    frames = range(chunk.start - chunk.left_context, chunk.start + chunk.new)
    part = np.take(signal, range(max(frames.start, 0), frames.stop), axis)
    missing = [(0, 0)] * part.ndim
    missing[axis] = (max(-frames.start, 0), chunk.hop - chunk.new)
    dtype = numpy_dtype(tensor.dtype)
    fed = np.pad(part, missing, constant_values=contract.chunking.left_fill).astype(dtype, copy=False)
    if contract.chunking.normalize:
        normalize(contract, np.moveaxis(fed, axis, -1), chunk.valid)
    found, known = {name: fed}, contract.known(values, chunk)
    for other, given in contract.inputs.items():
        if given.role in ("signal", "state"):
            continue
        found[other] = array = np.empty(contract.shape(other, values), numpy_dtype(given.dtype))
        if given.role == "length":
            low, high = (bound.whole(values) for bound in given.range)
            array[...] = min(max(chunk.valid, low), high)
        elif given.role == "constant":
            array[...] = given.number()
        elif given.role in ("counter", "mask"):
            put(array, given, number_of(contract, other, known, array.shape))
    return found


def holds_samples(contract: Contract) -> bool:
    """Whether the signal is one of whole numbers, each of which is a sample of 16 bits."""
    rate, seconds = contract.chunking.sample_rate, contract.chunking.frame_seconds
    whole = contract.signal[1].dtype in ("int32", "int64")
    return whole and rate is not None and (seconds is None or abs(seconds * rate - 1) < 1e-6)


def noise(contract: Contract, drawn: NDArray[np.float32]) -> NDArray[Any]:
    """Return a signal of drawn numbers, whose deviation is 1: in the range of speech where its features are known.

    Numbers from elsewhere may drive attention so far that a state of a healthy model changes nothing.

    Raises:
        UsageProblem: the signal is one of other whole numbers.
    """
    name, tensor = contract.signal
    if numpy_dtype(tensor.dtype).kind not in "fV":
        if not holds_samples(contract):
            raise UsageProblem(
                f"A random signal is one of real numbers or samples, {name} is {tensor.dtype}; pass one with --input."
            )
        drawn = np.rint(drawn * _SAMPLES)
    if (features := contract.chunking.features) in SPEECH:
        mean, deviation = SPEECH[features]
        drawn = drawn * np.float32(deviation) + np.float32(mean)
    return drawn.astype(numpy_dtype(tensor.dtype))


_SAMPLES = np.float32(2**12)
# NeMo's
_LEAST_DEVIATION = 1e-5


def normalize(contract: Contract, chunk: NDArray[Any], valid: int) -> None:
    """Give each feature of a chunk the mean 0 and the deviation 1, as `chunking.normalize` says and NeMo does.

    Args:
        contract: of the model.
        chunk: [..., frames], changed in place.
        valid: frames that are no padding.
    """
    count = valid if contract.chunking.normalize == "valid" else chunk.shape[-1]
    own = chunk[..., :count]
    own -= own.mean(-1, keepdims=True)
    own /= own.std(-1, keepdims=True, ddof=int(count > 1)) + _LEAST_DEVIATION  # a single frame becomes 0
    chunk[..., count:] = contract.chunking.left_fill


def number_of(contract: Contract, name: str, known: Mapping[str, int], shape: Sequence[int]) -> int:
    """Return a counter's value, or how many entries of a mask are valid.

    Args:
        contract: of the model.
        name: of the input.
        known: what `Contract.known` gives of the chunk.
        shape: of the input.

    Raises:
        UsageProblem: it is not a whole number, or the input cannot hold it.
    """
    given = contract.computed[name]
    words, rule = ("value", given.value) if given.role == "counter" else ("valid part", given.valid)
    chunk = known["chunk"]
    try:
        number = rule.whole(known)
    except ValueError as error:
        raise UsageProblem(f"The {words} of {name} is not known at chunk {chunk}: {error}.") from error
    dtype = numpy_dtype(given.dtype)
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-(2**63), 2**63)
    if given.role == "mask":
        low, high = 0, shape[given.axis]
    if not low <= number <= high:
        raise UsageProblem(f"The {words} of {name} is {number} at chunk {chunk}, outside {low} to {high}.")
    return number


def put(array: NDArray[Any], given: FrameCounter | Mask, number: int) -> None:
    """Fill an input, or a row of it with its batch axis, as its number says."""
    if given.role == "counter":
        array[...] = number
        return
    places = np.arange(array.shape[given.axis])
    valid = places < number if given.valid_at == "start" else places >= array.shape[given.axis] - number
    array[...] = valid.reshape([-1 if axis == given.axis else 1 for axis in range(array.ndim)])


def require_kept(before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]]) -> None:
    """Raise UsageProblem if a state leaves the model in another shape than it entered it."""
    for name, array in after.items():
        if array.shape != before[name].shape:
            raise UsageProblem(
                f"State {name} enters the model as {list(before[name].shape)} and leaves it as {list(array.shape)}; by "
                "the contract its shape must not change."
            )


def fitted(inputs: Mapping[str, NDArray[Any]], specs: Iterable[TensorSpec]) -> dict[str, NDArray[Any]]:
    """Return inputs in the types of a session: before TensorRT 10 an engine takes int32 where its model says int64."""
    return {spec.name: inputs[spec.name].astype(spec.dtype, copy=False) for spec in specs}
