"""What identifies a result, and which unfinished run the same command goes on with."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.in_app import measured
from tests.records import record

from trt_workbench.bench import measured_in, put_measured
from trt_workbench.core import work
from trt_workbench.core.artefacts import Status
from trt_workbench.core.directory import RunDirectory, run_directory
from trt_workbench.core.documents import append_lines
from trt_workbench.core.work import continued, identity

MACHINE = {"gpu_at": {"name": "A"}, "driver_report": {"driver_version": "1"}, "cpu_report": {"model": "X"}}


@pytest.mark.parametrize(
    ("backends", "timed", "decide"),
    [
        ([None], False, {"processor"}),
        ([None], True, {"processor"}),
        ([0], False, {"gpu", "driver"}),
        ([1], True, {"gpu", "driver", "processor"}),
        ([0, None], False, {"gpu", "driver", "processor"}),
        ([], False, {"processor"}),
    ],
)
def test_a_result_depends_on_what_computed_it(
    backends: list[int | None], timed: bool, decide: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(**other: dict[str, str]) -> dict[str, Any]:
        for name, value in {**MACHINE, **other}.items():
            monkeypatch.setattr(work, name, lambda *_, value=value: value)
        return identity({"model": "m"}, backends, timed=timed)

    here = found()
    changes = {
        "gpu": found(gpu_at={"name": "B"}),
        "driver": found(driver_report={"driver_version": "2"}),
        "processor": found(cpu_report={"model": "Y"}),
    }
    assert {name for name, other in changes.items() if other != here} == decide
    assert found(gpu_at={})["processor"] == "X"  # without a GPU
    monkeypatch.setattr(work, "installed_packages", lambda: {"onnxruntime": "0"})
    assert identity({"model": "m"}, backends, timed=timed) != here
    json.dumps(here)


def run_of(place: Path, status: Status | None, asked: dict[str, Any], command: str = "bench") -> tuple[Path, list[str]]:
    """Make a run in a place; without a status leave what a killed process leaves. Return it, and what it said."""
    said: list[str] = []
    run = RunDirectory(command, place)
    run.begin()
    continued(run, asked, said.append, "results")
    (run.path / "results").touch()
    if status:
        run.commit(status)
    run._lock.release()
    return (place if status else run.path), said


def goes_on_with(place: Path, asked: dict[str, Any], *, whole: bool = False) -> tuple[list[Path], list[str]]:
    said: list[str] = []
    with run_directory("bench", place) as run:
        found = continued(run, asked, said.append, "results", whole=whole)
        parts = json.loads((run.path / "env.json").read_text()).get("earlier", [])
        assert len(parts) == len(found)
    return found, said


def test_only_what_was_not_finished_and_is_asked_for_the_same_goes_on(tmp_path: Path) -> None:
    place, asked = tmp_path / "run", {"settings": {"limit": 4}, "gpu": "A"}
    assert goes_on_with(place, asked) == ([], [])
    run_of(place, "complete", asked)
    assert goes_on_with(place, asked) == ([], [])
    assert goes_on_with(place, asked, whole=True)[0] == [place]
    run_of(place, "partial", asked)
    assert goes_on_with(place, asked)[0] == [place]
    found, said = goes_on_with(place, {**asked, "settings": {"limit": 8}})
    assert (found, said) == ([], ["The run in this folder is not continued: settings.limit was 4 there and is 8 here."])
    staging, _ = run_of(place, None, asked)
    assert goes_on_with(place, asked)[0] == [staging, place]  # the newest first
    (staging / work.WORK).write_text((staging / work.WORK).read_text()[:-5])
    assert goes_on_with(place, asked)[0] == [place]
    (place / "results").unlink()
    assert goes_on_with(place, asked) == ([], [])


def test_what_a_killed_run_of_another_command_left_is_not_gone_on_with(tmp_path: Path) -> None:
    run_of(tmp_path / "run", None, {}, "decide")
    assert goes_on_with(tmp_path / "run", {}) == ([], [])


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eight")
    append_lines(folder / "records.jsonl", (record(repetition=number) for number in range(8)))
    return folder


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_wherever_a_process_was_killed_only_whole_lines_are_results(
    data: st.DataObject, eight: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of several such runs, of which each may have what others have."""
    lines = (eight / "records.jsonl").read_bytes().splitlines(keepends=True)
    left, known = [], set[int]()
    for _ in range(data.draw(st.integers(1, 3))):
        folder = tmp_path_factory.mktemp("left")
        order = data.draw(st.permutations(range(8)))
        text = b"".join(lines[one] for one in order)
        end = data.draw(st.integers(0, len(text)))
        (folder / "records.jsonl").write_bytes(text[:end])
        known |= {*order[: text[:end].count(b"\n")]}
        left.append(folder)
    into = tmp_path_factory.mktemp("into")
    put_measured(pairs := measured_in(left), into)
    found, whole = [one for _, one in pairs], {one.repetition: one for one in measured(eight)}
    assert sorted(one.repetition for one in found) == sorted(known)
    assert all(one == whole[one.repetition] for one in found)
    assert not found or measured(into) == found
