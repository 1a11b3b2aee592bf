"""Two profiles, layer by layer."""

import pytest

from trt_workbench.backends.profiling import Operation
from trt_workbench.profile.difference import difference, overhead, telling


def test_layers_fused_differently_form_one_group(fp16: list[Operation], fp32: list[Operation]) -> None:
    groups = difference(fp16, fp32)
    first = groups[0]
    assert set(first.onnx_nodes) == {"/conv1/Conv", "/relu1/Relu", "/act/Sigmoid", "/act/Mul"}
    assert [one.name for one in first.target] == ["/conv1/Conv + /relu1/Relu", "PWN(PWN(/act/Sigmoid), /act/Mul)"]
    assert first.target_ms == pytest.approx(0.06)
    assert first.against_ms == pytest.approx(0.22)
    assert first.difference_ms == pytest.approx(-0.16)
    assert first.only_in == ""


def test_reformat_layers_are_named_as_what_only_one_side_has(fp16: list[Operation], fp32: list[Operation]) -> None:
    alone = [group for group in difference(fp16, fp32) if group.only_in == "target"]
    assert [group.roles for group in alone] == [("reformat",), ("reformat",)]
    assert {one.serves for group in alone for one in group.target} == {"/conv1/Conv + /relu1/Relu", "/conv2/Conv"}


def test_overhead_is_listed_longest_first(fp16: list[Operation]) -> None:
    assert [one.median_ms for one in overhead(fp16)] == [0.02, 0.015]


def test_means_explain_a_difference_of_means(fp16: list[Operation], fp32: list[Operation]) -> None:
    """Medians do not add up: a node that is slow in every other run would vanish."""
    skewed = [one.model_copy(update={"mean_ms": 3 * (one.mean_ms or 0)}) for one in fp16]
    groups = difference(skewed, fp32)
    whole = sum(one.mean_ms or 0 for one in skewed) - sum(one.mean_ms or 0 for one in fp32)
    assert sum(group.difference_ms for group in groups) == pytest.approx(whole)
    assert [one.mean_ms for one in overhead(skewed)] == pytest.approx([0.06, 0.045])


@pytest.mark.parametrize("count", [1, 2, 3, 9])
@pytest.mark.parametrize("longest", range(5))
def test_the_longest_operation_is_always_told(fp16: list[Operation], longest: int, count: int) -> None:
    """Though it takes the same time on both sides, and is the last of the differences."""
    target = [one.model_copy(update={"mean_ms": 0.1 + place}) for place, one in enumerate(fp16) if one.mean_ms]
    target[longest] = target[longest].model_copy(update={"mean_ms": 99.0})
    against = [
        one.model_copy(update={"side": "against", "mean_ms": one.mean_ms if place == longest else 0.01})
        for place, one in enumerate(target)
    ]
    told = telling(difference(target, against), count)
    assert any(target[longest] in group.target for group in told)
    assert len(told) == min(count, len(difference(target, against)))


def test_nothing_to_tell() -> None:
    assert telling([], 3) == []
