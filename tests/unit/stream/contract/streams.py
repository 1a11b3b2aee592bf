"""Streams that tests run alone and together."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.streaming_models import (
    MODELS,
    contract_of,
    write_contract,
)

from trt_workbench.backends.base import Session
from trt_workbench.backends.registry import get_backend
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.feeding import fitted
from trt_workbench.stream.contract.reading import read_contract

Arrays = dict[str, NDArray[Any]]
Opened = tuple[Session, Contract]


def opened(name: str, folder: Path, **changes: Any) -> Opened:
    document = {**contract_of(name), **changes}
    session = get_backend("ort-cpu").load(MODELS[name][0](folder))
    return session, read_contract(write_contract(folder / f"{name}.json", document))


def signal(contract: Contract, frames: int, seed: int) -> NDArray[np.float32]:
    name, tensor = contract.signal
    shape = list(contract.shape(name, contract.chunk_values(next(contract.chunks(1)))))
    shape[tensor.time_axis] = frames
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def pieces(contract: Contract, whole: NDArray[Any]) -> list[NDArray[Any]]:
    """New frames by chunk."""
    axis = contract.signal[1].time_axis
    chunks = contract.chunks(whole.shape[axis])
    return [np.take(whole, range(one.start, one.start + one.new), axis) for one in chunks]


def alone(one: Opened, whole: NDArray[Any]) -> list[Arrays]:
    """What the stream gives by itself: fed by the contract, its state passed on by hand."""
    session, contract = one
    chunks = list(contract.chunks(whole.shape[contract.signal[1].time_axis]))
    state = contract.initial_state(contract.chunk_values(chunks[0]))
    found = []
    for chunk in chunks:
        inputs = {**contract.feed(chunk, whole, contract.chunk_values(chunk)), **state}
        outputs = session.run(fitted(inputs, session.inputs))
        state = contract.next_state(outputs)
        found.append({name: array for name, array in outputs.items() if name not in {p.output for p in contract.state}})
    return found


def same(found: Arrays, expected: Arrays, rel_l2: float = 2e-6) -> None:
    """Integers equal, floats within what kernels of other batch sizes do."""
    assert found.keys() == expected.keys()
    for name, want in expected.items():
        assert found[name].shape == want.shape, name
        if want.dtype.kind == "f":
            assert np.linalg.norm(found[name] - want) <= rel_l2 * np.linalg.norm(want), name
        else:
            assert np.array_equal(found[name], want), name
