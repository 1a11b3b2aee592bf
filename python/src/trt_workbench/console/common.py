"""What every command shares: options, consoles, exit codes and how an error is shown."""

from __future__ import annotations

import _thread
import errno
import functools
import gc
import json
import os
import re
import signal
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias, TypeVar, cast

import typer
from typer.core import TyperCommand

from trt_workbench.console.foreign_words import advice
from trt_workbench.console.keywords import worded
from trt_workbench.console.options import expanded
from trt_workbench.console.progress import pulse
from trt_workbench.console.typed import read_sparingly
from trt_workbench.core.errors import (
    INTERRUPTED,
    ComponentMissing,
    DeviceFailure,
    UsageProblem,
    WorkbenchError,
    allowed,
    panics_as_errors,
    printable,
    similar,
)
from trt_workbench.core.input_files import checkpoint_problem
from trt_workbench.core.settings import MORE, Setting
from trt_workbench.core.start import reached
from trt_workbench.core.workspace import with_embedded

_AGAIN_S = 0.01


@contextmanager
def ended_as_interrupted(heard: list[int]) -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C: partial work is kept or removed.

    Batch systems and containers end a job with the one, a terminal that is closed with the other. What is ignored, as
    SIGHUP is under `nohup`, stays so. An interrupt that Python drops, because it came within a finalizer or the
    callback of a weak reference (`import` has one for each module), comes again.

    Args:
        heard: takes the signals that come.
    """
    from trt_workbench.core.interruptible import ENDING

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return

    def interrupt(number: int, _: object) -> None:
        heard.append(number)
        if number == signal.SIGHUP:
            _leave_terminal()
        raise KeyboardInterrupt

    def dropped(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt) and heard:
            _thread.start_new_thread(_send_again, (heard[-1], ended))
        else:
            earlier_hook(what)

    ended = threading.Event()
    earlier_hook, sys.unraisablehook = sys.unraisablehook, dropped
    earlier = {number: signal.getsignal(number) for number in ENDING}
    ours = {number: handler for number, handler in earlier.items() if handler not in (signal.SIG_IGN, None)}
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        ended.set()
        for number, handler in ours.items():
            signal.signal(number, handler)
        sys.unraisablehook = earlier_hook


def _send_again(number: int, ended: threading.Event) -> None:
    """Send a signal again from a thread of its own: in the hook itself it would be dropped once more."""
    time.sleep(_AGAIN_S)
    if not ended.is_set():
        os.kill(os.getpid(), number)


def _leave_terminal() -> None:
    """Write to nowhere instead of the terminal that was closed, where every write would fail."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)


if TYPE_CHECKING:
    from rich.console import Console

    from trt_workbench.core.directory import RunDirectory
    from trt_workbench.report.tables import Table

    Parts: TypeAlias = Iterable[Table | str | None]

R = TypeVar("R")

_FIXES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room"),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "a folder is needed there; choose another place"),
}

_ADDRESS = re.compile(r"^(hf|https?|s3|gs|ftp):/+")
_TAKES_ADDRESS = ("url", "git")
_NOT_HERE = "{} is an address; only local files are read. Download it, and give the path of the file."

COMMON = "Common options"
_FIRST, _LEADING = "Options", 5
_HELP_FLAGS = {"help_option_names": ["-h", "--help"]}

OutputOption = Annotated[
    Path | None, Setting("Run directory to write; tmp/<command>/<run-id>/ by default.", COMMON, flags="--output -o")
]
JsonOption = Annotated[bool, Setting("Print one JSON document on stdout and nothing else.", COMMON, flags="--json")]
DebugOption = Annotated[bool, Setting("Show the traceback of an error.", COMMON)]


