"""Streams in calls of a fixed number of rows, and of the numbers that profiles have."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.streaming_models import (
    MODELS,
    contract_of,
    write_contract,
)
from tests.texts import refused
from tests.unit.stream.contract.streams import alone, opened, pieces, same, signal

from trt_workbench.backends.base import Session
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.pool import StreamPool


def test_a_state_starts_with_the_contracts_value(tmp_path: Path) -> None:
    document = contract_of("convolution")
    document["state"][0]["init"] = {"file": "init.npy"}
    value = np.random.default_rng(0).standard_normal((1, 1, 3, 2)).astype(np.float32)
    np.save(tmp_path / "init.npy", value)
    session, contract = opened("convolution", tmp_path, state=document["state"])
    with session, StreamPool(session, contract, folder=tmp_path) as pool:
        streams = [pool.open(), pool.open()]
        assert np.array_equal(streams[1].save().state["past"], value)
        frames = signal(contract, 4, 0)
        outputs = session.run({"x": frames, "past": value})
        for found in pool.push(streams, [frames, frames[0]]):
            same(found, {"y": outputs["y"]})


def test_a_fixed_number_of_rows_is_filled_up(tmp_path: Path) -> None:
    """A model that takes three streams and no other number runs one and two as well."""
    edits = (("float[B,3,T] x, float[1,B,3,2]", "float[3,3,T] x, float[1,3,3,2]"),)
    session = get_backend("ort-cpu").load(MODELS["convolution"][0](tmp_path, *edits))
    document = json.loads(json.dumps(contract_of("convolution")).replace('"B": [1, 1, 4]', '"B": [3, 3, 3]'))
    contract = read_contract(write_contract(tmp_path / "c.json", document))
    wide, _ = opened("convolution", tmp_path)
    wholes = [signal(contract, 12, stream) for stream in range(4)]
    parts = [pieces(contract, whole) for whole in wholes]
    with session, wide, StreamPool(session, contract) as pool:
        assert pool.buckets == (3,)
        streams = [pool.open() for _ in range(4)]
        for step in range(3):
            for whole, found in zip(wholes, pool.push(streams, [part[step] for part in parts]), strict=True):
                same(found, alone((wide, contract), whole)[step])


def test_only_numbers_of_rows_that_a_profile_has_are_run(tmp_path: Path) -> None:
    """An engine with a profile for one, two and four streams refuses three."""
    document = json.loads(json.dumps(contract_of("convolution")))
    wide = document["profiles"][0]
    document["profiles"] = [{"name": f"b{rows}", "symbols": {**wide["symbols"], "B": [rows] * 3}} for rows in (1, 2, 4)]
    session, _ = opened("convolution", tmp_path)
    contract = read_contract(write_contract(tmp_path / "c.json", document))
    wholes = [signal(contract, 12, stream) for stream in range(3)]
    parts = [pieces(contract, whole) for whole in wholes]
    with session, StreamPool(session, contract) as pool:
        assert pool.buckets == (1, 2, 4)
        streams = [pool.open() for _ in wholes]
        for step in range(3):
            for whole, found in zip(wholes, pool.push(streams, [part[step] for part in parts]), strict=True):
                same(found, alone((session, contract), whole)[step])


class Engine:
    """A session that could keep states on a device, as an engine of TensorRT does."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def most_rows(self, *_: object) -> None:
        """It has no limit."""

    def stream_pool(self, *_: object, **__: object) -> None:
        raise AssertionError("the states stay on the host")


def test_an_engine_runs_the_same_numbers_of_rows_with_states_on_the_host(tmp_path: Path) -> None:
    """`eval-stream` builds a profile for each of these numbers and for no other."""
    session, contract = opened("convolution", tmp_path)
    engine: Any = Engine(session)
    with session, StreamPool(engine, contract, on_device=False) as pool:
        assert pool.buckets == (1, 2, 4)


def test_a_size_that_no_profile_takes_is_refused(tmp_path: Path) -> None:
    session, contract = opened("attention", tmp_path)
    with session:
        with refused(UsageProblem):
            StreamPool(session, contract, size=17)
        with refused(UsageProblem):
            StreamPool(session, contract, size=1)
        with refused(UsageProblem):
            StreamPool(session, contract, on_device=True)
