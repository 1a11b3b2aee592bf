"""Files that are written, and folders that are replaced, whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import read_text, refuse_special
from trt_workbench.core.interruptible import deferred_interrupts
from trt_workbench.core.workspace import cache_root, output_root

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
REPLACED = ".replaced"
"""What the name of a folder ends with that is being replaced where the file system cannot exchange two."""
_SIGNATURE = "# Written by trt-workbench, which replaces this file while its text has the SHA-256 "
# Names of files may be no text: what UTF-8 cannot hold is escaped.
_scratch: set[Path] = set()
_TEXT: Any = {"encoding": "utf-8", "errors": "backslashreplace"}


def refuse_foreign(path: Path, is_ours: Callable[[Path], object]) -> None:
    """Refuse to overwrite what none of our commands wrote; called before the work begins.

    Args:
        path: the file to write, one that the user named or one beside it.
        is_ours: whether a file that is there shows that we wrote it; where it cannot be read as such, it does not.

    Raises:
        UsageProblem: it is another's.
        OSError: it is a folder, a pipe, a device or a socket.
    """
    refuse_special(path)
    if not os.path.lexists(path):
        return
    try:
        ours = is_ours(path)
    except (UsageProblem, OSError, ValueError):
        ours = False
    if not ours:
        raise foreign(path)


def foreign(path: Path) -> UsageProblem:
    """Return the error for refusing to overwrite another's file."""
    return UsageProblem(
        "The output path holds something that trt-workbench did not write, or that was changed since. It was not "
        f"overwritten. Choose another name, or move it: {path}"
    )


@contextlib.contextmanager
def atomic_writer(path: Path, mode: str = "wb", *, over: Callable[[Path], object] | None = None) -> Iterator[IO[Any]]:
    """Open a temporary file next to `path` that takes its name when the block ends without an error.

    Args:
        path: the file to write; its folder is made if it is absent.
        mode: "wb" for bytes or "w" for UTF-8 text.
        over: as `refuse_foreign`'s `is_ours`, of a file that lies elsewhere: in a run directory, a cache or a folder
            that is being filled all files are ours. By default no other is.

    Yields:
        The open file. An exception inside the block removes it and leaves an older `path` as it was.

    Raises:
        UsageProblem: the file that is there is another's.
        OSError: the folder is not writable or the disk is full.
    """
    refuse_foreign(path, lambda there: _in_our_folder(there) or (over and over(there)))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:200]}.{os.urandom(4).hex()}.tmp")
    with _named(path):
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(handle, mode, **({} if "b" in mode else _TEXT)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with _named(path):
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def anything(_path: Path) -> bool:
    """Take any file for ours; for callers that have checked it."""
    return True


def _in_our_folder(path: Path) -> bool:
    """Whether a file lies where only we write: in a run directory, one that is being filled, a cache or `tmp/`."""
    roots = set(_scratch)
    for root in (cache_root, output_root):
        with contextlib.suppress(UsageProblem):
            roots.add(root())
    return any(
        folder in roots or folder.suffix == ".staging" or (folder / "run.json").is_file()
        for folder in path.absolute().parents
    )


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let an error name the requested file, not the temporary one."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def write_bytes(path: Path, data: bytes | memoryview, *, over: Callable[[Path], object] | None = None) -> None:
    """Write `data` to `path`, whole or not at all, as `atomic_writer` does."""
    with atomic_writer(path, over=over) as file:
        file.write(data)


def write_text(path: Path, text: str, *, over: Callable[[Path], object] | None = None) -> None:
    """Write UTF-8 `text` to `path`, whole or not at all, as `atomic_writer` does."""
    with atomic_writer(path, "w", over=over) as file:
        file.write(text)


def signed(text: str) -> str:
    """Return the text of a script or settings file with a last line that says whether the user changed it since."""
    return f"{text}{_SIGNATURE}{hashlib.sha256(text.encode(**_TEXT)).hexdigest()}\n"


def is_signed(path: Path) -> bool:
    """Whether a file is as `signed` made its text. Raises OSError or ValueError where it cannot be read as text."""
    text, signature, _ = (whole := read_text(path)).rpartition(_SIGNATURE)
    return bool(signature) and signed(text) == whole


@contextlib.contextmanager
def scratch_folder(prefix: str = "trtw-", parent: Path | None = None) -> Iterator[Path]:
    """Make a folder that is removed with all it holds when the block ends.

    `tempfile.TemporaryDirectory` leaves it where an interrupt comes while it is made or removed.

    Args:
        prefix: of its name.
        parent: where it is made; TMPDIR by default.

    Raises:
        OSError: it cannot be made.
    """
    made: list[Path] = []
    try:
        with deferred_interrupts():
            made.append(Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).absolute())
            _scratch.update(made)
        yield made[0]
    finally:
        with deferred_interrupts():
            for folder in made:
                shutil.rmtree(folder, ignore_errors=True)
                _scratch.discard(folder)