def handled(command: Callable[..., R]) -> Callable[..., R]:
    """Turn the errors of a command into one paragraph on stderr and the exit code of their kind.

    Its settings become options (`console/options.py`), and the name of an embedded model stands for its path. It takes
    a `debug` keyword argument; with it, the traceback is shown as well.
    """
    command = expanded(command)

    @functools.wraps(command)
    def guarded(**kwargs: Any) -> R:
        reached("options")
        if not gc.isenabled():  # `trtw` starts so
            gc.freeze()
            gc.enable()
        before, began = _kept(), time.time()  # what another command of this process kept
        heard: list[int] = []
        fail = functools.partial(_fail, before=before, heard=heard, debug=bool(kwargs.get("debug")))
        try:
            _require_current_folder()
            with ended_as_interrupted(heard), pulse(), panics_as_errors():
                found = command(**with_embedded(kwargs))
            if heard:  # and the command ended normally: a library took it for its own error
                fail("Interrupted, but the command had already finished.", INTERRUPTED)
            return found
        except typer.Exit:
            raise
        except WorkbenchError as error:
            fail(str(error), error.exit_code)
        except OSError as error:
            if error.errno == errno.ENOMEM:
                fail(f"Out of memory ({error}).", DeviceFailure.exit_code)
            fix = f"; {_FIXES[error.errno]}" if error.errno in _FIXES else ""
            fix += ", or choose another place with --output" if fix == "; make room" and "output" in kwargs else ""
            where = f": {error.filename}" if error.filename else ""
            fail(f"{error.strerror or error}{fix}{where}", UsageProblem.exit_code)
        except MemoryError as error:
            reason = f" ({error})" if str(error) else ""
            fail(f"Out of memory{reason}; use smaller shapes or a smaller batch.", DeviceFailure.exit_code)
        except ImportError as error:  # a library that is absent or broken; our own modules are tested
            fail(
                f"A library cannot be loaded ({error}); reinstall it, or allow the process more memory.",
                ComponentMissing.exit_code,
            )
        except RecursionError:
            fail("The input is nested too deeply.", UsageProblem.exit_code)
        except UnicodeEncodeError as error:  # bytes of a command line that are no UTF-8
            fail(f"An argument or name is not valid text: {error.object!r}", UsageProblem.exit_code)
        except (KeyboardInterrupt, Exception) as error:
            if not heard and isinstance(error, Exception):
                raise  # a defect
            from trt_workbench.console.builds import what_is_left

            left = what_is_left(error, began, kwargs.get("output"), force=bool(kwargs.get("force")))
            nothing = "; nothing was kept" if _kept() is before and not left else ""
            fail(f"Interrupted{nothing}.{left}", INTERRUPTED)

    return guarded


def interrupted(directory: Path, done: str = "") -> typer.Exit:
    """Say that the user ended a run, after what, and which command continues it; return what ends the command."""
    from trt_workbench.core.launcher import continuing

    say(f"Interrupted{done}; continue with {continuing(directory)}")
    return typer.Exit(INTERRUPTED)


