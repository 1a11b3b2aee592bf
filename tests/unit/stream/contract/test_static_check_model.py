"""A contract that contradicts a model, or an engine, is refused, with the place."""

from pathlib import Path

import pytest
from tests.streaming_models import (
    attention,
    contract_of,
    convolution,
)
from tests.texts import held
from tests.unit.stream.contract.contradictions import Edit, drop, fixed, problems, put

from trt_workbench.engine.profiles import Profile
from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.model_tensors import ModelTensors, read_tensors

_AGAINST: dict[str, tuple[Edit, str]] = {
    "name": (
        lambda one: one["outputs"].update(encode=one["outputs"].pop("encoded")),
        "the model has no output encode (did you mean encoded?)",
    ),
    "lacking": (drop("outputs", "encoded"), "the contract lacks the model's output encoded"),
    "type": (put("inputs", "length", "dtype", "int32"), "length is int64 in the model and int32 in the contract"),
    "rank": (put("outputs", "encoded_len", "shape", ["B", 1]), "encoded_len has 1 dimension in the model and 2"),
    "size": (put("symbols", "F", 4), "F is 4 in the contract and 3 in the model, in dimension 1 of x: give it"),
    "one name": (
        put("outputs", "encoded_len", "shape", ["N"]),
        "the model calls dimension 0 of x and dimension 0 of encoded_len B, but the contract says 1 and 2 at min of",
    ),
}


@pytest.mark.parametrize("planted", _AGAINST)
def test_a_contradiction_with_the_model_is_named(planted: str, tmp_path: Path) -> None:
    edit, said = _AGAINST[planted]
    document = contract_of("attention")
    edit(document)
    found = problems(document, tmp_path, read_tensors(attention(tmp_path)))
    assert any(said in problem for problem in found), found


def test_a_model_with_a_fixed_size_takes_no_other(tmp_path: Path) -> None:
    model = convolution(tmp_path, ("float[B,3,T] x", "float[1,3,T] x"))
    held(*problems(contract_of("convolution"), tmp_path, read_tensors(model)))


def test_a_symbol_that_the_model_fixes_is_one_contradiction_however_many_tensors_have_it(tmp_path: Path) -> None:
    model = fixed(read_tensors(attention(tmp_path)), B=1)
    held(*problems(contract_of("attention"), tmp_path, model))
    document = contract_of("attention")
    for profile in document["profiles"]:
        profile["symbols"]["B"] = [1, 1, 1]
    assert problems(document, tmp_path, model) == [], "what the message advises is enough"


def test_what_follows_from_a_fixed_symbol_is_part_of_its_contradiction(tmp_path: Path) -> None:
    model = fixed(read_tensors(attention(tmp_path)), B=1, T=9, N=4)
    batch, time = problems(contract_of("attention"), tmp_path, model)
    held(batch)
    held(time)
    *_, lost = problems(contract_of("attention"), tmp_path, fixed(read_tensors(attention(tmp_path)), B=1, T=9, N=3))
    held(lost)


def test_different_sizes_of_one_symbol_are_different_contradictions(tmp_path: Path) -> None:
    model = fixed(read_tensors(attention(tmp_path)), B=1)
    model.outputs["encoded_len"] = ModelTensor("encoded_len", "int64", (2,))  # type: ignore[index]
    found = problems(contract_of("attention"), tmp_path, model)
    held(*[one.partition(": ")[0] for one in found])


def test_a_wrong_number_of_a_symbol_is_one_contradiction(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["symbols"]["D"] = 5
    held(*problems(document, tmp_path, read_tensors(attention(tmp_path))))
    document["symbols"]["F"] = 2
    assert len(problems(document, tmp_path, read_tensors(attention(tmp_path)))) == 2


def test_one_name_of_the_model_is_one_contradiction(tmp_path: Path) -> None:
    document = contract_of("attention")
    for name in ("encoded", "encoded_len"):
        document["outputs"][name]["shape"][0] = 1
    held(*problems(document, tmp_path, read_tensors(attention(tmp_path))))


def test_a_symbol_that_is_not_there_is_one_contradiction(tmp_path: Path) -> None:
    document = contract_of("attention")
    del document["symbols"]["D"]
    held(*problems(document, tmp_path))


def test_streams_of_another_symbol_are_one_contradiction(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["symbols"]["S"] = None
    for profile in document["profiles"]:
        profile["symbols"]["S"] = [1, 1, 1]
    document["inputs"]["x"]["shape"][0] = "S"
    for tensor in [*document["inputs"].values(), *document["outputs"].values()]:
        tensor["batch_axis"] = 0
    held(*problems(document, tmp_path))


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
    held(*found)


def test_the_profiles_of_an_engine_accept_those_of_the_contract(tmp_path: Path) -> None:
    assert problems(contract_of("attention"), tmp_path, engine(True, _WIDE)) == []
    held(*problems(contract_of("attention"), tmp_path, engine(True, _WIDE.replace("3x3x15", "3x3x11"))))


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
    held(*problems(contract_of("attention"), tmp_path, engine(True, *wide)))
    ranges = _ONE, _WIDE.replace("1x", "3x").replace("2x", "3x").replace("1/2/3", "3/3/3")
    (found,) = problems(contract_of("attention"), tmp_path, engine(True, *ranges))
    held(found)
