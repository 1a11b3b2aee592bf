import numpy as np
import pytest

from trt_workbench.backends.base import TensorSpec, check_inputs
from trt_workbench.errors import UsageProblem

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
    ("change", "message"),
    [
        ({"other": GOOD["images"]}, "unknown"),
        ({"images": np.zeros((2, 3, 5), np.float32)}, r"shape \[2, 3, 5\]"),
        ({"images": np.zeros((3, 4), np.float32)}, "shape"),
        ({"images": np.zeros((2, 3, 4))}, "float64"),
        ({"images": np.zeros((2, 3, 4), ">f4")}, "byte order"),
    ],
)
def test_inputs_that_do_not_fit_are_named(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UsageProblem, match=message):
        check_inputs(SPECS, {**GOOD, **change})


def test_missing_input_is_named() -> None:
    with pytest.raises(UsageProblem, match="scale"):
        check_inputs(SPECS, {"images": GOOD["images"]})
