"""Outputs against a reference: what rounding explains matches, what is wrong in one row alone does not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.bench.output_check import (
    Tolerance,
    chooses,
    compare_outputs,
    of_format,
    rounding_of,
    rounds_in,
    tolerance,
)

DRAW = np.random.default_rng(0)
WANT = DRAW.normal(0, 1, (4, 300, 6)).astype(np.float32)


def state(found: np.ndarray, want: np.ndarray = WANT, limit: float = 1e-3, *, any_order: bool = False) -> str:
    return str(
        compare_outputs({"y": found}, {"y": want}, Tolerance(limit, limit), len(want), any_order=any_order)["state"]
    )


def write(path: Path, nodes: str) -> Path:
    return write_onnx(path, f"g (float[n,4] x) => (float[n,4] y) {{ {nodes} }}")


def test_rounding_matches_and_one_wrong_row_does_not() -> None:
    noise = DRAW.normal(0, 1, WANT.shape).astype(np.float32)
    assert state(WANT + 1e-5 * noise) == "matched"
    wrong = WANT.copy()
    wrong[1:] += 2
    found = compare_outputs({"y": wrong}, {"y": WANT}, of_format("bf16"), 4, any_order=True)
    assert found["state"] == "wrong"
    assert found["tensors"]["y"]["relative_l2"] > 1
    assert found["tensors"]["y"]["row"] > 0
    held(found["reason"])
    # over the whole tensor one row of 100 would be within the tolerance of fp16
    many = DRAW.normal(0, 1, (600, 50))
    one = many.copy()
    one[7] = -one[7]
    assert np.linalg.norm(one - many) / np.linalg.norm(many) < 0.1
    assert compare_outputs({"y": one}, {"y": many}, of_format("bf16"), 600, any_order=False)["tensors"]["y"]["row"] == 7
    assert state(one, many, 0.1) == "wrong"


def test_figures_are_those_of_the_definition() -> None:
    want, got = np.array([[3.0, 4.0]]), np.array([[3.0, 5.0]])
    found = compare_outputs({"y": got}, {"y": want}, Tolerance(0.1, 1.0), 1, any_order=False)
    assert (found["state"], found["reason"]) == ("far", "y differs by 0.2 (relative L2)")
    tensor = found["tensors"]["y"]
    assert tensor["relative_l2"] == pytest.approx(0.2)
    assert tensor["cosine"] == pytest.approx(29 / (5 * np.hypot(3, 5)))


def test_what_is_not_finite_has_to_be_so_on_both_sides() -> None:
    holed = WANT.copy()
    holed[0, 0, 0] = np.nan
    assert state(holed) == "wrong"
    assert state(WANT, holed) == "wrong"
    assert state(holed.copy(), holed) == "matched"
    assert state(np.full_like(WANT, np.inf), np.full_like(WANT, -np.inf)) == "wrong"


def test_rows_of_zeros_are_measured_by_the_others() -> None:
    want = np.stack([np.zeros(50), np.ones(50)])
    assert state(want + 1e-7, want) == "matched"
    assert state(want + 0.5, want) == "wrong"
    assert state(np.zeros((2, 3)), np.zeros((2, 3))) == "matched"


def test_integers_are_counted() -> None:
    """As verify does, which lets none differ but those that rounding turns."""
    want = np.arange(1000).reshape(1, 1000)
    got = want.copy()
    got[0, 5] += 1
    assert state(want, want) == "matched"
    assert state(got, want, 5e-2) == "wrong"
    loose = Tolerance(5e-2, 5e-2, exact=False)
    assert compare_outputs({"y": got}, {"y": want}, loose, 1, any_order=False)["state"] == "matched"
    got[0, 100:200] += 1
    assert compare_outputs({"y": got}, {"y": want}, loose, 1, any_order=False)["state"] == "wrong"
    ones = np.ones((2, 3), bool)
    found = compare_outputs({"y": ~ones}, {"y": ones}, Tolerance(5e-2, 5e-2), 2, any_order=False)
    assert (found["state"], found["reason"]) == ("wrong", "y differs by 1 in row 0 (share of elements that differ)")


def test_candidates_may_come_in_another_order_where_the_model_chooses() -> None:
    order = DRAW.permutation(300)
    assert state(WANT[:, order]) == "wrong"
    assert state(WANT[:, order], any_order=True) == "matched"
    assert state(WANT[:, order] * np.float32(1.5), any_order=True) == "wrong"


def test_names_and_shapes_have_to_be_the_same() -> None:
    for found in ({"z": WANT}, {"y": WANT[:2]}, {}):
        assert compare_outputs(found, {"y": WANT}, of_format(None), 4, any_order=True)["state"] == "wrong"


def test_the_tolerance_is_that_of_the_lowest_precision(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.onnx", "y = Relu(x)")
    half = write(tmp_path / "half.onnx", "h = Cast<to=10>(x) y = Cast<to=1>(h)")
    cases = {"fp32": 4e-4, "fp16": 0.2, "bf16+fp16": 0.75, "int8+fp16": 0.75, "fp8": 0.75, "as exported": 0.75}
    for precision, limit in cases.items():
        assert tolerance(precision, plain, tf32=False, images=False).wrong == limit
    assert tolerance("fp32", plain, tf32=True, images=False).wrong == 0.2
    assert tolerance("fp32", plain, tf32=False, images=True).wrong == 0.1
    assert tolerance("fp32", half, tf32=False, images=False).wrong == 0.2
    assert not chooses(plain)


def made(**rounding: float) -> dict[str, dict[str, Any]]:
    """What rounding makes of outputs, as `rounding_of` says it."""
    return {name: {"rounding": error, "left_out": []} for name, error in rounding.items()}


def test_what_rounding_explains_is_not_far() -> None:
    """YOLOX-Nano in fp16 on noise from 0 to 1: rounding makes 0.107, and three runtimes 0.058, 0.099 and 0.127."""
    noise = DRAW.normal(0, 1, WANT.shape)
    noise /= np.linalg.norm(noise[0]) / np.linalg.norm(WANT[0])

    def found(error: float, **more: float) -> tuple[str, str | None]:
        got, said = WANT[:1] + error * noise[:1], made(**more)
        one = compare_outputs({"y": got}, {"y": WANT[:1]}, of_format("fp16"), 1, any_order=False, rounding=said)
        return one["state"], one["reason"]

    assert found(0.127) == ("far", "y differs by 0.13 (relative L2)")
    assert [found(error, y=0.107)[0] for error in (0.058, 0.127, 0.21, 0.22)] == [
        "matched",
        "matched",
        "matched",
        "wrong",
    ]
    held(found(0.22, y=0.107)[1])
    assert [found(error, y=0.01)[0] for error in (0.04, 0.06, 0.3)] == ["matched", "far", "wrong"]
    # however sensitive a model is, another result altogether is wrong
    assert [found(error, y=0.9)[0] for error in (0.24, 0.7, 1.0)] == ["matched", "far", "wrong"]


def test_a_mask_of_something_else_does_not_match_however_sensitive_the_model_is() -> None:
    want, other = DRAW.random((2, 1, 1000)) < 0.5
    few = want.copy()
    few[0, :200] = ~few[0, :200]

    def found(got: np.ndarray, rounding: float) -> str:
        limit, said = of_format("fp16"), made(y=rounding)
        return str(compare_outputs({"y": got}, {"y": want}, limit, 1, any_order=False, rounding=said)["state"])

    assert [found(few, rounding) for rounding in (0.01, 0.11, 0.4)] == ["wrong", "matched", "matched"]
    assert [found(other, rounding) for rounding in (0.01, 0.2, 0.3, 0.9)] == ["wrong", "wrong", "far", "far"]


def test_a_row_that_rounding_turns_over_is_not_compared() -> None:
    """The score of one class, which is next to nothing in one image of four."""
    want = np.array([[1.0], [-2.0], [1e-5], [0.5]], np.float32)
    copies = [{"y": want + np.float32(error)} for error in (1e-3, -1e-3)]
    said = rounding_of(copies, {"y": want}, of_format("fp16"), 4, any_order=False)
    assert said == {"y": {"rounding": pytest.approx(2e-3, rel=1e-3), "left_out": [2]}}
    for error, state in ((8e-4, "matched"), (0.4, "wrong")):
        got = {"y": want + np.float32(error)}
        assert compare_outputs(got, {"y": want}, of_format("fp16"), 4, any_order=False)["state"] == "wrong"
        found = compare_outputs(got, {"y": want}, of_format("fp16"), 4, any_order=False, rounding=said)
        assert found["state"] == state
        assert (found["tensors"]["y"]["row"], found["tensors"]["y"]["left_out"]) == (3, [2])


def test_copies_that_are_not_finite_or_have_other_shapes_explain_nothing() -> None:
    copies = [{"y": np.full_like(WANT, np.nan)}, {"y": WANT[:2]}]
    assert rounding_of(copies, {"y": WANT}, of_format(None), 4, any_order=False) == made(y=0.0)
    assert rounding_of(copies[1:], {"y": WANT}, of_format(None), 4, any_order=False) == made(y=0.0)


def test_rounding_is_asked_of_what_computes(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.onnx", "y = Relu(x)")
    half = write(tmp_path / "half.onnx", "h = Cast<to=10>(x) y = Cast<to=1>(h)")
    for precision, tf32, found in (
        ("fp32", False, "fp32"), ("fp32", True, "tf32+fp32"), ("fp16", True, "fp16+tf32"),
        ("bf16+fp16", False, "bf16+fp16+fp32"), ("int8+fp16", False, "int8+fp16+fp32"), ("as exported", False, None),
    ):  # fmt: skip
        assert rounds_in(precision, plain, tf32=tf32) == found
    assert rounds_in("fp32", half, tf32=False) == "fp16+fp32"
