"""Every contradiction of a contract, with itself and with a model, is named in one sentence."""

import contextlib
import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.streaming_models import (
    COUNTED_CONTRACT,
    MODELS,
    attention,
    contract_of,
    counted,
    counted_contract,
    write_contract,
)
from tests.texts import held
from tests.unit.stream.contract.contradictions import Edit, drop, fixed, problems, put

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.model_tensors import ModelTensors, read_tensors
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.contract.size_check import loosely_named


@pytest.mark.parametrize("name", MODELS)
def test_sound_contracts_contradict_nothing(name: str, tmp_path: Path) -> None:
    assert problems(contract_of(name), tmp_path, read_tensors(MODELS[name][0](tmp_path))) == []


_PLANTED: dict[str, tuple[Edit, str]] = {
    "initial value outside the range": (
        put("state", 1, "init", "C + 1"),
        "the initial value of cache_len is 7, outside its range, 0 to 6",
    ),
    "initial value of another type": (
        put("state", 1, "init", 0.5),
        "the initial value of cache_len is 0.5, which int64 cannot hold",
    ),
    "initial value beyond the type": (
        put("state", 0, "init", 1e300),
        "the initial value of cache is 1e+300, which float32 cannot hold",
    ),
    "constant of another type": (
        put("inputs", "length", {"dtype": "int8", "shape": [], "role": "constant", "value": 16000}),
        "inputs.length.constant: int8 does not hold the value 16000",
    ),
    "frames and streams on one axis": (
        put("inputs", "x", "time_axis", 0),
        "x has its frames and its streams along one dimension, 0",
    ),
    "no signal": (
        put("inputs", "x", {"dtype": "float32", "shape": [], "role": "constant", "value": 1}),
        "this one has 0",
    ),
    "time axis outside": (put("inputs", "x", "time_axis", 3), "time_axis 3 of x is outside its 3 dimensions"),
    "time axis of fixed size": (put("inputs", "x", "time_axis", 1), "chunk has F = 5, outside every profile (A 3 to 3"),
    "time axis of a rule": (
        put("inputs", "x", "shape", 2, "N"),
        "the time axis of x has the size N, but must be a",
    ),
    "length of nothing": (put("inputs", "length", "of", "y"), "length is the length of y, which is not a signal"),
    "symbol of nothing": (put("symbols", "Q", None), "symbol Q is free (null), but no input has Q alone"),
    "symbols in a ring": (
        lambda one: one["symbols"].update(P="Q + 1", Q="P - 1"),
        "P, Q are computed from each other",
    ),
    "taken name": (put("symbols", "hop", 3), "hop cannot be a symbol's name: it is taken"),
    "unknown symbol": (
        put("outputs", "encoded", "shape", 2, "No"),
        "dimension 2 of encoded (No) names No, which the contract does not have there",
    ),
    "input and output": (
        put("outputs", "x", {"dtype": "float32", "shape": ["B"]}),
        "x is both an input and an output",
    ),
    "batch axis outside": (put("inputs", "cache", "batch_axis", 3), "batch_axis 3 of cache is outside"),
    "batch axis elsewhere": (
        put("inputs", "cache", "batch_axis", 1),
        "the batch axis of cache has the size C, that of x B",
    ),
    "state without a batch": (put("inputs", "cache_len", "shape", [1]), "state cache_len has no batch axis"),
    "no pair": (drop("state", 1), "input cache_len has the role state, but no state pair says which output"),
    "pair of no input": (put("state", 0, "input", "cach"), "names no input of the contract (did you mean cache?)"),
    "pair of no output": (put("state", 0, "output", "nothing"), "names no output of the contract"),
    "pair of another role": (put("state", 0, "input", "length"), "ends in an input with the role length"),
    "two pairs": (lambda one: one["state"].append(one["state"][0]), "input cache is in 2 state pairs"),
    "types of a pair": (put("outputs", "cache_next", "dtype", "float16"), "goes from float16 to float32"),
    "ranks of a pair": (put("outputs", "cache_next", "shape", ["B", "C"]), "goes from 2 dimensions to 3"),
    "sizes of a pair": (put("outputs", "cache_next", "shape", ["B", "C + 1", "D"]), "cache_next is [1, 7, 4]"),
    "batch axes of a pair": (
        lambda one: (put("inputs", "cache", "batch_axis", 0)(one), put("outputs", "cache_next", "batch_axis", 1)(one)),
        "goes from batch axis 1 to 0",
    ),
    "shift outside": (put("state", 0, "shift", "axis", 3), "the shift of cache is along axis 3, outside"),
    "shift of nothing": (
        put("state", 0, "shift", "by", "cache_length"),
        "the valid part of cache (cache_length) names",
    ),
    "valid by nothing": (
        put("outputs", "encoded", "valid", "by", "lens"),
        "the valid part of encoded (lens) names lens",
    ),
    "moving the wrong way": (put("state", 0, "shift", "valid_at", "start"), "its valid part lies at the end"),
    "range of reals": (
        put("inputs", "cache", "range", [0, 1]),
        "cache has a range but is float32; only inputs of whole numbers",
    ),
    "range the wrong way": (put("inputs", "cache_len", "range", ["C", 0]), "the range of cache_len is from 6 to 0"),
    "two ids": (put("invariants", 1, "id", "valid_out"), "2 invariants have the id valid_out"),
    "invariant of nothing": (put("invariants", 0, "check", "lenght > 0"), "names lenght, which the contract does not"),
    "invariant of many": (
        put("invariants", 0, "check", "cache > 0"),
        "asks for cache, which has 24 entries per stream",
    ),
    "invariant of the chunks": (
        put("invariants", 3, "check", "N * 8 == hop"),
        "invariant hop (N * 8 == hop) does not hold at the first chunk: N is 2, hop is 4",
    ),
    "a total sometimes": (
        put("invariants", 4, "when", "chunk > 0"),
        "is about a whole stream and cannot have a `when`",
    ),
    "a total of a chunk": (
        put("invariants", 1, "when", "total(new) > 0"),
        "the `when` of len_out (total(new) > 0) uses total()",
    ),
    "a total as a size": (put("symbols", "N", "total(T)"), "symbol N (total(T)) uses total()"),
    "no number": (put("inputs", "length", "range", ["T / 0", "T"]), "the range of length: T / 0 divides by zero"),
    "memory without end": (
        put("chunking", "memory", "kind", "infinite"),
        "a memory that is infinite cannot have chunks",
    ),
    "no room": (put("chunking", "first", "left_context", 5), "the first chunk of 5 frames has no room for 5 frames"),
    "chunk outside profiles": (
        put("chunking", "later", "size", 17),
        "the later chunk has T = 17, outside every profile (A 5 to 5, B 3 to 15)",
    ),
    "chunk of no whole size": (put("chunking", "later", "size", 8), "N = (T - 1) / 2 is 7/2, not a whole number"),
    "chunk outside the length": (put("inputs", "length", "range", [6, "T"]), "the first chunk has 5 frames, outside"),
    "profile without a symbol": (drop("profiles", 0, "symbols", "B"), "profile A lacks B"),
    "profile of a derived symbol": (
        put("profiles", 0, "symbols", "N", [1, 1, 1]),
        "profile A has N, which is not a free",
    ),
    "profile the wrong way": (put("profiles", 1, "symbols", "T", [9, 3, 15]), "which is not min <= opt <= max"),
    "profile of no whole size": (put("profiles", 1, "symbols", "T", [4, 9, 15]), "at min of profile B N ="),
    "profiles of one name": (put("profiles", 1, "name", "A"), "2 profiles are called A"),
}


