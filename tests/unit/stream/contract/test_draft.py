"""A draft decides what the model says, and nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.streaming_models import attention, lstm, zipformer
from tests.texts import held, refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.facts import ModelTensor
from trt_workbench.model.opened import Model
from trt_workbench.stream.contract import draft as module
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.draft_stream import Known
from trt_workbench.stream.contract.graph import StreamGraph
from trt_workbench.stream.contract.model_tensors import ModelTensors, read_tensors
from trt_workbench.stream.contract.reading import undecided
from trt_workbench.stream.contract.static_check import contradictions

Shape = tuple[int | str | None, ...]


def draft(name: str, model: ModelTensors, known: Known) -> Any:
    return module.draft(name, model, known)[0]


def drafted(path: Path, **known: Any) -> tuple[Any, dict[str, str], list[str]]:
    """Return the draft of a file, what it leaves open, and what was concluded."""
    document, notes = module.draft(path.stem, read_tensors(path), Known(**known), StreamGraph(Model.open(path)))
    return document, dict(undecided(document)), notes


def reals(**shapes: Shape) -> dict[str, ModelTensor]:
    return {name: ModelTensor(name, "float32", shape) for name, shape in shapes.items()}


def tensors(*several: ModelTensor) -> dict[str, ModelTensor]:
    return {one.name: one for one in several}


def encoder(*made: str) -> ModelTensors:
    """Return an encoder with a length beside its signal and one beside its cache, which becomes one of `made`."""
    signal, cache = ModelTensor("x", "float32", ("B", 80, "T")), ModelTensor("cache", "float32", ("B", 70, 512))
    lengths = [ModelTensor(name, "int64", ("B",)) for name in ("x_len", "cache_len", *made)]
    encoded = ModelTensor("y", "float32", ("B", 512, "N"))
    after = ModelTensor("cache_next", "float32", ("B", 70, 512))
    return ModelTensors(tensors(signal, cache, *lengths[:2]), tensors(encoded, after, *lengths[2:]))


def test_the_length_beside_the_signal_is_its_length() -> None:
    made = draft("encoder", encoder("y_len", "cache_next_len"), Known())
    assert [one["input"] for one in made["state"]] == ["cache", "cache_len"]
    assert (made["inputs"]["x_len"]["role"], made["inputs"]["cache_len"]["role"]) == ("length", "state")


def test_the_only_input_that_can_be_the_signal_is_it_though_an_output_is_like_it() -> None:
    """A denoiser gives what it takes."""
    inputs, outputs = reals(x=("N", "T", 16), key_0=("N", 4, 16)), reals(y=("N", "T", 16), new_key_0=("N", None, 16))
    made = draft("denoiser", ModelTensors(inputs, outputs), Known())
    assert (made["inputs"]["x"]["role"], made["inputs"]["x"]["time_axis"]) == ("signal", 1)


def test_tokens_beside_what_may_be_a_state_leave_the_signal_open() -> None:
    inputs = {**reals(memory=("N", 4, 16)), "tokens": ModelTensor("tokens", "int64", ("N", "T"))}
    outputs = reals(logits=("N", "T", 100), held=("N", 4, 16))
    made = draft("lm", ModelTensors(inputs, outputs), Known())
    held(made["inputs"]["memory"]["role"])
    made = draft("lm", ModelTensors(inputs, outputs), Known(signal="tokens", states={"memory": "held"}))
    assert made["inputs"]["tokens"]["role"] == "signal"
    assert (made["inputs"]["tokens"]["time_axis"], made["inputs"]["memory"]["role"]) == (1, "state")
    del inputs["memory"]
    assert draft("lm", ModelTensors(inputs, outputs), Known())["inputs"]["tokens"]["role"] == "signal"


def test_what_has_no_like_among_the_outputs_is_the_signal() -> None:
    inputs, outputs = reals(x=(1, 512), ring=(1, 8)), reals(y=(1, 1), buffer=(1, 8))
    made = draft("vad", ModelTensors(inputs, outputs), Known())
    assert (made["inputs"]["x"]["role"], made["inputs"]["x"]["time_axis"]) == ("signal", 1)
    assert made["inputs"]["ring"]["role"].endswith("as a state it may take buffer (--state INPUT=OUTPUT)")


def test_states_and_the_signal_as_the_user_says() -> None:
    """DTLN: nothing in its names says what belongs together."""
    inputs, outputs = reals(input_2=(1, 1, 257), input_3=(1, 2, 128, 2)), reals(mask=(1, 1, 257), h=(1, 2, 128, 2))
    model = ModelTensors(inputs, outputs)
    assert draft("dtln", model, Known())["inputs"]["input_2"]["role"].startswith("TODO")
    made, notes = module.draft("dtln", model, Known(states={"input_3": "h"}, left_context=0, init=0.0))
    assert dict(undecided(made)) == {}
    assert made["state"] == [{"output": "h", "input": "input_3", "init": 0.0}]
    assert made["inputs"]["input_2"]["shape"] == [1, "T", 257]
    assert made["chunking"]["later"] == {"size": 1, "left_context": 0}
    held(*notes)


@pytest.mark.parametrize(
    "known",
    [
        {"signal": "input_4"},
        {"states": {"input_3": "g"}},
        {"states": {"inputs": "h"}},
        {"states": {"input_3": "mask"}},
        {"signal": "input_2", "time_axis": 3},
        {"signal": "input_2", "time_axis": 0},
        {"signal": "input_2", "first": 2},
        {"signal": "input_2", "batch": (1, 4, 4)},
    ],
)
def test_what_the_user_says_against_the_model_is_refused(known: dict[str, Any]) -> None:
    inputs, outputs = reals(input_2=(1, 1, 257), input_3=(1, 2, 128, 2)), reals(mask=(1, 1, 257), h=(1, 2, 128, 2))
    with refused(UsageProblem):
        draft("dtln", ModelTensors(inputs, outputs), Known(**known))


def test_one_stream_is_what_a_model_of_one_stream_takes() -> None:
    tensors = ModelTensors(
        reals(input_2=(1, 1, 257), input_3=(1, 2, 128, 2)), reals(mask=(1, 1, 257), h=(1, 2, 128, 2))
    )
    assert draft("dtln", tensors, Known(signal="input_2", batch=(1, 1, 1))) == draft(
        "dtln", tensors, Known(signal="input_2")
    )


def test_a_model_of_one_chunk_size_leaves_nothing_of_it_to_decide(tmp_path: Path) -> None:
    made, left, notes = drafted(zipformer(tmp_path), left_context=13, init=0.0, batch=(1, 4, 4))
    assert left == {}
    held(*notes)
    assert made["symbols"] == {"N": None, "T": None}
    assert made["inputs"]["x"]["shape"] == ["N", "T", 80]
    assert made["chunking"] == {kind: {"size": 45, "left_context": 13} for kind in ("first", "later")}
    assert made["profiles"] == [{"name": "all", "symbols": {"N": [1, 4, 4], "T": [45, 45, 45]}}]
    assert [pair["input"] for pair in made["state"]] == [
        "cached_key_0",
        "cached_conv1_0",
        "embed_states",
        "processed_lens",
    ]


def test_a_recurrent_model_never_forgets(tmp_path: Path) -> None:
    made, _, notes = drafted(lstm(tmp_path))
    assert made["chunking"]["memory"] == {"kind": "infinite"}
    held(*notes)
    assert "memory" not in drafted(attention(tmp_path))[0]["chunking"]


def test_streams_of_a_call_that_have_no_place_are_said() -> None:
    """The signal's first dimension is dynamic, and the state has one stream."""
    model = ModelTensors(reals(x=("N", "T", 80), h=(1, 8)), reals(y=("N", 2), hn=(1, 8)))
    _, notes = module.draft("m", model, Known(batch=(1, 4, 4)))
    held(*notes)


