"""Variables of the environment that end a process, or make a library do something unrequested."""

from __future__ import annotations

import os
import re

from trt_workbench.core.workspace import cache_root

VARIABLE = "OMP_WAIT_POLICY"


def let_idle_threads_sleep() -> None:
    """Make OpenMP's threads sleep while they wait, unless the user says otherwise; call it before PyTorch is imported.

    By default they spin. Where another process wants the same processors, all then wait for spinning threads:
    on two busy processors a forward pass of 50 ms took 1.4 s. ONNX Runtime's threads do not spin here either.
    """
    os.environ.setdefault(VARIABLE, "PASSIVE")


def wait_policy() -> str:
    """Return what is set for this process, for the record."""
    return os.environ.get(VARIABLE, "default")


# OpenCV takes some forty variables apart when it is loaded, and ends the process (SIGABRT) where it cannot; others name
# libraries to load and options of FFmpeg. These are of use here.
_OPENCV_NUMBERS = ("OPENCV_IO_MAX_IMAGE_PIXELS", "OPENCV_IO_MAX_IMAGE_WIDTH", "OPENCV_IO_MAX_IMAGE_HEIGHT")


def settle_variables() -> str:
    """Remove OpenCV's variables from the environment but for limits of images, and sizes that no terminal has.

    Rich takes COLUMNS=² for a number. Pydantic has to look for no plug-ins: it would read the entry points of every
    installed package.

    Returns:
        What is wrong with a limit, as a message; "" where nothing is.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    for name in ("COLUMNS", "LINES"):
        if not re.fullmatch("[1-9][0-9]{0,4}", os.environ.get(name, "1")):
            del os.environ[name]
    for name in [name for name in os.environ if name.startswith("OPENCV_") and name not in _OPENCV_NUMBERS]:
        del os.environ[name]
    for name in _OPENCV_NUMBERS:
        value = os.environ.get(name, "1")
        if not re.fullmatch("[1-9][0-9]{0,17}", value):
            return f"The variable {name} must be a whole number above 0, not {value!r:.40}; unset it or set a number."
    return ""


def keep_compiled_code() -> None:
    """Let PyTorch keep the code that it compiles among our caches, unless `$TORCHINDUCTOR_CACHE_DIR` names a folder.

    Called before PyTorch runs a model: its parts choose the folder when they are imported, by default one in TMPDIR
    that another user can make first, and what lies there is loaded and executed.

    Raises:
        UsageProblem: as `cache_root`.
        OSError: the folder cannot be made.
    """
    if not os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        folder = cache_root() / "torchinductor"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