@contextmanager
def kept_if_interrupted(run: RunDirectory, results: str) -> Iterator[None]:
    """Keep a run that ends or fails in the block, marked partial, if its file or folder of results is there."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if (run.path / results).exists():
            directory = run.commit("partial")
            if isinstance(error, KeyboardInterrupt):
                raise interrupted(directory) from None
        raise


def _require_current_folder() -> None:
    """Raise UsageProblem where the current folder is gone: libraries end the process when they find no path to it."""
    try:
        Path.cwd()
    except OSError as error:
        raise UsageProblem(
            f"The current folder does not exist ({error.strerror}); change to another folder."
        ) from error


def _kept() -> Path | None:
    """Return the run directory that the command finished before it failed or was interrupted."""
    module = sys.modules.get("trt_workbench.core.directory")  # imported by commands that make one
    return module.finished_run() if module else None


def _fail(message: str, exit_code: int, *, before: Path | None, heard: list[int], debug: bool) -> NoReturn:
    """Print a message and end with an exit code, that of an interrupt where one came: errors may follow from it."""
    if debug:
        traceback.print_exc()
    sys.stderr.write(f"error: {printable(message)}\n")
    directory = _kept()
    if directory and directory is not before and str(directory) not in message:
        sys.stderr.write(f"note: The measurements are kept: {directory}\n")
    raise typer.Exit(INTERRUPTED if heard else exit_code)


def _problem_with(parameter: Any, value: Any) -> str:
    """Return what to do with an address, or a checkpoint among what was given as a model; "" where there is none."""
    several = value if isinstance(value, list | tuple) else [value]
    given = [str(one) for one in several if isinstance(one, str | Path)]
    # a path has one slash where the address had two
    if address := next((_ADDRESS.sub(r"\1://", one) for one in given if _ADDRESS.match(one)), ""):
        return "" if parameter.name.endswith(_TAKES_ADDRESS) else _NOT_HERE.format(address)
    is_model = parameter.param_type_name == "argument"
    return next((said for one in given if is_model and (said := checkpoint_problem(Path(one)))), "")


class PanelCommand(TyperCommand):
    """A command whose `--help` lists its options panel by panel, and whose numbers are bounded.

    The five options that matter lead: those declared first of the ones that name no panel. The panels that options name
    follow, then the rest, and last what all commands share. Typer itself lists panels only through rich, with which
    `--help` takes twice the time.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        """Take `-h` for `--help`."""
        more["context_settings"] = {**_HELP_FLAGS, **(more.get("context_settings") or {})}
        super().__init__(*args, **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and refuse numbers that no option has a use for and that clocks and libraries would trip over."""
        parameters: list[Any] = self.get_params(ctx)
        read_sparingly(parameters)
        flags = [flag for one in parameters if one.expose_value for flag in (*one.opts, *one.secondary_opts)]
        if said := advice(self.name or "", args, flags):
            ctx.fail(said)
        try:
            rest = super().parse_args(ctx, [*args])  # which it empties
        except typer.BadParameter as error:
            if found := getattr(error.__cause__, "errors", None):  # pydantic's, whose words typer repeats
                from trt_workbench.core.documents import reason_in

                details = found(include_url=False)[0]
                given = f", not {details['input']!r:.80}"
                error.message = reason_in(details) + ("" if details["type"] == "value_error" else given)
            raise
        except Exception as error:
            if hasattr(error, "possibilities"):  # of an unknown option; those that the line is right with
                wrong = vars(error)["option_name"]
                near = [one for one in similar(wrong, flags) if self._takes(wrong, one, args)]
                vars(error)["possibilities"] = near[:1]
            raise
        for parameter in parameters:
            value = ctx.params.get(parameter.name or "")
            if problem := _problem_with(parameter, value):
                ctx.fail(problem)
            if isinstance(value, int | float) and (form := allowed(value)):
                raise typer.BadParameter(f"it must be {form}, not {value!r}.", ctx, parameter)
        return rest

    def _takes(self, wrong: str, right: str, args: list[str]) -> bool:
        """Whether an option is taken in the place of an unknown one, with the value that was given to that."""
        words = [right + text.removeprefix(wrong) if text.split("=")[0] == wrong else text for text in args]
        try:
            self.make_context(self.name, words)
        except Exception as error:
            return type(error).__name__ in ("MissingParameter", "NoSuchOption")  # what else is wrong
        return True

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what follows the name of the command: `[OPTIONS] MODEL [IMAGES...]`."""
        places = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        named = [_place(one) + "..." * (one.nargs == -1) for one in places]
        return ["[OPTIONS]", *(text if one.required else f"[{text}]" for one, text in zip(places, named, strict=True))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], _FIRST: []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                names = re.sub(r"<(?:list\[)?(\w+?)( range)?\]?>", lambda found: f"<{found[1].lower()}>", record[0])
                if (panel := _panel(parameter)) == "Arguments":
                    names = " ".join([_place(parameter), *names.split()[1:]])
                panels.setdefault(panel, []).append((names, record[1]))
        panels[MORE] = panels[_FIRST][_LEADING:] + panels.pop(MORE, [])
        del panels[_FIRST][_LEADING:]
        panels[COMMON] = panels.pop(COMMON)
        for panel, rows in panels.items():
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)