def test_a_model_of_numbers_alone_has_one_stream(tmp_path: Path) -> None:
    made, left, _ = drafted(zipformer(tmp_path, ("N,", "1,"), ("[N]", "[1]")), left_context=13, init=0.0)
    assert left == {}
    assert (made["inputs"]["x"]["shape"], made["inputs"]["x"]["batch_axis"]) == ([1, "T", 80], 0)
    assert made["profiles"] == [{"name": "all", "symbols": {"T": [45, 45, 45]}}]


@pytest.mark.parametrize(
    ("metadata", "left"),
    [
        ({"T": "45", "decode_chunk_len": "32"}, 13),
        ({"window_size": "45", "chunk_shift": "40"}, 5),
        ({"decoding_window": "45", "chunk_size": "10", "subsampling_rate": "4"}, 5),
        ({"T": "45", "decode_chunk_len": "46"}, None),
        ({"T": "44", "decode_chunk_len": "32"}, None),
        ({"T": "forty", "decode_chunk_len": "32"}, None),
    ],
)
def test_exporters_write_the_chunk_into_the_metadata(
    metadata: dict[str, str], left: int | None, tmp_path: Path
) -> None:
    made, undone, notes = drafted(zipformer(tmp_path, **metadata), init=0.0)
    assert made["chunking"]["later"]["size"] == 45
    if left is None:
        assert "chunking.later.left_context" in undone
        return
    # the first chunk has nothing before it
    assert made["chunking"]["first"] == {"size": 45, "left_context": 0}
    assert made["chunking"]["later"] == {"size": 45, "left_context": left}
    held(next(note for note in notes if note.startswith("Chunks")))
    made, _, _ = drafted(zipformer(tmp_path, **metadata), left_context=1)
    assert made["chunking"]["first"]["left_context"] == made["chunking"]["later"]["left_context"] == 1


