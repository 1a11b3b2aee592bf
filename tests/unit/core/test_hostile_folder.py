"""A file of a standard module's name in the current folder must never be executed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import trt_workbench
from trt_workbench.bench.worker import TARGET
from trt_workbench.core.workers import WorkerProcess, ask_python
from trt_workbench.profile.run import Capture
from trt_workbench.profile.settings import ProfileRequest


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that planted modules leave when they are imported; the current folder holds such modules."""
    tree, proof = tmp_path / "hostile", tmp_path / "executed"
    tree.mkdir()
    for name in ("json", "ctypes", "pip", "trt_workbench", "numpy"):
        (tree / f"{name}.py").write_text(f"open({str(proof)!r}, 'w').close()\n")
    monkeypatch.chdir(tree)
    subprocess.run([sys.executable, "-c", "import json"], check=True)
    assert proof.exists(), "the trap does not work"
    proof.unlink()
    return proof


def test_workers(executed: Path, tmp_path: Path) -> None:
    with WorkerProcess(tmp_path / "log", TARGET) as worker:
        answer = worker.ask({"verb": "availability", "backend": "ort-cpu"}, 60)
    assert "available" in answer
    assert not executed.exists()


def test_snippets(executed: Path) -> None:
    assert ask_python("import json, sys; print(json.dumps(sys.argv[1:]))", "a", "b") == ["a", "b"]
    assert not executed.exists()


def test_what_a_profiler_records(executed: Path, tmp_path: Path) -> None:
    capture = Capture({}, tmp_path / "capture", ProfileRequest(tmp_path), lambda _: None)
    subprocess.run(capture.program, capture_output=True, check=False)
    assert not executed.exists()


def test_no_other_place_starts_python() -> None:
    """`sys.executable` stands in the helper, where a stack is this one, and where a build takes it to build for."""
    allowed = {"core/workers.py", "core/stack.py", "setup/ort_build_steps.py"}
    root = Path(trt_workbench.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if "executable" in text else "")):
            if isinstance(node, ast.Attribute) and node.attr == "executable":
                found.add(str(path.relative_to(root)))
    assert found == allowed
