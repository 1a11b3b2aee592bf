"""States are found by their names, types and shapes; what is not certain is not taken for one."""

import pytest

from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.state_names import state_pairs

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
        ("att_cache", "r_att_cache"),
    ],
)
def test_names_that_belong_together(given: str, made: str) -> None:
    assert state_pairs(tensors(given, "x"), tensors(made, "y")) == ({given: made}, {})


@pytest.mark.parametrize(
    ("given", "made"), [("input", "output"), ("x", "y"), ("h", "cn"), ("past.0.key", "present.1.key")]
)
def test_names_that_do_not(given: str, made: str) -> None:
    assert state_pairs(tensors(given), tensors(made)) == ({}, {})


Tensors = dict[str, tuple[Shape, str]]


_FLOAT, _WHOLE = "float32", "int64"
_EXPORTERS: dict[str, tuple[Tensors, Tensors, dict[str, str]]] = {
    "silero 4": (
        {"input": (("B", "T"), _FLOAT), "sr": ((), _WHOLE), "h": ((2, "B", 64), _FLOAT), "c": ((2, "B", 64), _FLOAT)},
        {"output": (("B", 1), _FLOAT), "hn": ((2, "B", 64), _FLOAT), "cn": ((2, "B", 64), _FLOAT)},
        {"h": "hn", "c": "cn"},
    ),
    "silero 5": (
        {"input": (("B", "T"), _FLOAT), "state": ((2, "B", 128), _FLOAT), "sr": ((), _WHOLE)},
        {"output": (("B", 1), _FLOAT), "stateN": ((None, "B", None), _FLOAT)},
        {"state": "stateN"},
    ),
    "GTCRN": (
        {
            "mix": ((1, 257, 1, 2), _FLOAT),
            "conv_cache": ((2, 1, 16, 16, 33), _FLOAT),
            "tra_cache": ((2, 3, 1, 1, 16), _FLOAT),
            "inter_cache": ((2, 1, 33, 16), _FLOAT),
        },
        {
            "enh": ((1, 257, 1, 2), _FLOAT),
            "conv_cache_out": ((2, 1, 16, 16, 33), _FLOAT),
            "tra_cache_out": ((2, 3, 1, 1, 16), _FLOAT),
            "inter_cache_out": ((2, 1, 33, 16), _FLOAT),
        },
        {name: f"{name}_out" for name in ("conv_cache", "tra_cache", "inter_cache")},
    ),
    "DTLN, whose names say nothing": (
        {"input_2": ((1, 1, 257), _FLOAT), "input_3": ((1, 2, 128, 2), _FLOAT)},
        {"activation_2": ((1, 1, 257), _FLOAT), "tf_op_layer_stack_2": ((1, 2, 128, 2), _FLOAT)},
        {},
    ),
}


@pytest.mark.parametrize("exporter", _EXPORTERS)
def test_names_of_exporters(exporter: str) -> None:
    given, made, expected = _EXPORTERS[exporter]
    inputs, outputs = (
        {name: ModelTensor(name, dtype, shape) for name, (shape, dtype) in many.items()} for many in (given, made)
    )
    assert state_pairs(inputs, outputs) == (expected, {})


def test_a_name_that_is_spelled_out_goes_before_one_with_a_word_left_out() -> None:
    """`h_10` without its 0 is `h_1`, which is a layer of its own here."""
    given, made = tensors("h_1", "h_10"), tensors("new_h_1", "new_h_10")
    assert state_pairs(given, made) == ({"h_1": "new_h_1", "h_10": "new_h_10"}, {})


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