_WENET = {"decoding_window": "67", "chunk_size": "16", "subsampling_rate": "4", "left_chunks": "2"}


def wenet(**metadata: str) -> ModelTensors:
    """Return WeNet's encoder with a cache of two chunks."""
    inputs = reals(chunk=(1, "T", 80), att_cache=(12, 4, "T_CACHE", 128), cnn_cache=(12, 1, 256, 7))
    inputs |= {name: ModelTensor(name, "int64", ()) for name in ("offset", "required_cache_size")}
    inputs["att_mask"] = ModelTensor("att_mask", "bool", (1, 1, "T_ADD_T_CACHE"))
    outputs = reals(output=(1, 16, 256), r_att_cache=(12, 4, "T_CACHE", 128), r_cnn_cache=(12, 1, 256, None))
    return ModelTensors(inputs, outputs, metadata=metadata)


def test_what_wenets_caller_counts_is_known_from_the_metadata() -> None:
    made, notes = module.draft("wenet", wenet(**_WENET), Known(init=0.0))
    assert dict(undecided(made)) == {}
    assert made["schema_version"] == 3
    held(*notes)
    contract = Contract.model_validate(made)
    assert contradictions(contract) == []
    signal = np.zeros((1, 67 + 64 * 3, 80), np.float32)
    fed = [contract.feed(chunk, signal, contract.chunk_values(chunk)) for chunk in contract.chunks(67 + 64 * 3)]
    # as wenet/bin/export_onnx_cpu.py runs ten chunks
    assert [int(chunk["offset"]) for chunk in fed] == [32, 48, 64, 80]
    assert [int(chunk["required_cache_size"]) for chunk in fed] == [32] * 4
    assert [int(chunk["att_mask"].sum()) for chunk in fed] == [16, 32, 48, 48]
    assert fed[0]["att_mask"][0, 0, 32:].all()
    assert made["profiles"][0]["symbols"] == {"T": [67] * 3}
    assert (made["inputs"]["att_cache"]["shape"][2], made["inputs"]["att_mask"]["shape"][2]) == (32, 48)


