"""The limit that disturbed results give, with a model and without one."""

import json
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.texts import held
from tests.unit.verify.roundoff import FLOOR, INF, NAN, UNIT

from trt_workbench.core.compare import Difference
from trt_workbench.verify.diagnosis import diagnose
from trt_workbench.verify.yardstick import Limit, limit, sensitivity

# Four rows of length 5, one vector each.
CLEAN = np.zeros((4, 1, 20))
CLEAN[:, 0, :2] = 4, 3


def off(*errors: float, at: int = 0) -> NDArray[np.float64]:
    """Return CLEAN with an error in one element of each row."""
    noisy = CLEAN.copy()
    noisy[: len(errors), 0, at] += errors
    return noisy


def test_the_limit_is_twice_the_worst_of_the_copies_and_a_floor() -> None:
    found = limit("fp32", [off(0.05), off(0, 0.1)], CLEAN, rows=True)
    assert (found.rel_l2, found.max_rel) == (pytest.approx(0.04 + FLOOR), pytest.approx(0.05 + FLOOR))
    assert (found.noise, found.changed, found.typical) == (pytest.approx(0.02), 0, FLOOR)
    assert found.beyond == pytest.approx((2 * 1 + 3) / 20)
    assert (found.matched, found.left_out, found.decides) == (False, (), True)
    whole = limit("fp32", [off(0.05), off(0, 0.1)], CLEAN, rows=False)
    assert (whole.rel_l2, whole.beyond) == (pytest.approx(0.02 + FLOOR), pytest.approx((2 * 1 + 3) / 80))
    assert limit("fp32", [CLEAN + 0.04], CLEAN, rows=True).typical == pytest.approx(0.02 + FLOOR)
    silent = limit("fp32", [], CLEAN, rows=True)
    assert silent == Limit("fp32", FLOOR, FLOOR, 0.0, 0.0, FLOOR, 3 / 20)
    assert limit("fp16", [CLEAN], CLEAN, rows=True).rel_l2 == 8 * 2**-11
    nothing = np.zeros((0, 5))
    assert limit("fp32", [nothing], nothing, rows=False).beyond == 3


@pytest.mark.parametrize(
    ("errors", "left_out", "noise"),
    [
        ((0, 0.62), (), 0.124),
        ((0, 0.625, 0.1), (1,), 0.02),
        ((3, 0.1, 3), (0, 2), 0.02),
        ((3, 0.1, 3, NAN), (), INF),
    ],
)
def test_rows_that_rounding_turns_over_are_left_out_if_most_remain(
    errors: tuple[float, ...], left_out: tuple[int, ...], noise: float
) -> None:
    found = limit("fp32", [CLEAN, off(*errors)], CLEAN, rows=True)
    assert (found.left_out, found.noise) == (left_out, pytest.approx(noise))
    assert found.decides is (noise < 1)
    assert limit("fp32", [off(*errors)], CLEAN, rows=False).left_out == ()


@pytest.mark.parametrize(("changed", "allowed"), [(1, 0.2), (2, 0.4), (8, 1.0)])
def test_of_integers_twice_the_share_that_changes_may(changed: int, allowed: float) -> None:
    clean = np.arange(10)[None, None]
    noisy = np.where(clean < changed, -1, clean)
    found = limit("fp32", [clean, noisy], clean, rows=True)
    assert (found.changed, found.noise, found.rel_l2) == (allowed, changed / 10, FLOOR)
    assert found.decides is (allowed < 0.25)


# Four rows of five boxes.
BOXES = np.random.default_rng(0).uniform(1, 9, (4, 5, 3))


@pytest.mark.parametrize(
    ("swapped", "broken", "is_matched", "left_out"),
    [
        ([], [], False, ()),
        ([1], [], True, ()),
        ([0, 1, 2, 3], [], True, ()),
        ([1], [2], True, (2,)),
        ([], [2], False, (2,)),
        ([0, 1, 2], [0, 1, 2], False, ()),
    ],
)
def test_vectors_that_rounding_swaps_are_put_in_order_where_that_helps(
    swapped: list[int], broken: list[int], is_matched: bool, left_out: tuple[int, ...]
) -> None:
    noisy = BOXES.copy()
    noisy[swapped] = noisy[swapped, ::-1]
    noisy[broken] *= -20
    found = limit("fp32", [noisy], BOXES, rows=True)
    assert (found.matched, found.left_out) == (is_matched, left_out)
    assert found.decides is (len(broken) < 2)
    kept = [row for row in range(4) if row not in broken]
    assert found.allows(found.apart(noisy, BOXES, rows=True))
    wrong = BOXES.copy()
    wrong[kept[-1], 2] *= 1.5
    assert found.allows(found.apart(wrong, BOXES, rows=True)) is not found.decides


def test_copies_of_other_shapes_decide_nothing() -> None:
    for rows in (True, False):
        found = limit("fp32", [BOXES, BOXES[:3]], BOXES, rows=rows)
        assert (found.decides, found.left_out, found.matched) == (False, (), False)
    ordered = Limit("fp32", 1, 1, 0, 0, matched=True)
    assert ordered.excess(ordered.apart(BOXES[:, :2], BOXES, rows=True)) == "its shape differs"


