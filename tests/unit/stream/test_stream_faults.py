"""Planted faults: each does to the state what it says, and nothing else."""

from typing import Any

import numpy as np
import pytest
from tests.streaming_models import contract_of
from tests.texts import held

from trt_workbench.core.array_files import numpy_dtype
from trt_workbench.core.workspace import embedded_contract
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.faults import PlantedFault, State, StateUpdate, faults

NAMES = [
    "stale state", "buffers not swapped", "lengths stuck", "length one short", "off by one", "layers swapped",
    "update lost", "creeping gain", "NaN",
]  # fmt: skip
CHUNKS = 20


@pytest.fixture(scope="module")
def contract() -> Contract:
    return read_contract(embedded_contract())


def state(contract: Contract, seed: int) -> State:
    values = contract.chunk_values(next(contract.chunks(10**4)))
    random = np.random.default_rng(seed)
    floats = {pair.input: random.standard_normal(contract.shape(pair.input, values)) for pair in contract.state}
    return {
        name: np.full(array.shape, 10 * (seed + 1), np.int64) if name.endswith("len") else array.astype(np.float32)
        for name, array in floats.items()
    }


def altered(contract: Contract, name: str, chunk: int, seed: int = 1) -> State:
    fault = by_name(faults(contract, CHUNKS))[name]
    assert fault.alter is not None
    return fault.alter(StateUpdate(chunk, state(contract, seed), state(contract, 0), state(contract, 9)))


def by_name(found: list[PlantedFault]) -> dict[str, PlantedFault]:
    return {fault.name: fault for fault in found}


def changed(contract: Contract, found: State) -> set[str]:
    now = state(contract, 1)
    return {name for name in now if not np.array_equal(found[name], now[name])}


def test_every_fault_can_be_planted_into_the_embedded_encoder(contract: Contract) -> None:
    found = faults(contract, CHUNKS)
    assert [fault.name for fault in found] == NAMES
    assert all(fault.alter and not fault.reason for fault in found)


def test_what_each_fault_changes(contract: Contract) -> None:
    lengths, channel, time = "cache_last_channel_len", "cache_last_channel", "cache_last_time"
    every = {lengths, channel, time}
    touched = {name: changed(contract, altered(contract, name, CHUNKS // 2)) for name in NAMES}
    assert touched == {
        "stale state": every,
        "buffers not swapped": every,
        "lengths stuck": {lengths},
        "length one short": {lengths},
        "off by one": {time},
        "layers swapped": {channel, time},
        "update lost": every,
        "creeping gain": {channel, time},
        "NaN": {channel},
    }


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_gain_is_not_rounded_away(contract: Contract, dtype: str) -> None:
    """States of 16 bits, such as T-one's, stayed what they were in a short stream, which looked like a dead state."""
    alter = by_name(faults(contract, CHUNKS))["creeping gain"].alter
    assert alter is not None
    now = {name: array.astype(numpy_dtype(dtype)) for name, array in state(contract, 1).items()}
    for chunk in (1, 2):
        found = alter(StateUpdate(chunk, now, now, now))["cache_last_channel"]
        assert found.dtype == numpy_dtype(dtype)
        assert (found != now["cache_last_channel"]).mean() > 0.9


def test_what_happens_once_happens_in_the_middle_alone(contract: Contract) -> None:
    for name in ("update lost", "NaN"):
        assert changed(contract, altered(contract, name, CHUNKS // 2 - 1)) == set()
        assert changed(contract, altered(contract, name, CHUNKS // 2 + 1)) == set()
    assert np.isnan(altered(contract, "NaN", CHUNKS // 2)["cache_last_channel"]).sum() == 1


def test_unswapped_buffers_are_one_update_behind(contract: Contract) -> None:
    alter = by_name(faults(contract, CHUNKS))["buffers not swapped"].alter
    assert alter is not None
    states = [state(contract, seed) for seed in range(4)]
    fed = [alter(StateUpdate(chunk, now, now, state(contract, 9))) for chunk, now in enumerate(states)]
    numbers = [int(one["cache_last_channel_len"][0]) for one in fed]
    assert numbers == [100, 10, 20, 30]


def test_layers_are_found_where_they_lie(contract: Contract) -> None:
    first = contract.model_dump(mode="json")
    for place in ("inputs", "outputs"):
        for name, tensor in first[place].items():
            if name.startswith(("cache_last_channel", "cache_last_time")) and "len" not in name:
                shape = tensor["shape"]
                tensor |= {"shape": [shape[1], shape[0], *shape[2:]], "batch_axis": 1}
    turned = Contract.model_validate(first)
    found, now = altered(turned, "layers swapped", 3), state(turned, 1)
    for name in ("cache_last_channel", "cache_last_time"):
        assert np.array_equal(found[name], now[name][[1, 0, 2]])


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("lstm", {"lengths stuck", "length one short", "off by one"}),
        ("degenerate", {"lengths stuck", "length one short"}),
    ],
)
def test_a_fault_that_a_model_cannot_have_says_why(name: str, missing: set[str]) -> None:
    found = faults(Contract.model_validate(contract_of(name)), CHUNKS)
    lacking = {fault.name: fault.reason for fault in found if fault.alter is None}
    assert lacking.keys() >= missing
    assert all(lacking.values())


def test_a_model_of_one_layer_has_none_to_swap() -> None:
    document = contract_of("convolution")
    document["symbols"] |= {"L": 1}
    for place, name in (("inputs", "past"), ("outputs", "present")):
        document[place][name]["shape"] = ["L", "B", "F", "K"]
    document["state"][0]["shift"] = None
    fault = by_name(faults(Contract.model_validate(document), CHUNKS))["layers swapped"]
    assert fault.alter is None or fault.alter(StateUpdate(1, *[{"past": np.zeros((1, 1, 3, 2))}] * 3))


def test_states_of_one_shape_are_exchanged_where_layers_have_tensors_of_their_own() -> None:
    """As in a Zipformer, whose layers' caches are inputs each, or an LSTM's two states."""
    fault = by_name(faults(Contract.model_validate(contract_of("lstm")), CHUNKS))["layers swapped"]
    assert fault.text == "h and c read each other's state"
    assert fault.alter is not None
    now = {"h": np.zeros((1, 1, 5), np.float32), "c": np.ones((1, 1, 5), np.float32)}
    found = fault.alter(StateUpdate(3, now, now, now))
    assert (float(found["h"].min()), float(found["c"].max())) == (1.0, 0.0)
    document = contract_of("lstm")
    document["state"][1]["dead"] = True
    fault = by_name(faults(Contract.model_validate(document), CHUNKS))["layers swapped"]
    held(fault.reason)


def test_dead_state_is_left_alone() -> None:
    contract = Contract.model_validate(contract_of("degenerate"))
    dead = {pair.input for pair in contract.state if pair.dead}
    for fault in faults(contract, CHUNKS):
        if fault.name in ("off by one", "creeping gain", "NaN", "layers swapped") and fault.alter:
            states: list[Any] = [state(contract, seed) for seed in (1, 0, 9)]
            found = fault.alter(StateUpdate(CHUNKS // 2, *states))
            assert all(np.array_equal(found[name], states[0][name]) for name in dead)


def test_a_model_without_live_state_has_no_faults() -> None:
    document = contract_of("lstm")
    document["state"] = [{**pair, "dead": True} for pair in document["state"]]
    found = faults(Contract.model_validate(document), CHUNKS)
    assert not [fault.name for fault in found if fault.alter]
