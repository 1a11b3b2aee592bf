"""Worker processes: what they answer, and what a crash, a hang, a signal or an end of ours is there."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.docker import docker
from tests.texts import refused
from tests.waiting import wait_until

from trt_workbench.core.errors import (
    CheckFailed,
    ComponentMissing,
    DeviceFailure,
    NotFinite,
    OutOfMemory,
    UsageProblem,
    error_document,
    error_of,
)
from trt_workbench.core.stack import Stack
from trt_workbench.core.workers import (
    CRASH,
    TIMEOUT,
    WorkerFailure,
    WorkerProcess,
    Workers,
    ask_python,
    python_command,
    run_to_end,
)

# A worker that does as it is told.
OBEDIENT = """
import os, signal, subprocess, sys, tempfile, time
from trt_workbench.core import errors
class Own(errors.CheckFailed):
    pass
class Obedient:
    def __init__(self):
        print("begins", flush=True)
    def pid(self, request):
        print("noise on stdout", flush=True)
        return {"pid": os.getpid(), "verb": request["verb"]}
    def fail(self, request):
        kind = getattr(errors, request["error"], Own)
        raise kind(request["text"])
    def defect(self, request):
        raise KeyError("k")
    def memory(self, request):
        raise MemoryError("17 GiB")
    def die(self, request):
        tempfile.mkdtemp()
        print("its last word", file=sys.stderr, flush=True)
        os.kill(os.getpid(), request["signal"])
    def leave(self, request):
        os.write(3 if request.get("none") else self._answers(), b'{"ok": tr')
        os._exit(request["code"])
    def _answers(self):
        return max(int(one) for one in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{one}"))
    def hang(self, request):
        open(os.path.join(tempfile.mkdtemp(), "half"), "w").write("written")
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
        open(request["pids"], "w").write(f"{os.getpid()} {child.pid}")
        time.sleep(300)
    def close(self):
        print("closed", file=sys.stderr, flush=True)
def double(request):
    return {"double": 2 * request["number"]}
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., WorkerProcess]:
    (tmp_path / "obedient.py").write_text(OBEDIENT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return lambda target="obedient:Obedient": WorkerProcess(tmp_path / "log", target)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits for its parent to ask how it ended does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_functions_of_a_module_and_methods_of_a_class_answer(
    start: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    with start("obedient") as worker:
        assert [worker.ask({"verb": "double", "number": one}, 60)["double"] for one in (1, 5)] == [2, 10]
    with start() as worker:
        assert worker.ask({"verb": "pid"}, 60) == {"pid": worker.pid, "verb": "pid"}
    assert "noise on stdout\nclosed" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("kind", [CheckFailed, ComponentMissing, DeviceFailure, UsageProblem])
def test_errors_for_users_keep_their_class(start: Callable[..., WorkerProcess], kind: type) -> None:
    with start() as worker:
        with refused(WorkerFailure) as failed:
            worker.ask({"verb": "fail", "error": kind.__name__, "text": "it is so"}, 60)
        assert type(failed.value.error) is kind
        assert failed.value.is_sound == (kind is not DeviceFailure)
        assert worker.ask({"verb": "pid"}, 60)["pid"] == worker.pid


def test_an_error_of_a_class_elsewhere_is_of_the_class_with_its_exit_code(start: Callable[..., WorkerProcess]) -> None:
    with start() as worker, pytest.raises(WorkerFailure) as failed:
        worker.ask({"verb": "fail", "error": "Own", "text": "no"}, 60)
    assert (failed.value.kind, type(failed.value.error)) == ("Own", CheckFailed)


def test_defects_and_want_of_memory(start: Callable[..., WorkerProcess]) -> None:
    with start() as worker:
        with refused(WorkerFailure) as failed:
            worker.ask({"verb": "defect"}, 60)
        assert (failed.value.kind, failed.value.error, failed.value.is_sound) == ("Defect", None, False)
        with refused(WorkerFailure) as failed:
            worker.ask({"verb": "memory"}, 60)
        assert isinstance(failed.value.error, OutOfMemory)


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL, signal.SIGRTMIN + 3])
def test_a_signal_is_named_and_so_is_it_when_asked_again(start: Callable[..., WorkerProcess], number: int) -> None:
    with start() as worker:
        for _ in range(2):
            with refused(WorkerFailure) as failed:
                worker.ask({"verb": "die", "signal": int(number)}, 60)
            assert (failed.value.kind, failed.value.alive) == (CRASH, False)


