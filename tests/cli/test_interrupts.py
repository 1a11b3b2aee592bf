"""A signal that asks a command to end is heard wherever it comes, and the exit code says so."""

import gc
import json
import signal
import time
import weakref
from collections.abc import Callable

import pytest
import typer
from tests.cli.conftest import CocoSetup
from tests.fork_server import ForkServer
from tests.texts import held

from trt_workbench.console.common import handled
from trt_workbench.core.errors import INTERRUPTED, UsageProblem
from trt_workbench.core.interruptible import ENDING

# Sends the signal when a function is called for the so-manieth time within a command.
PROGRAM = """
import signal, sys
from trt_workbench import app
from trt_workbench.console import common
from trt_workbench.main import main
name, times, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.argv = ["trtw", *sys.argv[4:]]
def watch(frame, event, _):
    global times
    if event == "call" and frame.f_code.co_name == name:
        times -= 1
        if times == 0:
            signal.raise_signal(number)
sys.setprofile(watch)
main()
"""


pytestmark = pytest.mark.usefixtures("in_a_terminal")


class Thing:
    pass


class Last:
    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


def in_finalizer(number: int) -> None:
    Last(number)
    gc.collect()


def in_callback(number: int) -> None:
    thing = Thing()
    held = weakref.ref(thing, lambda _: signal.raise_signal(number))
    del thing
    assert held() is None


def in_iteration(number: int) -> None:
    """Dropped twice, the second time when it comes again."""
    for _ in range(60):
        thing = Thing()
        held = weakref.ref(thing, lambda _: [time.sleep(0.001) for _ in range(20)])
        if _ == 0:
            in_callback(number)
        del thing
        assert held() is None


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("drop", [in_finalizer, in_callback, in_iteration])
def test_what_python_drops_comes_again(drop: Callable[[int], None], number: int) -> None:
    reached = []

    @handled
    def command(*, debug: bool = False) -> None:  # noqa: ARG001 - as commands have it
        drop(number)
        time.sleep(5)
        reached.append(True)

    with pytest.raises(typer.Exit) as end:
        command()
    assert end.value.exit_code == INTERRUPTED
    assert not reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", ENDING)
def test_what_a_library_swallows_is_in_the_exit_code(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    @handled
    def command(*, debug: bool = False) -> str:  # noqa: ARG001
        try:
            signal.raise_signal(number)
        except BaseException:
            time.sleep(0.001)
        return "done"

    with pytest.raises(typer.Exit) as end:
        command()
    assert end.value.exit_code == INTERRUPTED
    held(capsys.readouterr().err)


@pytest.mark.parametrize("kind", [RuntimeError, UsageProblem, ImportError, MemoryError, SystemError])
def test_what_a_library_makes_an_error_of_its_own_is_in_the_exit_code(kind: type[Exception]) -> None:
    @handled
    def command(*, debug: bool = False) -> None:  # noqa: ARG001
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise kind("initialization failed") from error

    with pytest.raises(typer.Exit) as end:
        command()
    assert end.value.exit_code == INTERRUPTED


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("__del__", signal.SIGINT),
        ("collect_environment", signal.SIGTERM),
        ("_one_image", signal.SIGHUP),
        ("commit", signal.SIGINT),
    ],
)
def test_a_command_that_is_interrupted_says_so(
    name: str, number: int, coco: CocoSetup, fork_server: ForkServer
) -> None:
    words = ("predict", coco.model, coco.images, "--output", coco.root / "run", "--no-pictures")
    done = fork_server.run(PROGRAM, name, 1, int(number), *words)
    assert done.returncode == INTERRUPTED, done.stderr
    assert "Interrupted" in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_that_is_ignored_ends_nothing(number: int, coco: CocoSetup, fork_server: ForkServer) -> None:
    ignored = f"import signal\nsignal.signal({int(number)}, signal.SIG_IGN)\n{PROGRAM}"  # SIGHUP: as `nohup` does
    words = ("predict", coco.model, coco.images, "--output", coco.root / "run", "--no-pictures")
    done = fork_server.run(ignored, "_one_image", 1, int(number), *words)
    assert done.returncode == 0, done.stderr
    assert "Interrupted" not in done.stderr
    assert json.loads((coco.root / "run" / "run.json").read_text())["status"] == "complete"
