"""What decides comes first: one copy on the rows that differ most, and what a further shape adds alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import faulty_backend

from trt_workbench.backends.base import Session
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.run import verify
from trt_workbench.verify.yardstick import Limit, Yardstick

Asked = list[tuple[int, int, bool]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What limits were asked for: rows, copies and whether closely."""
    own, found = Yardstick.limits, Asked()

    def limits(self: Yardstick, precision: str, inputs: Any, *given: Any, **how: Any) -> dict[str, Limit]:
        found.append((len(inputs["x"]), how.get("copies", 2), how.get("closely", False)))
        return own(self, precision, inputs, *given, **how)

    monkeypatch.setattr(Yardstick, "limits", limits)
    return found


def quick(model: Path, folder: Path, fault: str = "", **more: Any) -> Verified:
    folder.mkdir()
    given: dict[str, Any] = {"quick": True, "backend": "faulty", "options": {"fault": fault}, "seed": 1, **more}
    return verify(VerifyRequest(target=model, **given), folder)


def test_one_copy_of_a_few_rows_settles_what_is_right(masked_model: Path, tmp_path: Path, asked: Asked) -> None:
    assert quick(masked_model, tmp_path / "run").document["verdict"] == "right"
    assert asked == [(1, 1, False)] * 2 + [(2, 1, False)] * 4


@pytest.mark.long
def test_what_is_beyond_that_is_looked_at_as_closely_as_before(
    masked_model: Path, tmp_path: Path, asked: Asked
) -> None:
    assert quick(masked_model, tmp_path / "run", "only the largest shape").document["verdict"] == "wrong"
    settled = [(1, 1, False)] * 2 + [(2, 1, False)] * 3
    assert asked[:8] == [*settled, (2, 1, False), (16, 2, False), (16, 2, True)]


def test_the_rows_that_differ_most_are_the_few(
    masked_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, run, few, whole = Yardstick.limits, Session.run, list[Any](), list[Any]()

    def limits(self: Yardstick, precision: str, inputs: Any, *given: Any, **how: Any) -> dict[str, Limit]:
        few.append(inputs["x"])
        return own(self, precision, inputs, *given, **how)

    def noted(self: Session, inputs: Any) -> Any:
        if isinstance(self, faulty_backend.FaultySession) and len(inputs["x"]) == 16:
            whole.append(inputs["x"])
        return run(self, inputs)

    def off_in_row_9(_: Any, __: Any, outputs: dict[str, Any]) -> dict[str, Any]:
        return {name: array * _with_one_off(array, 9) for name, array in outputs.items()}

    monkeypatch.setattr(Yardstick, "limits", limits)
    monkeypatch.setattr(Session, "run", noted)
    monkeypatch.setitem(faulty_backend.FAULTS, "off in row 9", off_in_row_9)
    assert quick(masked_model, tmp_path / "run", "off in row 9").document["verdict"] == "right"
    assert len(few[-1]) == 2
    np.testing.assert_array_equal(few[-1][0], whole[0][9])


def _with_one_off(array: Any, row: int) -> Any:
    factors = np.ones((len(array), *[1] * (array.ndim - 1)), array.dtype)
    factors[row : row + 1] += np.float32(2e-7)
    return factors


def test_of_further_shapes_the_shape_alone_is_new(
    masked_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    own = Session.run

    def counted(self: Session, inputs: Any) -> Any:
        if isinstance(self, faulty_backend.FaultySession):
            calls.append(len(inputs["x"]))
        return own(self, inputs)

    monkeypatch.setattr(Session, "run", counted)
    document = quick(masked_model, tmp_path / "run").document
    by_case = {case["label"]: [row["inputs"] for row in case["outputs"]] for case in document["cases"]}
    assert by_case == {
        "N=1": ["random", "other random"],
        "N=2": ["random", "other random"],
        "N=3": ["random"],
        "N=16": ["random"],
    }
    assert document["remarks"] == ["at N=3, N=16 --quick tried one set of inputs, once"]
    assert calls.count(16) == 4  # itself, under other padding, another and itself again
    full = quick(masked_model, tmp_path / "full", quick=False).document
    assert {len(case["outputs"]) for case in full["cases"]} == {4}
    assert full["remarks"] == []
