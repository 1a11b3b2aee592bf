"""Verdicts of shapes, what is left unproven, and where a fault shows."""

from typing import Any

import pytest

from trt_workbench.verify.report import headline
from trt_workbench.verify.verdict import as_exact, of_case, unproven, where


def case(batch: int, verdicts: dict[str, str], **more: Any) -> dict[str, Any]:
    rows = [{"inputs": key, "output": "y", "verdict": value, "reason": value} for key, value in verdicts.items()]
    return {
        "label": f"N={batch}",
        "batch": batch,
        "values": {"N": batch},
        "shapes": {"x": [batch, 4]},
        "outputs": rows,
        "refused": False,
        "outside": False,
        "device_failed": False,
        "reason": "",
        "verdict": of_case(rows),
        **more,
    }


def test_one_set_of_inputs_decides_an_output() -> None:
    assert of_case(case(1, {"random": "undecided", "large": "right"})["outputs"]) == "right"
    assert of_case(case(1, {"random": "undecided", "large": "undecided"})["outputs"]) == "undecided"


def test_zeros_prove_nothing_but_may_show_a_fault() -> None:
    assert of_case(case(1, {"random": "undecided", "zeros": "right"})["outputs"]) == "undecided"
    assert of_case(case(1, {"random": "undecided", "zeros": "wrong"})["outputs"]) == "wrong"
    assert of_case(case(1, {"random": "right within fp16", "zeros": "right"})["outputs"]) == "right within fp16"


def test_what_is_not_proven_is_named() -> None:
    assert unproven([case(1, {"random": "right"}), case(2, {"random": "undecided"})]) == ["N=2, output y: undecided"]
    left = {"verdict": "unverified", "reason": "why"}
    assert unproven([case(2, {}, **left)]) == ["N=2: why"]
    assert unproven([case(2, {}, **left | {"outside": True}), case(2, {}, **left | {"device_failed": True})]) == []
    assert len(unproven([case(number, {}, **left | {"refused": True}) for number in (2, 3)])) == 1


@pytest.mark.parametrize(
    ("asked", "ran", "verdict", "is_said"),
    [
        ("fp16", "fp16 or fp32, not reported", "right", True),
        ("fp16", None, "right", True),
        ("fp16", "fp16", "right", False),
        ("fp16", "fp16 (simulated)", "right", False),
        ("fp16", "fp16 or fp32, not reported", "right within fp16", False),
        ("int8", "int8+fp32", "right", False),
        ("int8", "int8+fp32 (partly simulated)", "right", False),
        ("int8", "fp32", "right", True),
        ("fp32", "fp32", "right", False),
        ("fp32", "fp32, not reported", "right", False),
    ],
)
def test_results_that_show_nothing_of_the_precision_are_named(
    asked: str, ran: str | None, verdict: str, is_said: bool
) -> None:
    cases = [case(1, {"random": "right"}), case(2, {"random": verdict})]
    types = (ran or "").split(" (")[0]
    shares = {} if "not reported" in types else dict.fromkeys(types.split("+"), 1 / 2)
    may_choose = types.split(",")[0].split(" or ") if "not reported" in types else []
    record = {"precision_ran": {"label": ran, "shares": shares, "may_choose": may_choose}} if ran else {}
    assert bool(as_exact(cases, asked, record)) == is_said
    document = {"target": "m.onnx", "verdict": "right", "backend": "trt", "precision": asked, "reference": "ort-cpu"}
    shown = headline({**document, "cases_tried": 2, "provenance": record, "cases": cases})
    assert (f"({asked}; computed in {ran})" in shown) == ((ran or asked).split(" (")[0].split(",")[0] != asked)


def test_a_model_of_integers_alone_is_not_computed_in_unknown() -> None:
    record = {"precision_ran": {"label": "unknown", "shares": {}, "may_choose": []}}
    document = {"target": "m.onnx", "verdict": "right", "backend": "ort-cpu", "precision": "fp32", "reference": None}
    shown = headline({**document, "cases_tried": 2, "provenance": record, "cases": []})
    assert "(fp32; what it computed in is unknown)" in shown


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([3], "only at N=3, right at 4 others"),
        ([16], "only at N=16 (the largest shape), right at 4 others"),
        ([2, 3, 4, 16], "from a batch of 2 on"),
        ([2, 4], "at N=2, N=4, right at 3 others"),
        ([1, 2, 3, 4, 16], ""),
        ([], ""),
    ],
)
def test_where_a_fault_shows(wrong: list[int], text: str) -> None:
    cases = [case(n, {"random": "wrong" if n in wrong else "right"}) for n in (1, 2, 3, 4, 16)]
    assert where(cases) == text


def test_a_fault_of_one_kind_of_inputs() -> None:
    cases = [case(n, {"random": "right", "large": "wrong"}) for n in (1, 2)]
    assert where(cases) == "only with large inputs"