def replace_folder(new: Path, place: Path) -> None:
    """Put the folder `new` in the place of the folder `place`, which is removed with all it holds.

    A killed process leaves either one there, whole. Where the file system cannot exchange two
    folders, the older one has for a moment the name of `new` with `REPLACED` behind it.

    Args:
        new: on the file system of `place`.
        place: a folder, no link to one.

    Raises:
        OSError: the folder above is not writable.
    """
    if _exchange(new, place):
        shutil.rmtree(new, ignore_errors=True)
        return
    aside = new.with_name(new.name + REPLACED)
    place.rename(aside)
    try:
        new.rename(place)
    except OSError:
        aside.rename(place)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap the names of two folders in one step; False where that is not available. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = (_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other))
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(*names, _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV):
        return False
    raise OSError(code, os.strerror(code), str(other))


class NameLock:
    """A lock on a name that no process waits for. Its file exists only while it is held."""

    def __init__(self, path: Path) -> None:
        """Prepare the lock; `path` is its file, in a folder that exists when it is acquired."""
        self._path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take the lock; False if another holder has it. The system gives it back with the process.

        Raises:
            OSError: the file cannot be made.
        """
        with deferred_interrupts():  # between making the file and keeping it, nothing would remove it
            while True:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(file)
                    return False
                # the holder before may have removed the file after we opened it: then it locks nothing any more
                if os.fstat(file).st_nlink:
                    self._file = file
                    return True
                os.close(file)

    def release(self) -> None:
        """Give the lock back, if it is held, and remove its file."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def other_case(path: Path) -> str:
    """Return the part of a message about an absent path that names what is there in another letter case, else ""."""
    found = _in_any_case(path)
    return f", but {found} is there (letter case counts)" if found and found != path else ""


def require_there(what: str, path: Path) -> None:
    """Raise UsageProblem unless a path exists; it names what is there in another letter case."""
    if not path.exists():
        raise UsageProblem(f"The {what} does not exist{other_case(path)}: {path}")


def require_file(what: str, path: Path) -> None:
    """Raise UsageProblem unless a path is a file."""
    require_there(what, path)
    if not path.is_file():
        raise UsageProblem(f"The {what} {'is a folder' if path.is_dir() else 'is not a file'}: {path}")


def _in_any_case(path: Path) -> Path | None:
    if path.exists() or path.parent == path:
        return path if path.exists() else None
    folder = _in_any_case(path.parent)
    inside = folder.iterdir() if folder and folder.is_dir() else ()
    return next((one for one in inside if one.name.casefold() == path.name.casefold()), None)


def path_within(folder: Path, name: str) -> Path:
    """Return the path of the file that `name` names in `folder` or below; links there may lead elsewhere.

    Raises:
        ValueError: the name leads out of the folder by itself, as absolute ones and those with ".." do.
    """
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or {"", "."}.issuperset(parts):
        raise ValueError(f"the name {name!r} points outside its folder")
    return folder / name