LIMIT = Limit("fp16", rel_l2=0.1, max_rel=0.2, changed=0.05, noise=0.04, typical=0.01, beyond=0.5, left_out=(1, 4))


@pytest.mark.parametrize(
    ("found", "excess"),
    [
        (Difference(rel_l2=0.1, max_rel=0.2, changed=0.05, beyond=0.5), ""),
        (Difference(shape_differs=True), "its shape differs"),
        (Difference(beyond=0.75, rel_l2=9), "75 % of a row's elements differ by more than 0.01 of its largest"),
        (Difference(rel_l2=0.11), "relative L2 of the difference is 0.11, fp16 explains 0.1"),
        (Difference(rel_l2=NAN), "relative L2 of the difference is nan, fp16 explains 0.1"),
        (Difference(max_rel=INF), "the largest element of the difference is inf, fp16 explains 0.2"),
        (Difference(changed=0.06), "the share of changed elements of the difference is 0.06, fp16 explains 0.05"),
    ],
)
def test_what_is_beyond_a_limit_is_said(found: Difference, excess: str) -> None:
    assert LIMIT.excess(found) == excess
    assert LIMIT.allows(found) is (not excess)


def test_a_limit_of_few_rows_a_quarter_of_it_and_its_document() -> None:
    assert LIMIT.of_rows([4, 3, 1]).left_out == (0, 2)
    assert replace(LIMIT.tighter(), noise=0) == Limit("fp16", 0.025, 0.05, 0.0125, 0, 0.0025, 0.5, left_out=(1, 4))
    document = {"rel_l2": 0.1, "max_rel": 0.2, "changed": 0.05, "noise": 0.04, "typical": 0.01, "beyond": 0.5}
    assert json.loads(json.dumps(LIMIT.document())) == {
        **document, "matched": False, "left_out": [1, 4], "overflows": False,
    }  # fmt: skip
    few = Limit("fp16", 0.1, INF, 0.05, 0.04)
    assert {name for name, value in few.document().items() if value is None} == {"max_rel", "typical"}
    assert few.allows(Difference(max_rel=9, beyond=1.0))


@pytest.mark.parametrize(("rel_l2", "changed", "decides"), [(0.24, 0.24, True), (0.25, 0, False), (0, 0.25, False)])
def test_a_limit_of_a_quarter_says_nothing(rel_l2: float, changed: float, decides: bool) -> None:
    assert Limit("fp32", rel_l2, 9, changed, 0).decides is decides


class Engine:
    """An engine y = 1 + gain (x - 1) of ones, whose `wrong` run is another one."""

    def __init__(self, gain: float = 1, wrong: int | None = None) -> None:
        self._gain, self._wrong = gain, wrong
        self.given: list[dict[str, NDArray[Any]]] = []

    def run(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self.given.append(inputs)
        y = 1 + self._gain * (inputs["x"] - 1)
        return {"y": y + 0.05 * (len(self.given) == self._wrong)}


def sensitivity_of(engine: Any, precision: str) -> Limit:
    inputs = {"x": np.ones((1, 50_000)), "ids": np.array([2**40])}
    return sensitivity(engine, inputs, precision, {"y": True}, seed=0)["y"]


@pytest.mark.parametrize(
    ("precision", "least"), [("fp32", 1e-4), ("tf32", 0.05), ("fp16", 0.05), ("bf16", 0.2), ("int8", 0.2)]
)
def test_without_a_model_a_least_difference_is_allowed(precision: str, least: float) -> None:
    found = sensitivity_of(Engine(), precision)
    assert (found.rel_l2, found.max_rel) == (least, least)


def test_without_a_model_the_limit_is_what_rounding_the_inputs_changes() -> None:
    engine = Engine(gain=1e4)
    found = sensitivity_of(engine, "fp32")
    most = 1e4 * 16 * UNIT
    assert found.rel_l2 == pytest.approx(2 * most / 3**0.5 + FLOOR, rel=0.02)
    assert found.max_rel == pytest.approx(2 * most + FLOOR, rel=0.02)
    clean, *disturbed = engine.given
    assert len(disturbed) > 1
    for inputs in disturbed:
        assert inputs["ids"] is clean["ids"]
        error = inputs["x"] - 1
        assert (error.min(), error.max()) == (pytest.approx(-16 * UNIT, rel=0.01), pytest.approx(16 * UNIT, rel=0.01))


@pytest.mark.parametrize("wrong", [2, 3])
def test_a_call_that_is_wrong_does_not_pass_for_sensitivity(wrong: int) -> None:
    assert sensitivity_of(Engine(wrong=wrong), "fp32").rel_l2 == 1e-4


def test_an_element_beside_infinite_ones_is_named_without_a_warning() -> None:
    expected = np.arange(64, dtype=np.float32).reshape(1, 64)
    expected[0, 5] = INF
    found = expected.copy()
    found[0, 9] += 30
    one = Limit("fp32", rel_l2=1e-6, max_rel=1e-6, changed=0, noise=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        how = diagnose(found, expected, one, rows=False)
    held(how)
