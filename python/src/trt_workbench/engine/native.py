"""The native core: imported when it is first needed, its errors turned into the workbench's own.

No other module imports `trt_workbench_native`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

from trt_workbench.core.errors import ComponentMissing, WorkbenchError, error_kind
from trt_workbench.core.launcher import task
from trt_workbench.core.start import reached
from trt_workbench.engine.tensorrt import find_library, library_dir, setup_advice

MODULE = "trt_workbench_native"
_early: dict[str, float] = {}
CUDA = "Install the CUDA toolkit (cuda_runtime_api.h, libcudart_static.a, nvcc)."


def build_advice() -> str:
    """Return the sentence that names the command which builds the native core."""
    return f"Build it: {task('build-native')}."


def is_installed() -> bool:
    """Whether the native core can be found, without importing it."""
    return importlib.util.find_spec(MODULE) is not None


@functools.cache
def native() -> Any:
    """Return the native module.

    Raises:
        ComponentMissing: it is not installed, or its library cannot be opened.
    """
    try:
        return importlib.import_module(MODULE)
    except ModuleNotFoundError as error:
        raise ComponentMissing(f"The native core ({MODULE}) is not installed. {build_advice()}") from error
    except ImportError as error:
        raise ComponentMissing(f"The native core ({MODULE}) cannot be opened ({error}). {build_advice()}") from error


def require(name: str) -> Any:
    """Return the attribute `name` of the native module.

    Raises:
        ComponentMissing: this build of the native core lacks it: it was built without CUDA or TensorRT's headers.
    """
    module = native()
    if not hasattr(module, name):
        # without CUDA no header of TensorRT is of use
        if not module.build_info().get("cuda"):
            msg = f"The native core was built without CUDA and has no {name}. {CUDA} Then: {build_advice()}"
        else:
            lacks = f"The native core was built without TensorRT's headers and has no {name}."
            msg = f"{lacks} {setup_advice()} Then: {build_advice()}"
        raise ComponentMissing(msg)
    return getattr(module, name)


class _Translated:
    """A class, as a generator costs a call of an engine a microsecond."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Translate."""
        if isinstance(error, Exception) and (problem := translation(error)):
            raise problem from error


_TRANSLATED = _Translated()


def translated() -> AbstractContextManager[None]:
    """Turn the native core's errors into the workbench's, with the same words.

    Raises:
        UsageProblem, ComponentMissing, DeviceFailure, CheckFailed: as the native core raised it.
    """
    return _TRANSLATED


def translation(error: Exception) -> WorkbenchError | None:
    """Return the workbench's error for one of the native core's, which has its name; None for any other."""
    # by name: the core's classes exist only where the module does
    for base in type(error).__mro__:
        if base.__module__.split(".")[0] == MODULE and (kind := error_kind(base.__name__)):
            return kind(str(error))
    return None


def tensorrt_status() -> dict[str, Any]:
    """Return what the native core says of TensorRT: `available`, `version`, `headers`, `libnvinfer`, `error`.

    Opens the library where it is found.

    Raises:
        ComponentMissing: the native core is absent.
    """
    folder = library_dir()
    status: dict[str, Any] = native().tensorrt_status(str(folder) if folder else None)
    return status


def tensorrt_problem(status: Mapping[str, Any]) -> tuple[str, str]:
    """Return why TensorRT cannot be used, without a full stop, and the fix.

    Args:
        status: from `tensorrt_status`, where nothing is available.
    """
    reason, headers = str(status["error"]), str(status.get("headers") or "")
    folder = library_dir()
    library = find_library(folder, "libnvinfer") if folder else None
    if library and headers and _major(library.name.removeprefix("libnvinfer.so.")) != _major(headers):
        # to the core the file of its own version is absent
        reason = f"the native core was built for TensorRT {headers} and must be rebuilt for {library}"
        return reason, build_advice()
    if "build-native" in reason:
        return reason.rstrip("."), build_advice()
    # the core's own words end with a fix as well
    return reason.partition(". Run `setup-tensorrt`")[0].rstrip("."), setup_advice()


def _major(version: str) -> str:
    return version.partition(".")[0]


def examine_core() -> tuple[str, str, str]:
    """Return state ("ok", "absent" or "problem"), what was found and the fix, about the native core for `doctor`."""
    try:
        info, status = native().build_info(), tensorrt_status()
    except ComponentMissing as error:
        advice = build_advice()
        return ("problem" if is_installed() else "absent"), str(error).removesuffix(advice).rstrip(), advice
    lacks = [part for part, key in (("CUDA", "cuda"), ("TensorRT headers", "tensorrt_headers")) if not info.get(key)]
    found = f"version {info['version']}, CUDA {info.get('cuda')}, TensorRT headers {info.get('tensorrt_headers')}"
    # without TensorRT set up, nothing is wrong with a core that cannot use it
    state = "problem" if library_dir() else "absent"
    if lacks:
        return state, f"{found}: built without {' and '.join(lacks)}", build_advice()
    if not status["available"]:
        reason, fix = tensorrt_problem(status)
        return state, f"{found}: {reason}.", fix
    return "ok", f"{found}, opened TensorRT {status['version']}", ""


def open_early(device: int) -> None:
    """Have CUDA make its context, then TensorRT's libraries opened, on a thread, while this one goes on importing.

    One thread for both, as CUDA opens libraries, too, while it starts. Nothing is raised: what fails fails again where
    it is needed, and is reported there.

    Args:
        device: index of the CUDA device.
    """
    _early.clear()
    try:
        folder = library_dir()
        calls = {
            "cuda": functools.partial(require("devices"), device),
            "tensorrt": functools.partial(require("load_tensorrt"), str(folder) if folder else None),
        }
    except WorkbenchError:
        return
    # the process waits for this thread: it must not end within CUDA
    threading.Thread(target=_open_early, args=(calls,), name="trtw-open").start()
    reached("core")


def _open_early(calls: dict[str, Callable[[], object]]) -> None:
    """Import nothing: a module that two threads import at once may be seen half made."""
    for name, call in calls.items():
        began = time.perf_counter()
        with suppress(Exception):
            call()
            _early[name] = time.perf_counter() - began


def early_seconds() -> dict[str, float]:
    """Return how long `open_early` took for "cuda" and for "tensorrt", as far as they are open."""
    return dict(_early)


def load_tensorrt() -> dict[str, Any]:
    """Open TensorRT for this process, with its plugins, and return its status.

    Raises:
        ComponentMissing: the native core or TensorRT is absent, or they do not fit each other.
    """
    folder = library_dir()
    with translated():
        status: dict[str, Any] = require("load_tensorrt")(str(folder) if folder else None)
    return status
