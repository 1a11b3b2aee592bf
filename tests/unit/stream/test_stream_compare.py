"""What of a chunk's tensors is compared with the reference's."""

import numpy as np
import pytest
from tests.streaming_models import contract_of, counted_contract

from trt_workbench.stream.compare import Parts, agreement
from trt_workbench.stream.contract.contract import Contract


def test_a_head_agrees_by_rows_with_a_clear_answer() -> None:
    expected = np.array([[[0.0, 1.0, 2.0], [2.0, 1.0, 0.0], [1.0, 1.001, 0.0]]])
    found = np.array([[[0.0, 2.0, 1.0], [2.0, 1.0, 0.0], [1.001, 1.0, 0.0]]])
    assert agreement(found, expected, 0.0) == (1, 3, 3)
    assert agreement(found, expected, 0.01) == (1, 2, 3)
    found[0, 1, 2] = np.nan
    assert agreement(found, expected, 0.0) == (0, 3, 3)


def test_a_head_may_exclude_classes_with_minus_infinity() -> None:
    expected = np.array([[-np.inf, 1.0, 2.0], [-np.inf, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf]])
    assert agreement(expected, expected, 0.1) == (2, 2, 3)
    found = np.array([[-np.inf, 2.0, 1.0], [0.0, -np.inf, -np.inf], [-np.inf, -np.inf, -np.inf]])
    assert agreement(found, expected, 0.1) == (0, 2, 3)
    assert agreement(expected, expected, 0.0) == (2, 2, 3)


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
