"""A draft decides what the model says, and nothing else."""

from trt_workbench.onnxtools.preflight import ModelTensor
from trt_workbench.pipeline.streaming.draft import Known, draft
from trt_workbench.pipeline.streaming.model_tensors import ModelTensors


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


def test_an_output_that_another_state_takes_is_no_hint() -> None:
    inputs = (ModelTensor("x", "float32", ("N", "T", 16)), ModelTensor("key_0", "float32", ("N", 4, 16)))
    outputs = (ModelTensor("y", "float32", ("N", "T", 16)), ModelTensor("new_key_0", "float32", ("N", None, 16)))
    made = draft("encoder", ModelTensors(tensors(*inputs), tensors(*outputs)), Known())
    assert made["inputs"]["x"]["role"] == "TODO: signal, length, state or constant; it may take y"


def test_which_of_two_lengths_is_the_signals_is_left_to_a_person() -> None:
    made = draft("encoder", encoder("y_len", "filled"), Known())
    for name in ("x_len", "cache_len"):
        assert made["inputs"][name]["role"] == ("TODO: signal, length, state or constant; it may take y_len or filled")
