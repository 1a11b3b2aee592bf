"""What a command writes never takes the place of a file that we did not write."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.copies import copied
from tests.in_app import stderr_of, stdout_of
from tests.kept_reports import RECORDS
from tests.onnx_text import write_onnx

pytestmark = pytest.mark.usefixtures("blank_pictures")

Command = tuple[object, ...]


@pytest.fixture
def commands(model: Path, plan: Path, tmp_path: Path) -> dict[str, tuple[Command, tuple[str, ...]]]:
    """Each command with an output of its own, and the files that it writes, relative to the test's folder."""
    floats = write_onnx(
        tmp_path / "f.onnx", "g (float[n,4] x) => (float[n,3] y) { y = MatMul(x, w) }", {"w": np.eye(4, 3, dtype="f")}
    )
    stdout_of("build-engine", model, "--refit", "full", "-o", tmp_path / "refittable.plan", "--verify", "off")
    random = ("--calibration", "random", "--samples", 8)
    return {
        "build-engine": (("build-engine", model, "--verify", "off", "-o", "o.plan"), ("o.plan", "o.plan.json")),
        "refit-engine": (("refit-engine", "refittable.plan", model, "-o", "o.plan"), ("o.plan", "o.plan.json")),
        "quantize": (
            ("quantize", floats, "--to", "int8", *random, "-o", "o.onnx"),
            ("o.onnx", "o.json", "o.onnx.data"),
        ),
        "sanitize-onnx": (("sanitize-onnx", floats, "-o", "o.onnx"), ("o.onnx", "o.onnx.data")),
        "make-contract": (("make-contract", floats, "-o", "o.json"), ("o.json",)),
        "infer-engine": (
            ("infer-engine", plan, "--duration", 0, "--iterations", 1, "--export-times", "o.json", "--output", "run"),
            ("o.json",),
        ),
        "timing cache": (
            ("build-engine", model, "--verify", "off", "--force", "--timing-cache", "o.timing"),
            ("o.timing",),
        ),
    }


def users_files(folder: Path) -> dict[str, Callable[[Path], object]]:
    mine = folder / "mine.onnx"
    write_onnx(mine, "g (float[2] x) => (float[2] y) { y = Relu(x) }")
    return {
        "JSON": lambda path: path.write_text('{"learning_rate": 0.1}'),
        "a model": lambda path: shutil.copy(mine, path),
        "a list": lambda path: path.write_text('[\n{\n"a": 1.0\n}\n ]\n'),
        "a link to nothing": lambda path: path.symlink_to(folder / "nowhere"),
        "a link to a file": lambda path: path.symlink_to(mine),
    }


def state(path: Path) -> tuple[bool, bytes, set[str]]:
    """Return what is there, and what is beside it; locks may be."""
    beside = {one.name for one in path.parent.iterdir() if one.suffix != ".lock"}
    return path.is_symlink(), path.read_bytes() if path.exists() else b"", beside


NAMES = ("build-engine", "refit-engine", "quantize", "sanitize-onnx", "make-contract", "infer-engine", "timing cache")


@pytest.mark.parametrize("name", NAMES)
def test_files_of_others_stay(
    name: str, commands: dict[str, tuple[Command, tuple[str, ...]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, written = commands[name]
    for file in written:
        for kind, put in users_files(tmp_path).items():
            if name == "timing cache" and kind == "a link to nothing":
                continue  # it is a place like any other
            path = tmp_path / file
            put(path)
            before = state(path)
            assert file in stderr_of(*words), (file, kind)
            assert state(path) == before, (file, kind)
            path.unlink()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "make-contract"])
def test_what_we_wrote_is_written_again(
    name: str, commands: dict[str, tuple[Command, tuple[str, ...]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, written = commands[name]
    for _ in range(2):
        stdout_of(*words)
    if name not in ("infer-engine", "timing cache"):
        changed = tmp_path / written[0]
        changed.write_bytes(changed.read_bytes()[:-4])
        assert "did not write" in stderr_of(*words)


def test_a_source_is_never_the_output(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stdout_of("sanitize-onnx", model, "-o", "s.onnx")
    before = (tmp_path / "s.onnx").read_bytes()
    os.link("s.onnx", "again.onnx")
    assert "would replace the model" in stderr_of("sanitize-onnx", "s.onnx", "-o", tmp_path / "s.onnx")
    assert (tmp_path / "s.onnx").read_bytes() == before
    assert onnx.load(tmp_path / "s.onnx").metadata_props


@pytest.mark.long
def test_an_overview_is_no_place_of_a_run(tmp_path: Path) -> None:
    run = copied(RECORDS / "bench-h200/minilm", tmp_path / "run")
    for name in ("run.json", "overview.html", "overview.md", "decision.json", "decision.html", "plots"):
        folder = tmp_path / f"with {name}"
        (folder / name).mkdir(parents=True) if name == "plots" else folder.mkdir()
        if name != "plots":
            (folder / name).write_text(json.dumps({"command": "decide"}))
        assert str(folder) in stderr_of("report", run, "--output", folder)
        assert [one.name for one in folder.iterdir()] == [name]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    for _ in range(2):
        stdout_of("report", run, "--output", mine)
    assert (mine / "notes.txt").read_text() == "mine"
    (run / "sub").mkdir()
    assert "run directory" in stderr_of("report", run, "--output", run)
