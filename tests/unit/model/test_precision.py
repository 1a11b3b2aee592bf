"""Whose rounding a session's results carry."""

from typing import Any

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.precision import carried, rounding_of


@pytest.mark.parametrize(
    ("shares", "chosen", "asked", "formats"),
    [
        (["fp32"], [], "fp32", ["fp32"]),
        (["int8", "fp16"], [], "fp32", ["int8", "fp16"]),
        (["fp32"], ["fp16", "fp32"], "fp16", ["fp16", "fp32"]),
        ([], [], "int8-mixed", ["int8"]),
        ([], [], "fp8+bf16", ["fp8", "bf16"]),
        (["int32", "float6e2m3", "fp64"], [], "fp16", ["fp64"]),
    ],
)
def test_what_ran_counts_and_else_what_was_asked_for(
    shares: list[str], chosen: list[str], asked: str, formats: list[str]
) -> None:
    ran = {"shares": dict.fromkeys(shares, 0.5), "may_choose": chosen}
    assert [one.name for one in carried(ran, asked)] == formats
    assert {one.name for one in carried(ran, asked, always=True)} >= {*formats} - {"fp64"}


@pytest.mark.parametrize(
    ("record", "asked", "rounding"),
    [
        ({}, "fp32", "fp32"),
        ({"precision": "fp16+tf32"}, "fp32", "tf32+fp32"),
        ({"precision_ran": {"shares": {"nvfp4": 0.5, "bf16": 0.5}}}, "fp32", "nvfp4+bf16+fp32"),
        ({"precision_ran": {"shares": {"int8": 1.0}}}, "fastest+fp16", "int8+fp16"),
        # weights that are widened before they are used round nothing
        ({"precision_ran": {"shares": {"fp32": 1.0}, "weight_shares": {"int4": 1.0}}}, "fp32", "fp32"),
    ],
)
def test_a_session_rounds_in_what_it_computes_and_was_asked_for(
    record: dict[str, Any], asked: str, rounding: str
) -> None:
    assert rounding_of(record, asked) == rounding


def test_a_precision_that_no_format_has_is_refused() -> None:
    with refused(UsageProblem):
        rounding_of({}, "fastest")