@pytest.mark.parametrize("planted", _PLANTED)
def test_a_contradiction_is_named(planted: str, tmp_path: Path) -> None:
    edit, said = _PLANTED[planted]
    document = contract_of("attention")
    edit(document)
    assert any(said in problem for problem in problems(document, tmp_path)), problems(document, tmp_path)


_COUNTED: dict[str, tuple[Edit, str]] = {
    "an older version": (
        put("schema_version", 1),
        "offset has the role counter, which needs schema_version 2",
    ),
    "value of nothing": (put("inputs", "offset", "value", "begin"), "the value of offset (begin) names begin, which"),
    "valid by a tensor": (put("inputs", "mask", "valid", "offset"), "the valid part of mask (offset) names offset"),
    "mask of no axis": (
        put("inputs", "mask", "axis", 2),
        "the mask mask lies along axis 2, which is not a dimension of its",
    ),
    "no whole value": (
        put("inputs", "offset", "value", "start / 2"),
        "at the later chunk: The value of offset is not known at chunk 1: start / 2 is 3/2, not a whole number",
    ),
    "valid beyond the mask": (
        put("inputs", "mask", "valid", "C + T + 1"),
        "at the first chunk: The valid part of mask is 10 at chunk 0, outside 0 to 9",
    ),
    "a symbol of a chunk's name": (put("symbols", "start", 3), "start cannot be a symbol's name: it is taken"),
}