@pytest.mark.parametrize("key", ["left_chunks", "subsampling_rate"])
@pytest.mark.parametrize("value", ["-1", "0", ""])
def test_what_a_caller_counts_is_left_open_where_the_metadata_does_not_say(key: str, value: str) -> None:
    made = draft("wenet", wenet(**{**_WENET, key: value}), Known())
    left = dict(undecided(made))
    assert made["schema_version"] == 3
    assert left["inputs.offset.role"].endswith('"role": "counter", "value": "start // 4"')
    assert left["inputs.att_mask.role"].endswith('"role": "mask", "axis": 2, "valid": "start // 4"')
    assert left["inputs.required_cache_size.role"].endswith('"role": "constant", "value": 16000')


def test_sizes_of_outputs_are_read_from_the_graph_where_chunks_are_known(tmp_path: Path) -> None:
    model = attention(tmp_path)
    assert "outputs.encoded.shape.2" in drafted(model)[1]
    made, left, notes = drafted(model, first=5, later=9, left_context=1, init=0.0, batch=(1, 3, 3))
    assert not left
    assert made["outputs"]["encoded"]["shape"] == ["B", 4, "(T - 1) // 2"]
    valid = "Valid: encoded_len gives the number of valid entries of encoded, along dimension 2"
    assert made["outputs"]["encoded"]["valid"] == {"axis": 2, "by": "encoded_len"}
    assert notes[-1] == valid
    # exporters name outputs after inputs that they are made of
    wrong = attention(tmp_path, ("float[B,4,N] encoded", "float[B,4,T] encoded"), name="wrong")
    made, _, notes = drafted(wrong, first=5, later=9, init=0.0, batch=(1, 3, 3))
    assert made["outputs"]["encoded"]["shape"] == ["B", 4, "(T - 1) // 2"]
    assert notes[-2:] == [
        valid,
        "Sizes: dimension 2 of encoded is (T - 1) // 2 in the graph; the model calls it T, like one of an input",
    ]


@pytest.mark.parametrize(
    ("shape", "known", "axis"),
    [
        ((1, 257, 1, 2), {}, 2),
        ((1, 80, 45), {}, 2),
        ((1, 80, 64), {}, None),
        ((1, 80, 64), {"first": 64}, 2),
        ((1, 33, 45), {}, None),
        ((1, 33, 45), {"time_axis": 2}, 2),
        ((512,), {}, 0),
        ((3, 80, 45), {}, None),
    ],
)
def test_which_dimension_of_numbers_holds_the_frames(shape: Shape, known: dict[str, Any], axis: int | None) -> None:
    model = ModelTensors(reals(x=shape, h=(1, 8)), reals(y=(1, 2), hn=(1, 8)))
    made = draft("m", model, Known(**known))["inputs"]["x"]
    assert made["role"] == "signal"
    if axis is None:
        assert made["time_axis"].startswith("TODO: the dimension of the frames (--time-axis)")
    else:
        assert (made["time_axis"], made["shape"][axis]) == (axis, "T")


def test_which_of_two_lengths_is_the_signals_is_left_to_a_person() -> None:
    made = draft("encoder", encoder("y_len", "filled"), Known())
    for name in ("x_len", "cache_len"):
        held(made["inputs"][name]["role"])


def test_how_much_of_an_output_counts_is_asked_for_where_no_output_says_it() -> None:
    """Without it, what stands behind the valid frames of a padded chunk looks like a fault of the model."""
    left = dict(undecided(draft("encoder", encoder("cache_next_len"), Known())))
    held(left["outputs.y.valid"])
    without = ModelTensors(reals(x=("B", "T", 80)), reals(y=("B", "N", 8)))
    assert "valid" not in draft("encoder", without, Known())["outputs"]["y"]
    pooled = encoder("y_len", "cache_next_len")
    pooled.outputs["y"] = ModelTensor("y", "float32", ("B", 512))
    assert "valid" not in draft("encoder", pooled, Known())["outputs"]["y"]