def _place(parameter: Any) -> str:
    """Return the placeholder of an argument: its name in capitals, whatever typer makes of it."""
    return str(parameter.metavar or parameter.name).upper()


def _panel(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    if parameter.name in ("help", "install_completion", "show_completion"):  # typer's own
        return COMMON
    return getattr(parameter, "rich_help_panel", None) or _FIRST


def single_command_app(command: Callable[..., Any]) -> typer.Typer:
    """Return an app for a console script of its own around one command."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(cls=PanelCommand)(command)
    return app


def stderr_console() -> Console:
    """Return the console for progress."""
    from rich.console import Console

    return Console(stderr=True)


def print_line(text: str) -> None:
    """Print `text` as it is: paths and names may hold brackets, and a long line is not broken.

    What does not print is escaped.
    """
    from rich.console import Console

    Console().print(_whole(text), markup=False, highlight=False, soft_wrap=True)


def _whole(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


# Of a verdict, by its tone.
_COLOURS = {"good": "green", "doubt": "yellow", "bad": "red", "plain": ""}


def print_table(table: Table) -> None:
    """Print a table as its columns declare it, texts as they are: names may hold brackets.

    `tables.fit` says what becomes of one that is wider than the terminal.
    """
    from rich.console import Console
    from rich.table import Column
    from rich.table import Table as Printed
    from rich.text import Text

    from trt_workbench.console.tables import fit
    from trt_workbench.report.tables import NONE
    from trt_workbench.report.verdict import tone

    columns = [
        Column(Text(one.heading), justify="right" if numeric else "left", overflow="crop" if one.long else "fold")
        for one, numeric in zip(table.columns("terminal"), table.numeric("terminal"), strict=True)
    ]
    printed = Printed(*columns, title=Text(_whole(table.title)) if table.title else None)
    for row in table.cells("terminal"):
        printed.add_row(
            *(
                Text(" ").join(
                    Text("-" if one.text == NONE else _whole(one.fold or one.text), _COLOURS[tone(one.verdict)])
                    for one in each
                )
                for each in row
            )
        )
    console = Console()
    console.print(fit(printed, console), crop=False)


def print_parts(parts: Parts) -> None:
    """Print tables as their columns declare them, and lines as they are; what is empty is left out."""
    for part in [one for one in parts if one]:
        if isinstance(part, str):
            print_line(part)
        else:
            print_table(part)


def print_found(document: Any, shown: Callable[[Any], Parts], *, as_json: bool) -> None:
    """Print a document that `--json` asks for, else what people see of it."""
    if as_json:
        print_json(document)
    else:
        print_parts(shown(document))


def print_run(directory: Path) -> None:
    """Print where a run directory is, and its report if it has one."""
    print_line(f"Run directory: {directory}")
    if (directory / "report.html").is_file():
        print_line(f"Report: {directory / 'report.html'}")


def note(text: str) -> None:
    """Print `text` as a note on stderr."""
    say(f"note: {text}")


def say(text: str) -> None:
    """Print `text` on stderr as it is. What does not print is escaped."""
    sys.stderr.write(_whole(worded(text)) + "\n")  # rich, imported for a note, takes longer than to open a plan


def say_if_allowed(*, allow_unverified: bool) -> None:
    """Say first of all that `--allow-unverified` was given."""
    if allow_unverified:
        say("--allow-unverified: TensorRT engines are accepted even if they are wrong or not verified.")


# What a command would print, where Python called it.
_taken: ContextVar[list[Any] | None] = ContextVar("taken", default=None)


@contextmanager
def documents_taken() -> Iterator[list[Any]]:
    """Take the documents that commands of this block, in this thread, would print."""
    token = _taken.set([])
    try:
        yield cast("list[Any]", _taken.get())
    finally:
        _taken.reset(token)


def print_json(document: Any) -> None:
    """Print `document` as the one JSON document of a command run with --json."""
    if (taken := _taken.get()) is not None:
        taken.append(document)
        return
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