def test_a_sound_contract_with_a_counter_contradicts_nothing(tmp_path: Path) -> None:
    assert problems(counted_contract(), tmp_path, read_tensors(counted(tmp_path))) == []
    document = counted_contract()
    document["invariants"] = [{"id": "offset", "check": "offset == C + start"}]
    assert problems(document, tmp_path) == []


@pytest.mark.parametrize("planted", _COUNTED)
def test_a_contradiction_of_a_counter_is_named(planted: str, tmp_path: Path) -> None:
    edit, said = _COUNTED[planted]
    document = counted_contract()
    edit(document)
    assert any(problem.startswith(said) for problem in problems(document, tmp_path)), problems(document, tmp_path)


def test_contracts_of_version_1_may_call_a_symbol_start(tmp_path: Path) -> None:
    text = json.dumps(contract_of("lstm")).replace('"T"', '"start"')
    assert problems(json.loads(text), tmp_path) == []


def test_an_output_named_after_the_input_that_it_is_made_of_is_no_contradiction(tmp_path: Path) -> None:
    """WeNet calls frames before and behind the subsampling T; runtimes do not hold outputs to names."""
    model = fixed(read_tensors(attention(tmp_path)))
    model.outputs["encoded"] = ModelTensor("encoded", "float32", ("B", 4, "T"))  # type: ignore[index]
    assert problems(contract_of("attention"), tmp_path, model) == []
    contract = read_contract(write_contract(tmp_path / "c.json", contract_of("attention")))
    held(*list(loosely_named(contract, model)))
    model.outputs["encoded_len"] = ModelTensor("encoded_len", "int64", ("T",))  # type: ignore[index]
    (found,) = problems(contract_of("attention"), tmp_path, model)
    held(found)


def test_what_is_wrong_at_every_size_is_said_once(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["outputs"]["cache_next"]["shape"] = ["B", "C", "D + 1"]
    held(*problems(document, tmp_path))


def test_several_are_named_at_once(tmp_path: Path) -> None:
    document = contract_of("attention")
    for planted in ("no pair", "time axis outside", "two ids", "moving the wrong way"):
        _PLANTED[planted][0](document)
    document["inputs"]["lenght"] = document["inputs"].pop("length")
    found = problems(document, tmp_path, read_tensors(attention(tmp_path)))
    for said in (
        "role state",
        "outside its 3 dimensions",
        "2 invariants",
        "at the end",
        "the model has no input lenght",
    ):
        assert any(said in problem for problem in found), said


_NUMBERS = "null true -1 0 2 2147483647 9223372036854775808 1e300 0.5"


_TEXTS = "T N B Q T/0 x cache float32 int64 state signal constant total(T) T==3 -T 1/3 counter mask start start/2 bool"


_STRANGE = [*_NUMBERS.split(), *(f'"{text}"' for text in ("", *_TEXTS.split()))]


_STRANGE += ["[]", "{}", "[1]", '["T", "B"]', "[1, 1, 1]", '["B", "C", "D"]']


def _places(value: Any, *path: Any) -> list[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, part in parts for place in [(*path, key), *_places(part, *path, key)]]


_CHANGED = {**MODELS, "counted": (counted, COUNTED_CONTRACT)}


@given(st.data(), st.sampled_from(sorted(_CHANGED)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_changed_is_sound_or_named(sound_models: dict[str, ModelTensors], data: Any, name: str) -> None:
    """No change ends in anything but contradictions; a contract that passes both checks can be used."""
    document = copy.deepcopy(_CHANGED[name][1])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(_places(document)))
        (drop(*place) if data.draw(st.booleans()) else put(*place, json.loads(data.draw(st.sampled_from(_STRANGE)))))(
            document
        )
    with tempfile.TemporaryDirectory() as folder:
        path = write_contract(Path(folder) / "c.json", document)
        try:
            contract = read_contract(path, sound_models[name])
        except UsageProblem:
            return
    chunk = next(contract.chunks(3))
    values = contract.chunk_values(chunk, **{one: 1 for one in contract.free if one != contract.time_symbol})
    assert contract.initial_state(values).keys() == {pair.input for pair in contract.state}
    with contextlib.suppress(UsageProblem):  # a counter may have no whole number at a short chunk
        assert contract.counters(values, chunk).keys() <= contract.computed.keys()


@pytest.fixture(scope="module")
def sound_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelTensors]:
    folder = tmp_path_factory.mktemp("models")
    return {name: read_tensors(make(folder)) for name, (make, _) in _CHANGED.items()}
