"""State of an engine as `infer-engine --state` takes it."""

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import UsageProblem
from trt_workbench.infer.native import initial_state
from trt_workbench.infer.settings import read_state


def test_pairs_are_read_in_their_order() -> None:
    assert list(read_state("--state", ["h_next=h", "a/b:0=c"]).items()) == [("h_next", "h"), ("a/b:0", "c")]
    assert read_state("--state", []) == {}


@pytest.mark.parametrize("text", ["h", "=h", "h=", ""])
def test_other_forms_are_refused(text: str) -> None:
    with refused(UsageProblem):
        read_state("--state", [text])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bfloat16", "float8_e4m3fn"])
def test_state_starts_from_zeros_of_its_type(dtype: str) -> None:
    (zeros,) = initial_state([TensorSpec("h", dtype, (1, 4))]).values()
    assert (zeros.shape, zeros.dtype.name) == ((1, 4), dtype)
    assert not zeros.astype(np.float32).any()


def test_a_dynamic_shape_has_no_start() -> None:
    with refused(UsageProblem):
        initial_state([TensorSpec("h", "float32", (None, 4))])
