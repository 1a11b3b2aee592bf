"""What follows from a contract: chunks, states, the arrays of a chunk, solved symbols."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.streaming_models import C, D, F, contract_of, counted_contract, write_contract
from tests.texts import held, refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.feeding import fitted
from trt_workbench.stream.contract.reading import Contradictions, read_contract


def contract(name: str = "attention", **changes: Any) -> Contract:
    return Contract.model_validate({**contract_of(name), **changes})


def test_symbols_follow_from_the_free_ones() -> None:
    assert contract().values({"B": 2, "T": 9}) == {"B": 2, "T": 9, "N": 4, "F": F, "D": D, "C": C}
    with pytest.raises(ValueError, match=r"N = .* is 7/2, not a whole number"):
        contract().values({"B": 2, "T": 8})
    with pytest.raises(ValueError, match="T, N cannot be computed from B"):
        contract().values({"B": 2})


def test_shapes_decide_the_symbols_and_contradictions_are_named() -> None:
    shapes = {"x": (2, F, 9), "length": (3,), "encoded": (2, D, 5), "cache": (None, 7, D), "other": (1,)}
    values, problems = contract().solve(shapes)
    assert values == {"B": 2, "T": 9}
    held(*problems)


def test_chunks_of_a_stream() -> None:
    found = list(contract().chunks(17))
    assert [(one.start, one.new, one.left_context, one.size) for one in found] == [
        (0, 4, 1, 5),
        (4, 8, 1, 9),
        (12, 5, 1, 9),
    ]
    assert found[2].names == {"chunk": 2, "hop": 8, "left_context": 1, "new": 5, "start": 12}
    assert found[2].valid == 6
    assert [one.size for one in contract().chunks(9, size=5)] == [5, 5, 5]
    assert list(contract().chunks(0)) == []
    with pytest.raises(ValueError, match="no room for 1"):
        list(contract().chunks(9, size=1))


@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 40), st.integers(0, 9), st.integers(0, 9))
def test_no_frame_is_lost_and_none_comes_twice(
    frames: int, first: int, later: int, first_left: int, later_left: int
) -> None:
    chunking = {
        "first": {"size": first + first_left, "left_context": first_left},
        "later": {"size": later + later_left, "left_context": later_left},
    }
    found = list(contract(chunking=chunking).chunks(frames))
    covered = [frame for one in found for frame in range(one.start, one.start + one.new)]
    assert covered == list(range(frames))
    assert all(one.new == one.hop for one in found[:-1])


def test_a_chunk_is_fed_with_its_left_context_and_padding() -> None:
    one = contract(chunking={**contract_of("attention")["chunking"], "left_fill": -1.0})
    signal = np.arange(2 * F * 14, dtype=np.float32).reshape(2, F, 14)
    chunks = list(one.chunks(14))
    first = one.feed(chunks[0], signal, one.chunk_values(chunks[0], 2))
    assert first.keys() == {"x", "length"}
    np.testing.assert_array_equal(first["x"], np.concatenate([np.full((2, F, 1), -1.0), signal[..., :4]], 2))
    assert first["length"].tolist() == [5, 5]
    last = one.feed(chunks[2], signal, one.chunk_values(chunks[2], 2))
    np.testing.assert_array_equal(last["x"][..., :3], signal[..., 11:])
    assert (last["x"][..., 3:] == -1).all()
    assert (last["x"].shape, last["length"].tolist(), last["length"].dtype) == ((2, F, 9), [3, 3], np.int64)


def test_a_length_stays_within_its_range() -> None:
    document = contract_of("attention")
    document["inputs"]["length"]["range"] = [5, "T"]
    one = Contract.model_validate(document)
    chunk = list(one.chunks(5))[1]
    assert chunk.valid == 2
    assert one.feed(chunk, np.zeros((1, F, 5), np.float32), one.chunk_values(chunk))["length"].tolist() == [5]


def test_constants_are_fed_as_they_are() -> None:
    document = contract_of("convolution")
    document["inputs"]["sr"] = {"dtype": "int64", "shape": [], "role": "constant", "value": 16000}
    one = Contract.model_validate(document)
    chunk = next(one.chunks(4))
    fed = one.feed(chunk, np.zeros((1, F, 4), np.float32), one.chunk_values(chunk))["sr"]
    assert (fed.shape, fed.dtype, fed.item()) == ((), np.int64, 16000)


def test_a_constant_is_a_number_that_its_type_holds() -> None:
    document: Any = contract_of("attention")
    document["inputs"]["of"] = {"dtype": "int32", "shape": [], "role": "constant", "value": "a", "values": {"a": 1}}
    one = Contract.model_validate({**document, "schema_version": 3})
    assert one.constants({"of": -3}) == {"of": -3}
    for values in ({"of": 1.5}, {"of": 3e9}, {"of": float("inf")}, {"of": float("nan")}, {"other": 1}):
        with refused(UsageProblem):
            one.constants(values)


def test_counters_and_masks_follow_from_the_place_of_a_chunk() -> None:
    one = Contract.model_validate(counted_contract())
    signal = np.zeros((2, 9, 3), np.float32)
    fed = [one.feed(chunk, signal, one.chunk_values(chunk, 2)) for chunk in one.chunks(9)]
    assert [chunk["offset"].tolist() for chunk in fed] == [[6, 6], [9, 9], [11, 11], [13, 13]]
    assert [chunk["mask"][1].astype(int).tolist() for chunk in fed[:3]] == [
        [0, 0, 0, 0, 0, 0, 1, 1, 1],
        [0, 0, 0, 1, 1, 1, 1, 1],
        [0, 1, 1, 1, 1, 1, 1, 1],
    ]
    assert (fed[3]["mask"].all(), fed[3]["mask"].dtype) == (True, bool)
    document = counted_contract()
    document["inputs"]["mask"] |= {"valid_at": "start", "dtype": "float32"}
    one = Contract.model_validate(document)
    chunk = next(one.chunks(9))
    assert one.feed(chunk, signal, one.chunk_values(chunk, 1))["mask"].tolist() == [[1, 1, 1, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("name", "key", "rule"),
    [
        ("offset", "value", "start / 2"),
        ("offset", "value", "start + 126"),
        ("mask", "valid", "start + 6"),
    ],
)
def test_a_counter_that_an_input_cannot_hold_is_said(name: str, key: str, rule: str) -> None:
    document = counted_contract()
    document["inputs"]["offset"]["dtype"] = "int8"
    document["inputs"][name][key] = rule
    one = Contract.model_validate(document)
    chunk = list(one.chunks(9))[1]
    with refused(UsageProblem):
        one.feed(chunk, np.zeros((1, 9, 3), np.float32), one.chunk_values(chunk))


def test_states_begin_as_the_contract_says(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["state"][1]["init"] = "C - 2"
    document["state"][0]["init"] = {"file": "cache.npy"}
    learned = np.arange(C * D, dtype=np.float32).reshape(C, D)
    np.save(tmp_path / "cache.npy", learned)
    one = Contract.model_validate(document)
    state = one.initial_state(one.values({"B": 2, "T": 9}), tmp_path)
    assert state["cache_len"].tolist() == [4, 4]
    np.testing.assert_array_equal(state["cache"], [learned, learned])
    assert one.next_state({"cache_next": learned, "cache_len_next": 1, "encoded": 0}) == {
        "cache": learned,
        "cache_len": 1,
    }


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((C, D + 1), np.float32),
        np.zeros((C, D), np.float64),
        np.full((C, D), np.nan, np.float32),
    ],
)
def test_an_initial_value_that_does_not_fit(array: Any, tmp_path: Path) -> None:
    document = contract_of("attention")
    document["state"][0]["init"] = {"file": "cache.npy"}
    np.save(tmp_path / "cache.npy", array)
    one = Contract.model_validate(document)
    with refused(UsageProblem):
        one.initial_state(one.values({"B": 1, "T": 9}), tmp_path)


@pytest.mark.parametrize(
    ("init", "said"),
    [
        ({"file": "../h.npy"}, "state.0.init.file.file: the name '../h.npy' points outside its folder"),
        ("C +", "state.0.init.expression: 'C +' is not an expression (invalid syntax)"),
        (True, "state.0.init.expression: "),
    ],
)
def test_an_initial_value_that_is_none_is_named_once(init: Any, said: str, tmp_path: Path) -> None:
    document = contract_of("lstm")
    document["state"][0]["init"] = init
    with pytest.raises(Contradictions) as caught:
        read_contract(write_contract(tmp_path / "c.json", document))
    (problem,) = caught.value.problems
    assert problem.startswith(said)


def test_an_engine_is_built_for_the_profiles() -> None:
    one = contract()
    assert str(one.engine_profile(one.profiles[1])) == (
        "x:1x3x3/2x3x9/3x3x15,length:1/2/3,cache:1x6x4/2x6x4/3x6x4,cache_len:1/2/3"
    )
    assert [profile.name for profile in one.profiles_for({"B": 1, "T": 5})] == ["A", "B"]
    assert [profile.name for profile in one.profiles_for({"B": 2, "T": 5})] == ["B"]


def test_a_session_with_narrower_numbers_gets_them() -> None:
    specs = [TensorSpec("length", "int32", (None,))]
    assert fitted({"length": np.asarray([3]), "more": np.zeros(1)}, specs)["length"].dtype == np.int32


def test_a_contract_is_written_as_it_was_read(tmp_path: Path) -> None:
    for name in ("attention", "convolution", "lstm", "degenerate"):
        one = read_contract(write_contract(tmp_path / "c.json", contract_of(name)))
        again = write_contract(tmp_path / "again.json", json.loads(one.model_dump_json()))
        assert read_contract(again) == one


def test_every_problem_of_the_form_is_named_at_once(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["inputs"]["x"]["dtype"] = "floot32"
    document["symbols"]["N"] = "__import__('os')"
    document["chunking"]["first"]["size"] = "TODO: frames of the first chunk"
    document["nonsense"] = 1
    document["inputs"]["length"]["range"] = ["TODO: the fewest frames", "T"]
    with pytest.raises(Contradictions) as caught:
        read_contract(write_contract(tmp_path / "c.json", document))
    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 5, "what is undecided is said once"
    assert "chunking.first.size: TODO: frames of the first chunk" in problems
    for place in ("inputs.x", "symbols.N", "nonsense"):
        assert f"{place}" in problems
