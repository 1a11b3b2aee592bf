"""Running a case in a forked process of its own, and judging how it ended."""

import gc
import itertools
import json
import os
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from tests.fork_server import import_package
from tests.fuzz.cases import TENSORS, Case, make_case
from tests.fuzz.media import is_script
from tests.fuzz.seeds import DOUBLES
from tests.fuzz.servers import TOKEN
from tests.fuzz.surroundings import enter
from tests.fuzz.tensors import hand_over

_MEMORY = 6 * 2**30  # bytes of address space beyond those of the process that forks
_FILE_SIZE = 2**29
# Folders of a case's own, where a command may write.
_OWN = ("out", "tmp", "home", "extern", "temp")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 130
_TAIL = 4000


def preload(*, torch: bool) -> None:
    """Import once what every forked process would import anew, and put the double of the core in its place.

    Args:
        torch: PyTorch too, with which a fork takes ten times as long.
    """
    sys.path.insert(0, str(DOUBLES))
    import cv2
    import scipy.optimize  # noqa: F401 - imported for their sake

    cv2.setNumThreads(1)
    if torch:
        import torch as pytorch
        import transformers  # noqa: F401

        pytorch.set_num_threads(1)
    import_package(torch=torch)
    gc.freeze()


def run_case(seed: int, number: int, seeds: Path, folder: Path, limit_s: float) -> tuple[Case, dict[str, Any]]:
    """Make and run one input below `folder`, which is emptied first; return it and what became of it.

    The record has `problems`, in words; none if all is well.
    """
    place = _empty(folder)
    case = make_case(seed, number, seeds, place)
    before = _listing(folder, place, case.words)
    start = time.monotonic()
    code, timed_out, sent = _run(case, place, folder / "stdout", folder / "stderr", limit_s)
    said = (folder / "stderr").read_bytes()
    problems = []
    if timed_out:
        problems.append(f"hang: more than {limit_s} s")
    elif sent and code in (_INTERRUPTED, 128 + sent, -sent):  # the last before the command has its handlers
        pass
    elif code < 0:
        problems.append(f"crash: {signal.Signals(-code).name}")
    elif code not in range(5):
        problems.append(f"exit code {code}")
    elif sent and code and code != (usual := _undisturbed(seed, number, seeds, folder.with_name("again"), limit_s)):
        problems.append(f"exit code {code} after {signal.Signals(sent).name}, {usual} without it")
    if code == 0 and any(is_script(place / word) for word in case.words if "\0" not in word):
        problems.append("followed a script to another file")
    if code == 0 and sent and not _is_complete(place / "out"):
        problems.append(f"exit code 0 after {signal.Signals(sent).name}, and the work is not complete")
    if left := [path.name for name in ("temp", "out") for path in (place / name).iterdir() if _is_left(path)]:
        problems.append(f"left behind: {left[:3]}")
    if b"Traceback" in said or b"Traceback" in (folder / "stdout").read_bytes():
        problems.append("traceback")
    if b"\x1b" in said or b"\0" in said:
        problems.append("control characters on stderr")
    problems += [f"not sound: {one}" for one in _unsound(place / "out")]
    if any(TOKEN.encode() in one.read_bytes() for one in _files(folder / "stdout", folder / "stderr", place / "out")):
        problems.append("the token is told")
    if len(said) > 40_000:
        problems.append(f"{len(said)} bytes on stderr")
    after = _listing(folder, place, case.words)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if changed := [path for path in changed if not _expected(path, after)]:
        problems.append(f"files outside: {changed[:3]}")
    return case, {
        "number": number,
        "words": case.words,
        "mutations": case.done,
        "code": code,
        "signal": sent,
        "seconds": round(time.monotonic() - start, 2),
        "problems": problems,
        "stderr": said[-_TAIL:].decode("utf-8", "backslashreplace"),
    }


def _empty(folder: Path) -> Path:
    """Empty a folder, and return the one for a case deep below: a path that climbs out of it still ends inside."""
    shutil.rmtree(folder, ignore_errors=True)
    place = folder / "a" / "b" / "case"
    for name in _OWN:
        (place / name).mkdir(parents=True)
    return place


def _undisturbed(seed: int, number: int, seeds: Path, folder: Path, limit_s: float) -> int:
    """Return the exit code of an input that no signal meets: a signal may not be taken for anything else."""
    place = _empty(folder)
    case = make_case(seed, number, seeds, place)
    case.around.signal = None
    return _run(case, place, folder / "stdout", folder / "stderr", limit_s)[0]


def _files(*places: Path) -> Iterator[Path]:
    for place in places:
        yield from (one for one in (place, *place.rglob("*")) if one.is_file() and not one.is_symlink())


def _unsound(out: Path) -> Iterator[str]:
    """Yield the scripts and documents among the outputs that their languages do not read, and what a name has run."""
    for path in _files(out):
        try:
            if path.suffix in (".sh", ".sbatch"):
                subprocess.run(["bash", "-n", path], check=True, capture_output=True)
            elif path.suffix == ".py":
                compile(path.read_bytes(), path, "exec")
            elif path.suffix == ".yaml":
                yaml.safe_load(path.read_bytes())
        except (subprocess.CalledProcessError, SyntaxError, ValueError, yaml.YAMLError) as error:
            yield f"{path.name}: {error}"
        if path.name == "pwned":
            yield "a name was run"


