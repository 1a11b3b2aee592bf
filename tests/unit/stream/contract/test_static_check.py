"""Every contradiction of a contract, with itself and with a model, is named in one sentence."""

import contextlib
import copy
import json
import tempfile
from collections.abc import Callable, Mapping
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
    convolution,
    counted,
    counted_contract,
    write_contract,
)

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.model_tensors import ModelTensors, read_tensors
from trt_workbench.stream.contract.reading import Contradictions, read_contract
from trt_workbench.stream.contract.size_check import loosely_named

Edit = Callable[[dict[str, Any]], Any]


def problems(document: dict[str, Any], folder: Path, model: ModelTensors | None = None) -> list[str]:
    try:
        read_contract(write_contract(folder / "c.json", document), model)
    except Contradictions as error:
        return error.problems
    return []


def put(*path: Any) -> Edit:
    """Return what puts the last of `path` at the place that the others lead to."""

    def edit(document: Any) -> None:
        for key in path[:-2]:
            document = document[key]
        document[path[-2]] = path[-1]

    return edit


def drop(*path: Any) -> Edit:
    def edit(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return edit


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
    "constant of another type": (
        put("inputs", "length", {"dtype": "int8", "shape": [], "role": "constant", "value": 16000}),
        "the value of length is 16000, which int8 cannot hold",
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
        "the time axis of x has the size N, which has to be a",
    ),
    "length of nothing": (put("inputs", "length", "of", "y"), "length is the length of y, which is no signal"),
    "symbol of nothing": (put("symbols", "Q", None), "symbol Q is free (null), but no input has a dimension that is Q"),
    "symbols in a ring": (
        lambda one: one["symbols"].update(P="Q + 1", Q="P - 1"),
        "P, Q are computed from one another",
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
    "no pair": (drop("state", 1), "input cache_len has the role state, and no state pair says which output"),
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
    "range of reals": (put("inputs", "cache", "range", [0, 1]), "cache has a range, which inputs of whole numbers"),
    "range the wrong way": (put("inputs", "cache_len", "range", ["C", 0]), "the range of cache_len is from 6 to 0"),
    "two ids": (put("invariants", 1, "id", "valid_out"), "2 invariants have the id valid_out"),
    "invariant of nothing": (put("invariants", 0, "check", "lenght > 0"), "names lenght, which the contract does not"),
    "invariant of many": (put("invariants", 0, "check", "cache > 0"), "asks for cache, which has 24 entries a stream"),
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
        "the `when` of len_out (total(new) > 0) asks for",
    ),
    "a total as a size": (put("symbols", "N", "total(T)"), "symbol N (total(T)) asks for a total"),
    "no number": (put("inputs", "length", "range", ["T / 0", "T"]), "the range of length: T / 0 divides by zero"),
    "memory without end": (
        put("chunking", "memory", "kind", "infinite"),
        "a memory that is infinite cannot have chunks",
    ),
    "no room": (put("chunking", "first", "left_context", 5), "the first chunk of 5 frames has no room beside"),
    "chunk outside profiles": (
        put("chunking", "later", "size", 17),
        "the later chunk has T = 17, outside every profile (A 5 to 5, B 3 to 15)",
    ),
    "chunk of no whole size": (put("chunking", "later", "size", 8), "N = (T - 1) / 2 is 7/2, not a whole number"),
    "chunk outside the length": (put("inputs", "length", "range", [6, "T"]), "the first chunk has 5 frames, outside"),
    "profile without a symbol": (drop("profiles", 0, "symbols", "B"), "profile A lacks B"),
    "profile of a derived symbol": (put("profiles", 0, "symbols", "N", [1, 1, 1]), "profile A has N, which is no free"),
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
        "offset has the role counter, which contracts of schema_version 2 have",
    ),
    "value of nothing": (put("inputs", "offset", "value", "begin"), "the value of offset (begin) names begin, which"),
    "valid by a tensor": (put("inputs", "mask", "valid", "offset"), "the valid part of mask (offset) names offset"),
    "mask of no axis": (put("inputs", "mask", "axis", 2), "the mask mask lies along axis 2, which is none of its"),
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
    assert list(loosely_named(contract, model)) == [
        "the model calls dimension 2 of encoded T, as dimension 2 of x; by the contract it is N"
    ]
    model.outputs["encoded_len"] = ModelTensor("encoded_len", "int64", ("T",))  # type: ignore[index]
    (found,) = problems(contract_of("attention"), tmp_path, model)
    assert found.startswith("the model calls dimension 2 of x and dimension 0 of encoded_len T")


