"""How far a chunk's tensors lie from the reference's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.streaming_models import contract_of, counted_contract

from trt_workbench.evaluate.stream_compare import Parts, agreement, difference
from trt_workbench.pipeline.streaming.contract import Contract

ARRAYS = npst.arrays(np.float32, st.integers(1, 20), elements=st.floats(-100, 100, width=32))


def test_figures_of_a_known_difference() -> None:
    found = difference(np.array([3.0, 4.5], np.float32), np.array([3.0, 4.0], np.float32))
    assert (found.abs_max, found.rel_l2, found.equal, found.finite) == (0.5, 0.1, False, True)
    assert found.cosine == pytest.approx((9 + 18) / (5 * np.hypot(3, 4.5)))


@given(ARRAYS, st.floats(0.5, 4))
def test_the_relative_error_is_that_of_the_scale(array: np.ndarray, factor: float) -> None:
    same = difference(array, array.copy())
    assert (same.abs_max, same.rel_l2, same.cosine, same.equal) == (0, 0, 1, True)
    expected = array + 1
    if np.linalg.norm(expected) > 1e-3:
        wide = [part.astype(np.float64) for part in (array, expected)]
        plain, scaled = difference(*wide), difference(*(factor * part for part in wide))
        assert scaled.rel_l2 == pytest.approx(plain.rel_l2)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_infinitely_far(value: float) -> None:
    found = difference(np.array([1.0, value]), np.array([1.0, 2.0]))
    assert (found.finite, found.rel_l2, found.abs_max) == (False, np.inf, np.inf)
    from_broken_reference = difference(np.array([1.0, 2.0]), np.array([1.0, value]))
    assert (from_broken_reference.finite, from_broken_reference.rel_l2) == (True, np.inf)


def test_anything_beside_zeros_is_infinitely_far() -> None:
    assert difference(np.array([0.0, 1e-9]), np.zeros(2)).rel_l2 == np.inf


def test_whole_numbers_are_equal_or_not() -> None:
    found = difference(np.array([70, 3], np.int32), np.array([70, 2], np.int64))
    assert (found.abs_max, found.rel_l2, found.equal) == (1, 0, False)
    assert difference(np.array([7], np.int32), np.array([7], np.int64)).equal


def test_a_head_agrees_by_rows_with_a_clear_answer() -> None:
    expected = np.array([[[0.0, 1.0, 2.0], [2.0, 1.0, 0.0], [1.0, 1.001, 0.0]]])
    found = np.array([[[0.0, 2.0, 1.0], [2.0, 1.0, 0.0], [1.001, 1.0, 0.0]]])
    assert agreement(found, expected, 0.0) == (1, 3, 3)
    assert agreement(found, expected, 0.01) == (1, 2, 3)
    found[0, 1, 2] = np.nan
    assert agreement(found, expected, 0.0) == (0, 3, 3)


def test_only_the_part_that_counts_is_compared() -> None:
    contract = Contract.model_validate(contract_of("attention"))
    chunk = next(contract.chunks(100))
    values = contract.chunk_values(chunk)
    outputs = {name: np.zeros(contract.shape(name, values), output.dtype) for name, output in contract.outputs.items()}
    outputs["encoded_len"][:] = 1
    outputs["cache_len_next"][:] = 2
    slices = Parts(contract).slices(chunk, values, {}, outputs)
    assert outputs["encoded"][slices["encoded"]].shape == (1, 4, 1)
    assert slices["cache_next"] == (slice(None), slice(4, None), slice(None))  # the newest 2 of 6 at the end
    assert slices["cache_len_next"] == (slice(None),)


@pytest.mark.parametrize("by", ["min(start, C)", "min(offset - C, C)", "min(3 * chunk, C)"])
def test_what_a_state_holds_after_a_chunk_is_counted_by_the_next_chunk(by: str) -> None:
    document = counted_contract()
    document["state"][0]["shift"] = {"axis": 1, "by": by}
    contract = Contract.model_validate(document)
    chunk = next(contract.chunks(100))
    values = contract.chunk_values(chunk)
    fed = contract.feed(chunk, np.zeros((1, 100, 3), np.float32), values)
    outputs = {name: np.zeros(contract.shape(name, values), np.float32) for name in contract.outputs}
    slices = Parts(contract).slices(chunk, values, fed, outputs)
    assert slices["r_cache"] == (slice(None), slice(3, None), slice(None)), "the three frames of the first chunk"