def _is_left(path: Path) -> bool:
    """Whether a command has left what it made on its way: all in TMPDIR, and hidden names among its outputs."""
    return path.parent.name == "temp" or path.name.startswith(".")


def _is_complete(out: Path) -> bool:
    """Whether the outputs that are there are whole; of a command that writes none there is nothing to say."""
    run = out / "run" / "run.json"
    return not run.is_file() or json.loads(run.read_bytes())["status"] == "complete"


def _run(case: Case, place: Path, stdout: Path, stderr: Path, limit_s: float) -> tuple[int, bool, int]:
    """Return the exit code, negative for a signal, whether the time ran out, and the signal that was sent to it."""
    sent = 0
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until the command begins
    child = os.fork()
    if child == 0:
        try:
            _become(case, place, stdout, stderr)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(99)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    handle = os.pidfd_open(child)
    try:
        if case.around.signal and not select.select([handle], [], [], case.around.signal[1])[0]:
            sent = int(case.around.signal[0])
            signal.pidfd_send_signal(handle, sent)
        ended = select.select([handle], [], [], limit_s)[0]
        if not ended:
            os.killpg(child, signal.SIGKILL)
    finally:
        os.close(handle)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status), not ended, sent


def _become(case: Case, place: Path, stdout: Path, stderr: Path) -> None:
    """Run the command in this process, as its console script would, and end it."""
    os.setpgid(0, 0)
    os.chdir(place)
    for number, path in ((1, stdout), (2, stderr)):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(handle, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # the runner's own are of no use to the command
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_SIZE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ |= {
        "TRTW_TMP": str(place / "tmp"),
        "TRTW_ROOT": str(place),
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "temp"),
        "COLUMNS": "100",
        "TRTW_SERVER_TOKEN": TOKEN,
    }
    enter(case.around.folder, place)
    if case.around.variables:
        _begin_anew(case)
    sys.argv = ["trtw", *case.words]
    from trt_workbench.main import main

    if case.words[0] == TENSORS:
        main = partial(hand_over, Path(case.words[1]), case.words[2])
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # before the first line of `main` or after its last
        code = _INTERRUPTED
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    # as the interpreter does at its end: threads are waited for, what was registered is called
    import atexit
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _begin_anew(case: Case) -> None:
    """Go on in an interpreter that has imported nothing, with the variables of the case."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(DOUBLES), os.environ.get("PYTHONPATH", "")])}
    for name, value in case.around.variables.items():
        environment.pop(name, None)
        environment |= {name: value} if value is not None else {}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    program = "from trt_workbench.main import main; main()"
    words = [word.encode("utf-8", "replace" if _is_untypable(word) else "surrogateescape") for word in case.words]
    os.execve(sys.executable, [sys.executable, "-c", program, *words], environment)


def _is_untypable(word: str) -> bool:
    """Return whether a word holds half a character, which no terminal hands over."""
    return any("\ud800" <= character < "\udc80" or "\udcff" < character <= "\udfff" for character in word)


def _listing(folder: Path, place: Path, words: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return size and time of every file below `folder` but for those that a command, `words`, may write."""
    # a mutated name of an output is still the output that was asked for
    pairs = [(flag, os.path.normpath(place / word)) for flag, word in itertools.pairwise(words) if word]
    asked = [path + end for flag, path in pairs if flag in ("--output", "-o") for end in ("", ".json")]
    own = {str(place / name) for name in _OWN} | {str(folder / name) for name in ("stdout", "stderr")}
    own |= {path for path in asked if not place.is_relative_to(path)}
    passed = own | {str(path) for one in asked for path in Path(one).parents}
    found: dict[str, tuple[int, int]] = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if str(Path(parent) / name) not in own]
        for name in (*files, *folders):
            path = Path(parent) / name
            if str(path) in passed:
                continue
            status = path.lstat()
            regular = stat.S_ISREG(status.st_mode)
            key = str(path.relative_to(folder)).encode("utf-8", "backslashreplace").decode()
            found[key] = (status.st_size, status.st_mtime_ns) if regular else (0, 0)
    return found


def _expected(path: str, after: Mapping[str, object]) -> bool:
    """Whether a command writes this beside its inputs on purpose: reports into run directories, timings into caches."""
    # a timing cache, which settings may put anywhere, has a lock beside it
    if path.endswith(".lock") or any(f"{path}.lock" == one or _leads(path, one) for one in after):
        return True
    name = Path(path).name
    in_run = "/runs/" in path
    written = name.startswith(("report.", "history.", "plots", "gallery")) or "/plots/" in path or "/gallery/" in path
    return (in_run and written) or name == "cache.timing"


def _leads(folder: str, path: str) -> bool:
    return path.startswith(f"{folder}/") and path.endswith(".lock")


def write_json(path: Path, document: Any) -> None:
    """Write a record; names in it may be no text."""
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