def test_what_is_wrong_at_every_size_is_said_once(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["outputs"]["cache_next"]["shape"] = ["B", "C", "D + 1"]
    assert problems(document, tmp_path) == [
        "at min of profile A cache_next is [1, 6, 5] and the input that takes it, cache, [1, 6, 4]"
    ]


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


_AGAINST: dict[str, tuple[Edit, str]] = {
    "name": (
        lambda one: one["outputs"].update(encode=one["outputs"].pop("encoded")),
        "the model has no output encode (did you mean encoded?)",
    ),
    "lacking": (drop("outputs", "encoded"), "the contract lacks the model's output encoded"),
    "type": (put("inputs", "length", "dtype", "int32"), "length is int64 in the model and int32 in the contract"),
    "rank": (put("outputs", "encoded_len", "shape", ["B", 1]), "encoded_len has 1 dimensions in the model and 2"),
    "size": (put("symbols", "F", 4), "F is 4 in the contract and 3 in the model, in dimension 1 of x: give it"),
    "one name": (
        put("outputs", "encoded_len", "shape", ["N"]),
        "the model calls dimension 0 of x and dimension 0 of encoded_len B, the contract says 1 and 2 at min of",
    ),
}


@pytest.mark.parametrize("planted", _AGAINST)
def test_a_contradiction_with_the_model_is_named(planted: str, tmp_path: Path) -> None:
    edit, said = _AGAINST[planted]
    document = contract_of("attention")
    edit(document)
    found = problems(document, tmp_path, read_tensors(attention(tmp_path)))
    assert any(said in problem for problem in found), found


def fixed(model: ModelTensors, **sizes: int) -> ModelTensors:
    """Return a model whose symbols of these names are numbers."""

    def of(many: Mapping[str, ModelTensor]) -> dict[str, ModelTensor]:
        return {
            name: ModelTensor(name, one.dtype, tuple(sizes.get(str(dim), dim) for dim in one.shape or ()))
            for name, one in many.items()
        }

    return ModelTensors(of(model.inputs), of(model.outputs), model.profiles, model.narrows, model.is_engine)


def test_a_model_with_a_fixed_size_takes_no_other(tmp_path: Path) -> None:
    model = convolution(tmp_path, ("float[B,3,T] x", "float[1,3,T] x"))
    assert problems(contract_of("convolution"), tmp_path, read_tensors(model)) == [
        "B is 1 to 4 in the contract's profiles and 1 in the model, in dimension 0 of x: give the profiles "
        '"B": [1, 1, 1], or export the model with a dimension that takes 1 to 4'
    ]


def test_a_symbol_that_the_model_fixes_is_one_contradiction_however_many_tensors_have_it(tmp_path: Path) -> None:
    model = fixed(read_tensors(attention(tmp_path)), B=1)
    assert problems(contract_of("attention"), tmp_path, model) == [
        "B is 1 to 3 in the contract's profiles and 1 in the model, in 8 tensors (dimension 0 of x, for one): give the "
        'profiles "B": [1, 1, 1], or export the model with a dimension that takes 1 to 3'
    ]
    document = contract_of("attention")
    for profile in document["profiles"]:
        profile["symbols"]["B"] = [1, 1, 1]
    assert problems(document, tmp_path, model) == [], "what the message advises is enough"


def test_what_follows_from_a_fixed_symbol_is_part_of_its_contradiction(tmp_path: Path) -> None:
    model = fixed(read_tensors(attention(tmp_path)), B=1, T=9, N=4)
    batch, time = problems(contract_of("attention"), tmp_path, model)
    assert batch.startswith("B is 1 to 3 in the contract's profiles and 1 in the model, in 8 tensors")
    assert time == (
        "T is 3 to 15 in the contract's profiles and 9 in the model, in 2 tensors (dimension 2 of x, for one): give "
        'the chunks 9 frames and the profiles "T": [9, 9, 9], or export the model with a dimension that takes 3 to 15'
    )
    *_, lost = problems(contract_of("attention"), tmp_path, fixed(read_tensors(attention(tmp_path)), B=1, T=9, N=3))
    assert (
        lost
        == "N is (T - 1) / 2 in the contract, which is 4 where T is 9, and 3 in the model, in dimension 2 of encoded"
    )


def test_different_sizes_of_one_symbol_are_different_contradictions(tmp_path: Path) -> None:
    model = fixed(read_tensors(attention(tmp_path)), B=1)
    model.outputs["encoded_len"] = ModelTensor("encoded_len", "int64", (2,))  # type: ignore[index]
    found = problems(contract_of("attention"), tmp_path, model)
    assert [one.partition(": ")[0] for one in found] == [
        "B is 1 to 3 in the contract's profiles and 1 in the model, in 7 tensors (dimension 0 of x, for one)",
        "B is 1 to 3 in the contract's profiles and 2 in the model, in dimension 0 of encoded_len",
    ]


def test_a_wrong_number_of_a_symbol_is_one_contradiction(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["symbols"]["D"] = 5
    assert problems(document, tmp_path, read_tensors(attention(tmp_path))) == [
        "D is 5 in the contract and 4 in the model, in 3 tensors (dimension 2 of cache, for one): give it its size in "
        "symbols, or pass the model that the contract is of"
    ]
    document["symbols"]["F"] = 2
    assert len(problems(document, tmp_path, read_tensors(attention(tmp_path)))) == 2


def test_one_name_of_the_model_is_one_contradiction(tmp_path: Path) -> None:
    document = contract_of("attention")
    for name in ("encoded", "encoded_len"):
        document["outputs"][name]["shape"][0] = 1
    assert problems(document, tmp_path, read_tensors(attention(tmp_path))) == [
        "the model calls dimension 0 of x and dimension 0 of encoded B, the contract says 2 and 1 at opt of profile B, "
        "and so in 1 more"
    ]


def test_a_symbol_that_is_not_there_is_one_contradiction(tmp_path: Path) -> None:
    document = contract_of("attention")
    del document["symbols"]["D"]
    assert problems(document, tmp_path) == [
        "D stands in 3 tensors (dimension 2 of cache, for one), and symbols does not have it"
    ]


def test_streams_of_another_symbol_are_one_contradiction(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["symbols"]["S"] = None
    for profile in document["profiles"]:
        profile["symbols"]["S"] = [1, 1, 1]
    document["inputs"]["x"]["shape"][0] = "S"
    for tensor in [*document["inputs"].values(), *document["outputs"].values()]:
        tensor["batch_axis"] = 0
    assert problems(document, tmp_path) == ["the batch axis of 7 tensors (length, for one) has the size B, that of x S"]


def engine(narrows: bool, *profiles: str) -> ModelTensors:
    number = "int32" if narrows else "int64"
    inputs = {
        "x": ModelTensor("x", "float32", (None, 3, None)),
        "length": ModelTensor("length", number, (None,)),
        "cache": ModelTensor("cache", "float32", (None, 6, 4)),
        "cache_len": ModelTensor("cache_len", number, (None,)),
    }
    outputs = {
        "encoded": ModelTensor("encoded", "float32", (None, 4, None)),
        "encoded_len": ModelTensor("encoded_len", number, (None,)),
        "cache_next": ModelTensor("cache_next", "float32", (None, 6, 4)),
        "cache_len_next": ModelTensor("cache_len_next", number, (None,)),
    }
    return ModelTensors(inputs, outputs, tuple(map(Profile.model_validate, profiles)), narrows, is_engine=True)


_WIDE = "x:1x3x3/2x3x9/3x3x15,length:1/2/3,cache:1x6x4/2x6x4/3x6x4,cache_len:1/2/3"


def test_whole_numbers_have_32_bits_in_an_engine_before_tensorrt_10(tmp_path: Path) -> None:
    assert problems(contract_of("attention"), tmp_path, engine(narrows=True)) == []
    wide = engine(narrows=False)
    narrow = {
        name: ModelTensor(name, "int32", one.shape) if one.dtype == "int64" else one
        for name, one in wide.inputs.items()
    }
    found = problems(contract_of("attention"), tmp_path, ModelTensors(narrow, wide.outputs))
    assert "length is int32 in the model and int64 in the contract" in found


def test_the_profiles_of_an_engine_accept_those_of_the_contract(tmp_path: Path) -> None:
    assert problems(contract_of("attention"), tmp_path, engine(True, _WIDE)) == []
    assert problems(contract_of("attention"), tmp_path, engine(True, _WIDE.replace("3x3x15", "3x3x11"))) == [
        "T is 3 to 15 in the contract's profiles and 3 to 11 in the engine's, in dimension 2 of x: give the contract "
        "those of the engine, or build the engine for 3 to 15"
    ]


_ONE = "x:1x3x3/1x3x9/1x3x15,length:1,cache:1x6x4,cache_len:1"


@pytest.mark.parametrize("dynamic", [True, False])
def test_an_engine_of_one_stream_is_one_contradiction(dynamic: bool, tmp_path: Path) -> None:
    """Builders fix dimensions to which the profiles leave one value, in the manifest's shapes, too."""
    model = engine(True, _ONE)
    if not dynamic:
        rows = {name: (1, *(one.shape or ())[1:]) for name, one in {**model.inputs, **model.outputs}.items()}
        inputs, outputs = (
            {name: ModelTensor(name, one.dtype, rows[name]) for name, one in many.items()}
            for many in (model.inputs, model.outputs)
        )
        model = ModelTensors(inputs, outputs, model.profiles, narrows=True, is_engine=True)
    (found,) = problems(contract_of("attention"), tmp_path, model)
    assert found == (
        "B is 1 to 3 in the contract's profiles and 1 in the engine's, in 4 tensors (dimension 0 of x, for one): give "
        "the contract those of the engine, or build the engine for 1 to 3"
        if dynamic
        else "B is 1 to 3 in the contract's profiles and 1 in the engine, in 8 tensors (dimension 0 of x, for one): "
        'give the profiles "B": [1, 1, 1], or build the engine for 1 to 3'
    )


def test_sizes_that_the_engine_has_in_different_profiles_are_named_where_they_come_together(tmp_path: Path) -> None:
    wide = _ONE, _WIDE.replace("1x3x3/2x3x9/3x3x15", "1x3x3/2x3x5/3x3x9")
    assert problems(contract_of("attention"), tmp_path, engine(True, *wide)) == [
        "the engine has no profile that accepts max of profile B (x 3x3x15, length 3, cache 3x6x4, cache_len 3)"
    ]
    ranges = _ONE, _WIDE.replace("1x", "3x").replace("2x", "3x").replace("1/2/3", "3/3/3")
    (found,) = problems(contract_of("attention"), tmp_path, engine(True, *ranges))
    assert found.startswith("B is 1 to 3 in the contract's profiles and 1 or 3 in the engine's, in 4 tensors")


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
