"""A verification within a budget: which shapes are tried, and that one is always."""

from pathlib import Path

import pytest
from tests.onnx_text import write_onnx

from trt_workbench.core.verification import Shapes, Verification, VerifiedShapes
from trt_workbench.verify import run as running
from trt_workbench.verify.calls import Call
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range
from trt_workbench.verify.space import LEAST_S, Budget


class Clock:
    """Stands still but for what is added."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "tanh.onnx", "tanh (float[N,8] x) => (float[N,8] y) { y = Tanh(x) }")


def tried(
    model: Path, budget: Budget, clock: Clock, monkeypatch: pytest.MonkeyPatch, *, row_s: float, fault: str = ""
) -> tuple[list[str], int]:
    """Return the shapes that were tried and how many were left, where every row of a call takes `row_s` seconds."""
    run_case = running._Run.case

    def slow(self: running._Run, call: Call, place: int, *, brief: bool) -> None:
        clock.now += row_s * (call.case.batch or 1)
        run_case(self, call, place, brief=brief)

    monkeypatch.setattr(running._Run, "case", slow)
    folder = model.parent / "run"
    folder.mkdir()
    request = VerifyRequest(
        target=model,
        backend="faulty",
        options={"fault": fault},
        ranges={"N": Range(1, 4, 16)},
        quick=True,
        budget=budget,
    )
    document = verify(request, folder).document
    return [case["label"] for case in document["cases"]], document["cases_left"]


def test_shapes_that_do_not_fit_are_left_out_and_counted(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1 + 2 + 3 seconds, and 16 more would not fit into the rest
    assert tried(model, Budget(10, clock=clock), clock, monkeypatch, row_s=1) == (["N=1", "N=2", "N=3"], 1)


def test_a_budget_that_is_enough_leaves_nothing_out(model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(model, Budget(22, clock=clock), clock, monkeypatch, row_s=1) == (["N=1", "N=2", "N=3", "N=16"], 0)


def test_the_first_shape_and_needed_ones_are_tried_whatever_they_take(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed: list[Shapes] = [{"x": (8, 8)}, {"x": (5, 8)}, {"x": (99, 8)}]  # the last one cannot be had
    found = tried(model, Budget(1, needed, clock=clock), clock, monkeypatch, row_s=10)
    assert found == (["N=8", "N=5"], 4)


def test_a_wrong_shape_is_the_last(model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(1000, clock=clock)
    assert tried(model, budget, clock, monkeypatch, row_s=0, fault="rows after the first") == (["N=1", "N=2"], 2)


def test_a_tenth_of_the_build_and_not_less_than_five_seconds() -> None:
    assert LEAST_S == 5
    short, long = Budget.of_build(0), Budget.of_build(200)
    assert long._end - short._end == pytest.approx(15, abs=1)


@pytest.mark.parametrize(
    ("left", "shape", "covered"),
    [
        (0, (2, 8), True),
        (0, (3, 8), True),
        (0, (5, 8), False),
        (1, (3, 8), False),
        (1, (4, 8), True),
        (0, (2, 9), False),
        (0, (2, 8, 1), False),
    ],
)
def test_shapes_between_those_tried_are_covered_where_none_was_left_out(
    left: int, shape: tuple[int, ...], covered: bool
) -> None:
    shapes = [VerifiedShapes(shapes={"x": (size, 8), "y": (size,)}, verdict="right") for size in (1, 2, 4)]
    shapes.append(VerifiedShapes(shapes={"x": (9, 8), "y": (9,)}, verdict="unverified"))  # the device failed there
    found = Verification(
        verdict="right", mode="quick", engine_sha256="", shapes=tuple(shapes), shapes_left=left, gpu="",
        tensorrt_version="", workbench_version="", verified_at="",
    )  # fmt: skip
    assert found.covers({"x": shape}) is covered


def test_the_time_that_is_left_is_said_from_the_second_shape_on(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_case = running._Run.case

    def slow(self: running._Run, call: Call, place: int, *, brief: bool) -> None:
        clock.now += 5.0 * (call.case.batch or 1)
        run_case(self, call, place, brief=brief)

    monkeypatch.setattr(running._Run, "case", slow)
    monkeypatch.setattr(running.time, "monotonic", clock)
    said: list[str] = []
    request = VerifyRequest(target=model, backend="faulty", ranges={"N": Range(1, 4, 8)}, quick=True)
    verify(request, tmp_path, step=said.append)
    assert said == [
        "N=1 (1 of 4 shapes)",
        "N=2 (2 of 4 shapes, about 65 s left)",
        "N=3 (3 of 4 shapes, about 55 s left)",
        "N=8 (4 of 4 shapes, about 40 s left)",
        "other ways to run it",
    ]


@pytest.mark.parametrize(("seconds", "shapes"), [(0.0, ["N=2"]), (3600.0, ["N=2", "N=3", "N=16", "N=1"])])
def test_the_users_seconds_begin_with_several_rows(
    model: Path, tmp_path: Path, seconds: float, shapes: list[str]
) -> None:
    (tmp_path / "run").mkdir()
    request = VerifyRequest(target=model, backend="faulty", quick=True, seconds=seconds)
    document = verify(request, tmp_path / "run").document
    assert [case["label"] for case in document["cases"]] == shapes
    assert document["cases_left"] == 4 - len(shapes)