def test_last_words_are_those_of_the_worker_not_of_one_before(
    start: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("of another one\n")
    with start() as worker, pytest.raises(WorkerFailure) as failed:
        worker.ask({"verb": "die", "signal": 9}, 60)
    assert str(failed.value).endswith("its last output: begins\nits last word")


def test_an_end_within_an_answer_is_a_crash(start: Callable[..., WorkerProcess]) -> None:
    with start() as worker, refused(WorkerFailure) as failed:
        worker.ask({"verb": "leave", "code": 3}, 60)
    assert failed.value.kind == CRASH


def test_a_target_that_cannot_be_imported_is_a_crash_that_says_so(start: Callable[..., WorkerProcess]) -> None:
    with start("no_such_module") as worker, pytest.raises(WorkerFailure, match="No module named") as failed:
        worker.ask({"verb": "pid"}, 60)
    assert failed.value.kind == CRASH


@pytest.mark.parametrize("how", ["time limit", "interrupt"])
def test_nothing_is_left_of_a_worker_that_hangs(start: Callable[..., WorkerProcess], tmp_path: Path, how: str) -> None:
    pids = tmp_path / "pids"
    request = {"verb": "hang", "pids": str(pids)}

    def interrupted() -> None:
        with start() as worker:
            worker.send(request)
            wait_until(pids.exists)
            raise KeyboardInterrupt

    if how == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    else:
        with start() as worker:
            worker.send(request)
            wait_until(pids.exists)
            with refused(WorkerFailure) as failed:
                worker.answer(0.1)
            assert (failed.value.kind, failed.value.alive) == (TIMEOUT, False)
    wait_until(lambda: not any(is_alive(int(one)) for one in pids.read_text().split()))
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.usefixtures("own_processes")
def test_a_worker_ends_with_the_process_that_started_it_even_where_that_is_killed(
    start: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    del start  # the module that it has written
    pids = tmp_path / "pids"
    program = f"""
from pathlib import Path
from trt_workbench.core.workers import WorkerProcess
with WorkerProcess(Path({str(tmp_path / "log")!r}), "obedient:Obedient") as worker:
    worker.ask({{"verb": "hang", "pids": {str(pids)!r}}}, 300)
"""
    asking = subprocess.Popen(python_command("-c", program))
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    asking.kill()
    asking.wait()
    wait_until(lambda: not any(is_alive(int(one)) for one in pids.read_text().split()))
    assert (tmp_path / "log").read_text().endswith("closed\n")
    wait_until(lambda: not list((tmp_path / "temporary").iterdir()))


def test_workers_are_replaced_once_suspect_and_asked_again_where_an_earlier_request_may_be_why(
    start: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    del start
    with Workers(tmp_path / "log", "obedient:Obedient") as workers:
        first = workers.ask({"verb": "pid"}, 60)["pid"]
        with pytest.raises(WorkerFailure):
            workers.ask({"verb": "fail", "error": "UsageProblem", "text": "no"}, 60)
        assert workers.ask({"verb": "pid"}, 60)["pid"] == first
        with refused(WorkerFailure):
            workers.ask({"verb": "die", "signal": int(signal.SIGABRT)}, 60)
        assert (tmp_path / "log").read_text().count("its last word") == 2
        second = workers.ask({"verb": "pid"}, 60)["pid"]
        assert second != first
        with refused(WorkerFailure):
            workers.ask({"verb": "defect"}, 60)
        assert workers.ask({"verb": "pid"}, 60)["pid"] != second


def test_a_command_and_all_that_it_started_end_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids, communicate = tmp_path / "pids", subprocess.Popen.communicate

    def once_it_runs(process: Any, *arguments: Any, **more: Any) -> Any:
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        return communicate(process, *arguments, **more)

    monkeypatch.setattr(subprocess.Popen, "communicate", once_it_runs)
    code = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(300)
"""
    assert run_to_end([sys.executable, "-c", code], 0.1).code is None
    wait_until(lambda: not any(is_alive(int(one)) for one in pids.read_text().split()))


def test_what_takes_too_long_ends_in_its_container_too(tmp_path: Path) -> None:
    """A client that is killed leaves its container, which would hold the GPU; one that is asked to end tells it."""
    seen = tmp_path / "seen"
    seen.mkdir()
    stack = Stack.open(docker(tmp_path, "-v", f"{seen}:{seen}"))
    code = f"import os, pathlib, time; pathlib.Path('{seen}/pid').write_text(str(os.getpid())); time.sleep(300)"
    assert run_to_end(stack.python("-c", code), 3, stack.variables).code is None
    wait_until(lambda: not is_alive(int((seen / "pid").read_text())))


@pytest.mark.parametrize(
    "code",
    [
        "import no_such_module",
        "import os; os.abort()",
        "print('no json')",
        "pass",
        "import time; time.sleep(60)",
    ],
)
def test_a_snippet_that_fails_says_why(code: str) -> None:
    with refused(WorkerFailure):
        ask_python(code, timeout_s=0.3 if "sleep" in code else 60)


def test_what_is_no_error_of_the_family_has_no_class() -> None:
    assert error_of({"error": "KeyError: 'k'", "kind": "Defect", "exit_code": None}) is None
    assert error_of({"error": "x", "kind": "WorkbenchError", "exit_code": None}) is None


def test_a_message_is_said_once_whatever_its_class_adds() -> None:
    error = NotFinite("The model returned NaN", " (of y)")
    again = error_of(error_document(error))
    assert (type(again), str(again)) == (CheckFailed, str(error))
    assert type(error_of(error_document(OutOfMemory("16 GiB")))) is OutOfMemory
