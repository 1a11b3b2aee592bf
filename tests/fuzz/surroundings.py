"""What surrounds a command: variables, the folder that it stands in, and signals at random times."""

import ctypes
import os
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, Signals

from tests.fuzz.mutations import Rng

FOLDERS = ("removed", "proc", "read-only", "outside")
_SIGNALS = (SIGINT, SIGTERM, SIGHUP)
_PATHS = ("", "relative", "/nonexistent", "/dev/null", "/proc/1", "/etc/passwd", "x" * 300, "a\nb", None)
_NUMBERS = ("", "x", "0", "-1", "1", "²", "9" * 30, "1e3")
_VARIABLES: dict[str, tuple[str | None, ...]] = {
    "OPENCV_IO_MAX_IMAGE_PIXELS": _NUMBERS,
    "OPENCV_IO_MAX_IMAGE_WIDTH": _NUMBERS,
    "OPENCV_FFMPEG_CAPTURE_OPTIONS": ("x", "protocol_whitelist;file,http", ";;;|"),
    "MATPLOTLIBRC": (*_PATHS, "pipe", "coco/images/a.png"),
    "MPLBACKEND": ("tkagg", "module://evil", "x"),
    "MPLCONFIGDIR": _PATHS,
    "TMPDIR": ("temp", ".", "", "temp/none"),
    "HOME": _PATHS,
    "XDG_CACHE_HOME": _PATHS,
    "XDG_CONFIG_HOME": _PATHS,
    "TRTW_TMP": ("/etc/passwd", "/dev/null", "/proc/1", "tmp", "tmp/none"),
    "TRTW_ROOT": ("/nonexistent", "/dev/null", "."),
    "INIT_CWD": _PATHS,
    "TENSORRT_HOME": _PATHS,
    "COLUMNS": _NUMBERS,
    "TERM": ("dumb", "x", ""),
    "LC_ALL": ("C", "xx_YY.ZZ", "POSIX"),
    "PYTHONIOENCODING": ("ascii", "latin-1:strict"),
    "PYTHONINTMAXSTRDIGITS": ("640",),
    "PYTHONOPTIMIZE": ("2",),
    "OMP_NUM_THREADS": _NUMBERS,
    "CUDA_VISIBLE_DEVICES": ("", "x", "-1"),
    "TZ": ("Nowhere/X",),
}


@dataclass
class Around:
    """What surrounds a command.

    Attributes:
        variables: set, or taken away where they are None; those of OpenCV and matplotlib are read at their import, so
            the command gets a process that has imported nothing.
        folder: one of `FOLDERS` to stand in; "" for that of the inputs.
        signal: to send, and after how many seconds.
    """

    variables: dict[str, str | None] = field(default_factory=dict)
    folder: str = ""
    signal: tuple[Signals, float] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing of these."""
        return self == Around()


def choose(rng: Rng) -> Around:
    """Return what surrounds an input: mostly nothing."""
    kind = rng.random()
    if kind < 0.06:
        names = rng.sample(list(_VARIABLES), rng.choice((1, 1, 2)))
        return Around(variables={name: rng.choice(_VARIABLES[name]) for name in names})
    if kind < 0.11:
        return Around(folder=rng.choice(FOLDERS))
    if kind < 0.18:
        return Around(signal=(rng.choice(_SIGNALS), rng.choice((0.0, 0.02, 0.1, 0.3, 1.0)) * 2 * rng.random()))
    return Around()


def lay_out(place: Path, rng: Rng) -> None:
    """Put files where libraries look for their settings: a pipe would be waited for."""
    (place / "home" / ".config" / "matplotlib").mkdir(parents=True)
    os.mkfifo(place / "pipe")
    for path in (place / "home" / ".config" / "matplotlib" / "matplotlibrc", place / "matplotlibrc"):
        if rng.random() < 0.5:
            os.mkfifo(path)
        else:
            path.write_bytes(b"backend: module://evil\n\xff\xfe")


def absolute(words: list[str], place: Path) -> list[str]:
    """Return the words of a command for another folder, with the paths of its files whole."""
    made = []
    for word in words:
        name, equals, path = word.rpartition("=")
        is_ours = path.startswith("out/") or (path and "\0" not in path and os.path.lexists(place / path))
        made.append(f"{name}{equals}{place / path}" if is_ours else word)
    return made


def enter(kind: str, place: Path) -> None:
    """Go to a folder of a kind, in the process of the command."""
    if kind == "removed":
        (place / "gone").mkdir()
        os.chdir(place / "gone")
        (place / "gone").rmdir()
    elif kind == "proc":
        os.chdir("/proc")
    elif kind == "read-only":
        for folder in (place, place / "out"):
            folder.chmod(0o555)
        obey_permissions()
    if kind in ("outside", "read-only"):  # as an installed package that no repository is around
        from trt_workbench.core import workspace

        workspace.__file__ = "/nowhere/workspace.py"
        for name in ("TRTW_TMP", "TRTW_ROOT"):
            os.environ.pop(name, None)
        os.environ["XDG_CACHE_HOME"] = str(place / "home" / "cache")


def obey_permissions() -> None:
    """Give up what lets root write where nobody may: all capabilities (Linux: capset, version 3)."""
    if os.geteuid() == 0:
        header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None, use_errno=True).syscall(126 if os.uname().machine == "x86_64" else 91, header, nothing):
            raise OSError(ctypes.get_errno(), "capset")
