"""A contract's limits by format: those of the table, and what it sets itself."""

import pytest
from pydantic import ValidationError

from trt_workbench.core.precision import STREAM, names
from trt_workbench.stream.contract.parts import Gate, Gates


def test_every_format_of_the_table_has_a_limit() -> None:
    gates = Gates()
    assert {name: gates.of(name).rel_l2_max for name in names()} == {name: STREAM.limit(name) for name in names()}


def test_a_contract_sets_limits_of_any_format() -> None:
    gates = Gates.model_validate({"fp8": {"rel_l2_max": 0.3}, "fp16": {"abs_max": 1}, "finite": False})
    assert gates.of("fp8") == Gate(rel_l2_max=0.3)
    assert gates.of("fp16") == Gate(abs_max=1)  # a gate that is set replaces the default whole
    assert gates.of("bf16").rel_l2_max == STREAM.limit("bf16")
    assert Gates.model_validate_json(gates.model_dump_json()) == gates


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"fp17": {}}, "no gate or format 'fp17'; did you mean fp16"),
        ({"finit": True}, "did you mean finite"),
        ({"fp16": {"rel": 1}}, "fp16.rel"),
        ({"fp16": {"rel_l2_max": 0}}, "greater than 0"),
        ([1], "valid dictionary"),
    ],
)
def test_what_is_no_gate_is_refused(document: object, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Gates.model_validate(document)
