"""Engines that crash are tried in worker processes: bisect and fix name them and go on, in processes that are sound."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.attention_model import attention_model
from tests.crashing_backend import NAME
from tests.texts import refused

from trt_workbench.core import workers
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workers import WorkerProcess
from trt_workbench.verify import isolation, trials, workarounds
from trt_workbench.verify.bisect import Bisected, bisect
from trt_workbench.verify.isolation import Crashed, Isolated, document_of, request_of, verified_apart
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.reproduction import write_bisected
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range
from trt_workbench.verify.workarounds import Workaround, fixed


@pytest.fixture(autouse=True)
def _processes(in_process: None, monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]) -> None:  # noqa: ARG001 - it comes first
    monkeypatch.setattr(workers, "WorkerProcess", WorkerProcess)
    outside_backend(NAME, "tests.crashing_backend:CrashingBackend")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return attention_model(tmp_path / "model.onnx", layers=1)


def asked(model: Path, **options: str) -> VerifyRequest:
    return VerifyRequest(target=model, backend=NAME, options=options, ranges={"N": Range(1, 2, 2)}, quick=True)


@pytest.fixture
def search(model: Path, tmp_path: Path) -> Callable[..., Bisected]:
    """Return a function that bisects what is wrong at a Softmax and crashes as it is told."""

    def run(**options: str) -> Bisected:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        found = verify(asked(model, wrong="Softmax"), folder)
        request = asked(model, **options)
        result = bisect(request, found, folder)
        write_bisected(request, result, folder)
        return result

    return run


def states(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "bisect" / "state.jsonl").read_text().splitlines()]


@pytest.mark.long
@pytest.mark.parametrize(("crash", "said"), [("sticky", "cudaErrorIllegalAddress"), ("hang", "no answer")])
def test_a_crash_of_the_whole_model_is_bisected_to_the_nodes_that_crash(
    crash: str, said: str, search: Callable[..., Bisected], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if crash == "hang":
        monkeypatch.setattr(trials.Trials, "_most", lambda *_: 1.0)
    found = search(crash=crash, at="Erf")
    assert found.operators == ("Erf",)
    assert found.complete
    assert said in found.crash
    run = tmp_path / "run"
    assert {one["state"] for one in states(run)} >= {"crashed", "right"}
    assert all(said in one["reason"] for one in states(run) if one["state"] == "crashed")
    document = json.loads((run / "bisect" / "bisect.json").read_text())
    assert said in document["crash"]
    assert document["max_abs"] is None
    report = (run / "bisect" / "report.md").read_text()
    assert "crash of Erf in fp32" in report
    assert said in report


def test_a_worker_that_failed_is_replaced_and_one_that_is_sound_lives_on(model: Path, tmp_path: Path) -> None:
    requests = {crash: document_of(asked(model, crash=crash)) for crash in ("", "sticky", "abort")}
    with Isolated(tmp_path / "log") as worker:

        def pid() -> int:
            return worker._worker.pid

        def time(crash: str) -> Any:
            return worker.ask({"verb": "time", "request": requests[crash]}, 60)["milliseconds"]

        assert time("") > 0
        first = pid()
        assert time("") > 0
        with refused(UsageProblem):
            worker.ask(
                {"verb": "time", "request": {**requests[""], "ranges": {"M": {"low": 1, "best": 1, "high": 1}}}}, 60
            )
        assert pid() == first
        for crash in ("sticky", "abort"):
            with refused(Crashed):
                time(crash)
            assert time("") > 0
            assert pid() != first


@pytest.mark.long
def test_parts_that_crash_are_neither_wrong_nor_right_and_the_search_goes_on(
    search: Callable[..., Bisected], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model that is wrong at a Softmax, parts without its end abort."""
    from trt_workbench.verify.cut import CutSource

    plain, crashing = CutSource.cut, asked(tmp_path / "model.onnx", wrong="Softmax", crash="abort")
    document = isolation.document_of

    # the request says that a part crashes where an Erf is gone
    def cut(self: CutSource, nodes: Any, form: Any, marked: Any = ()) -> Any:
        found = plain(self, nodes, form, marked)
        kinds = {self.nodes[place].op_type for place in nodes}
        monkeypatch.setattr(trials, "document_of", lambda one: document(one if "Erf" in kinds else crashing))
        return found

    monkeypatch.setattr(CutSource, "cut", cut)
    found = search(wrong="Softmax")
    assert sorted(found.operators) == ["Erf", "Softmax"]
    assert found.crash == ""
    assert found.first_wrong
    kept = states(tmp_path / "run")
    assert {one["state"] for one in kept} == {"wrong", "right", "crashed"}
    assert all("SIGABRT" in one["reason"] for one in kept if one["state"] == "crashed")


def test_ways_that_crash_are_failed_and_the_next_is_tried(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = [
        Workaround(f"way-{name}", options={"crash": name, "wrong": ""})
        for name in ("abort", "sticky", "hang", "", "never")
    ]
    monkeypatch.setattr(workarounds, "ways", lambda *_: iter(ways))
    monkeypatch.setattr(workarounds, "_LEAST_S", 1.5)
    notes: list[str] = []
    found = fixed(asked(model, crash="abort"), tmp_path, seconds=10, note=notes.append)
    reasons = {one.name: (one.verdict, one.reason) for one in found.tried}
    assert reasons["way-abort"][0] == "failed"
    assert "SIGABRT" in reasons["way-abort"][1]
    assert reasons["way-sticky"] == ("wrong", reasons["way-sticky"][1])
    assert "it crashed: " in reasons["way-sticky"][1]
    assert reasons["way-hang"][0] == "failed"
    assert "no answer within" in reasons["way-hang"][1]
    assert found.chosen.name == "way-"
    assert found.chosen.milliseconds
    assert (found.left, found.time_over) == (("way-never",), False)
    assert found.plain_milliseconds is None
    assert "SIGABRT" in notes[0]


def test_ways_for_which_there_is_no_time_are_listed(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workarounds, "ways", lambda *_: iter([Workaround("first"), Workaround("second")]))
    found = fixed(asked(model, wrong="Softmax"), tmp_path, seconds=0)
    assert (found.tried, found.left, found.time_over) == ((), ("first", "second"), True)
    assert found.document()["not_tried"] == ["first", "second"]
    assert found.document()["time_over"] is True


@pytest.mark.long
def test_a_target_that_kills_the_device_is_wrong_and_one_that_ends_its_process_is_said(
    model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    found = verified_apart(asked(model, crash="sticky"), folder)
    assert found.document["verdict"] == "wrong"
    assert "it crashed: The GPU failed: cudaErrorIllegalAddress" in found.failures[0]
    assert found.document["cases_left"] > 0
    assert (folder / "failures" / "001" / "inputs" / "x.npy").is_file()
    assert bisect(asked(model, crash="sticky", at="Erf"), found, folder).operators == ("Erf",)
    with refused(Crashed):
        verified_apart(asked(model, crash="abort"), folder)


@pytest.mark.long
@pytest.mark.usefixtures("own_processes")
def test_what_was_found_apart_is_what_is_found_here(model: Path, tmp_path: Path) -> None:
    here, apart = tmp_path / "here", tmp_path / "apart"
    here.mkdir()
    apart.mkdir()
    request = asked(model, wrong="Softmax")
    again = request_of(json.loads(json.dumps(document_of(request), default=str)))
    assert (again, again.sizes_seed) == (request, request.sizes_seed)
    expected, found = verify(request, here), verified_apart(request, apart)
    assert found.failures == expected.failures
    assert found.faults == expected.faults
    assert found.document == json.loads(json.dumps(expected.document))
