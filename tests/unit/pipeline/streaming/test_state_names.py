"""States are found by their names, types and shapes; what is not certain is not taken for one."""

import pytest

from trt_workbench.onnxtools.preflight import ModelTensor
from trt_workbench.pipeline.streaming.state_names import state_pairs

Shape = tuple[int | str | None, ...]


def tensors(*names: str, shape: Shape = (1, "B", 4), dtype: str = "float32") -> dict[str, ModelTensor]:
    return {name: ModelTensor(name, dtype, shape) for name in names}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("h", "hn"),
        ("h0", "hn"),
        ("c_in", "c_out"),
        ("state", "stateN"),
        ("past_key_values.0.key", "present.0.key"),
        ("past_key_0", "present_key_0"),
        ("past_k", "new_k"),
        ("prev_h", "h"),
        ("cache_last_channel", "cache_last_channel_next"),
        ("cache_last_channel_len", "cache_last_channel_next_len"),
        ("cached_len_0", "new_cached_len_0"),
        ("encoder_state_0", "encoder_state_out_0"),
        ("in_cache0", "out_cache0"),
    ],
)
def test_names_that_belong_together(given: str, made: str) -> None:
    assert state_pairs(tensors(given, "x"), tensors(made, "y")) == ({given: made}, {})


@pytest.mark.parametrize(
    ("given", "made"), [("input", "output"), ("x", "y"), ("h", "cn"), ("past.0.key", "present.1.key")]
)
def test_names_that_do_not(given: str, made: str) -> None:
    assert state_pairs(tensors(given), tensors(made)) == ({}, {})


def test_a_length_beside_its_cache_is_told_apart() -> None:
    names = ("cache_last_channel", "cache_last_channel_len")
    pairs, left = state_pairs(tensors(*names), tensors("cache_last_channel_next", "cache_last_channel_next_len"))
    assert pairs == dict(zip(names, ("cache_last_channel_next", "cache_last_channel_next_len"), strict=True))
    assert left == {}


def test_layers_are_told_apart() -> None:
    given = tensors(*(f"past.{layer}.{part}" for layer in range(12) for part in ("key", "value")))
    made = tensors(*(name.replace("past", "present") for name in given))
    pairs, left = state_pairs(given, made)
    assert pairs == {name: name.replace("past", "present") for name in given}
    assert left == {}


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1, "B", 5), "float32"), (("B", 4), "float32"), ((1, "B", 4), "float16"), ((1, 1, 4), "float32")],
)
def test_another_shape_or_type_is_no_state(shape: Shape, dtype: str) -> None:
    assert state_pairs(tensors("h"), tensors("hn", shape=shape, dtype=dtype)) == ({}, {})


def test_a_size_that_the_exporter_lost_is_no_other() -> None:
    assert state_pairs(tensors("h"), tensors("hn", shape=("Slice_dim_0", "B", None)))[0] == {"h": "hn"}


def test_what_several_outputs_may_be_is_left_open() -> None:
    assert state_pairs(tensors("h"), tensors("hn", "h_new")) == ({}, {"h": ["hn", "h_new"]})
