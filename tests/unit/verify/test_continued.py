"""A run that goes on finds what one that was not interrupted finds, wherever it was."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import faulty_backend
from tests.onnx_text import write_onnx

from trt_workbench.core.documents import json_values
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.run import BLOCK, RECORDS, verify
from trt_workbench.verify.settings import Range

Step = Callable[[str], None]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Floats decide at every batch; the place of the largest only where no row has a near tie."""
    graph = "g (float[N,6] x) => (float[N,6] y, int64[N,1] i) { a = MatMul(x, w) y = Tanh(a) i = ArgMax<axis = 1>(a) }"
    weights = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    return write_onnx(tmp_path / "model.onnx", graph, {"w": weights})


def asked(model: Path, fault: str = "", **more: Any) -> VerifyRequest:
    ranges = {"N": Range(1, 2, 10)}
    given: dict[str, Any] = {
        "sizes_seed": 5,
        "options": {"fault": fault},
        "backend": "faulty",
        "precision": "tf32",
        **more,
    }
    return VerifyRequest(target=model, ranges=ranges, **given)


def run(request: VerifyRequest, folder: Path, step: Step = lambda _: None, earlier: tuple[Path, ...] = ()) -> Verified:
    folder.mkdir()
    faulty_backend.FaultySession.opened = 0
    return verify(request, folder, lambda _: None, step, earlier)


def files(folder: Path) -> dict[str, bytes]:
    found = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return {name: content for name, content in found.items() if not name.endswith(".npz")}


def said(found: Verified) -> Any:
    return json.loads(json.dumps(json_values(found)))


def torn(folder: Path) -> None:
    """Leave half a line behind the last, as a process does that is killed."""
    if (folder / RECORDS).exists():
        with (folder / RECORDS).open("a") as file:
            file.write('{"row": {"label"')


@pytest.mark.parametrize(
    ("fault", "more"),
    [
        ("", {}),
        ("", {"quick": True}),
        ("stale", {"quick": True}),
        ("", {"falling": True}),
        pytest.param("only batch 3", {}, marks=pytest.mark.long),
        pytest.param("second session", {}, marks=pytest.mark.long),
    ],
)
def test_killed_before_any_shape_and_continued_it_finds_what_one_run_finds(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, more: dict[str, Any]
) -> None:
    """Before the other ways, too; what a process leaves that is killed is what is there at that moment."""
    if more.pop("falling", False):  # the call of the other ways is one of the first
        monkeypatch.setattr("trt_workbench.verify.run._decided", lambda trial: 20 - trial.case.batch)
    request, begun, whole_folder = asked(model, fault, **more), list[str](), tmp_path / "whole"

    def step(label: str) -> None:
        begun.append(label)
        torn(shutil.copytree(whole_folder, tmp_path / f"left-{len(begun)}"))

    whole = run(request, whole_folder, step)
    assert whole.failures if fault else not whole.failures
    for number in range(5, len(begun) + 1, 1 if len(begun) < 8 else 2):
        left, out, reached = tmp_path / f"left-{number}", tmp_path / f"out-{number}", list[str]()
        found = run(replace(request, sizes_seed=77), out, reached.append, (left,))
        assert len(begun) - len(reached) == (number - 1) // BLOCK * BLOCK, number
        assert said(found) == said(whole), number
        assert files(out) == files(whole_folder), number


@pytest.mark.parametrize("more", [{"record": True}, {"seconds": 60.0}])
def test_runs_with_a_record_or_a_time_limit_begin_again(model: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    left: list[bool] = []
    run(
        asked(model, quick=True, **more), tmp_path / "run", lambda _: left.append((tmp_path / "run" / RECORDS).exists())
    )
    assert len(left) == 5
    assert not any(left)
