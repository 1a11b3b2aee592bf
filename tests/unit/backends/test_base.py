from typing import Any

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec, check_index, check_inputs
from trt_workbench.core.errors import UsageProblem

SPECS = (TensorSpec("images", "float32", (None, 3, 4)), TensorSpec("scale", "float32", ()))
GOOD = {"images": np.zeros((2, 3, 4), np.float32), "scale": np.array(2, np.float32)}


def test_inputs_come_back_in_order_contiguous_and_with_their_rank() -> None:
    turned = np.arange(24, dtype=np.float32).reshape(4, 3, 2).T
    checked = check_inputs(SPECS, {"scale": GOOD["scale"], "images": turned})
    assert list(checked) == ["images", "scale"]
    assert checked["images"].flags.c_contiguous
    np.testing.assert_array_equal(checked["images"], turned)
    assert checked["scale"].shape == ()


@pytest.mark.parametrize(
    "change",
    [
        {"other": GOOD["images"]},
        {"images": np.zeros((2, 3, 5), np.float32)},
        {"images": np.zeros((3, 4), np.float32)},
        {"images": np.zeros((2, 3, 4))},
        {"images": np.zeros((2, 3, 4), ">f4")},
    ],
)
def test_inputs_that_do_not_fit_are_named(change: dict[str, np.ndarray]) -> None:
    with refused(UsageProblem):
        check_inputs(SPECS, {**GOOD, **change})


def test_missing_input_is_named() -> None:
    with refused(UsageProblem):
        check_inputs(SPECS, {"images": GOOD["images"]})


@pytest.mark.parametrize(("shape", "index"), [((2, 3), 3), ((2, 3), -4), ((2, 0, 4), 0), ((3,), 0), ((), 0)])
def test_an_index_that_numpy_refuses_is_refused(shape: tuple[int, ...], index: int) -> None:
    with refused(UsageProblem):
        check_index("y", shape, index)
    with pytest.raises(IndexError):
        np.zeros(shape)[:, index]


@pytest.mark.parametrize("values", [[], [0, 7], [-(2**31), 2**31 - 1]])
def test_an_engine_with_int32_takes_int64_that_fits(values: list[int]) -> None:
    """TensorRT before 10 has int32 where its model, and every tokenizer, has int64."""
    ids = TensorSpec("input_ids", "int32", (None,))
    checked = check_inputs((ids,), {"input_ids": np.array(values, np.int64)})
    assert checked["input_ids"].dtype == np.int32
    assert checked["input_ids"].tolist() == values


@pytest.mark.parametrize(
    ("dtype", "given"),
    [("int32", np.array([2**31])), ("int32", np.array([-(2**31) - 1])), ("int32", np.array([1.0])),
     ("int64", np.array([1], np.int32)), ("int16", np.array([1])), ("float32", np.array([1.0]))],
)  # fmt: skip
def test_other_types_are_refused(dtype: str, given: Any) -> None:
    with pytest.raises(UsageProblem, match="convert it first"):
        check_inputs((TensorSpec("x", dtype, (None,)),), {"x": given})
