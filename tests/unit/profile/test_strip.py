"""The strip of a profile: nodes in the order of execution, each as wide as its time."""

from typing import Any

import pytest

from trt_workbench.backends.profiling import Operation
from trt_workbench.profile.report import strips
from trt_workbench.profile.view import SideView

FACTS: Any = {"path": "m.onnx", "backend": "ort-cpu", "precision": "fp32"}


def side(*nodes: tuple[str, float | None], name: Any = "target") -> SideView:
    made = [
        Operation(kind="node", side=name, index=place, name=f"n{place}", operator=operator, mean_ms=time)
        for place, (operator, time) in enumerate(nodes)
    ]
    return SideView(name, FACTS, made, [])


def test_two_sides_have_one_scale_and_the_same_colours() -> None:
    found = strips([side(("Relu", 1.0)), side(("Conv", 4.0), name="against")])
    assert [[piece.width for piece in pieces] for pieces in found.sides] == [[25.0], [100.0]]
    assert found.sides[0][0].colour != found.sides[1][0].colour
    assert {operator: shares for _, operator, shares in found.legend} == {
        "Relu": ["100 %", "0 %"],
        "Conv": ["0 %", "100 %"],
    }


def test_what_is_too_narrow_to_see_is_one_block_of_its_neighbours() -> None:
    tiny = [("Relu", 0.0005)] * 500
    found = strips([side(("Conv", 1.0), *tiny, ("Conv", 1.0))])
    assert [piece.said for piece in found.sides[0]] == [
        "Conv, n0: 1.0000 ms",
        "500 nodes: 0.2500 ms",
        "Conv, n501: 1.0000 ms",
    ]
    assert sum(piece.width for piece in found.sides[0]) == pytest.approx(100.0)


def test_operators_beyond_the_colours_share_one() -> None:
    found = strips([side(*((f"Op{place}", 10.0 - place) for place in range(10)))])
    assert [place for place, _, _ in found.legend] == list(range(1, 9))
    assert found.legend[-1][1] == "all others"


def test_without_times_there_is_no_strip() -> None:
    assert strips([side(("Const", None))]).sides == []
