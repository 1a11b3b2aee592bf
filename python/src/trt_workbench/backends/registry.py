"""The table of backends: a name and where its class is. A module is imported when its backend is first asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import NamedTuple

from trt_workbench.backends.base import Availability, Backend
from trt_workbench.errors import ComponentMissing, UsageProblem, did_you_mean
from trt_workbench.system.launcher import task
from trt_workbench.system.unused_gpu import other_environment, unused_gpu

AUTO = "auto"


class _Entry(NamedTuple):
    """Where a backend's class is."""

    module: str
    attribute: str

    @property
    def is_part(self) -> bool:
        """Whether this version of the package has the module."""
        return importlib.util.find_spec(self.module) is not None


_BACKENDS = {
    "trt": _Entry("trt_workbench.backends.trt", "TrtBackend"),
    "ort-trt": _Entry("trt_workbench.backends.ort_trt", "OrtTrtBackend"),
    "ort-cuda": _Entry("trt_workbench.backends.ort_cuda", "OrtCudaBackend"),
    "ort-cpu": _Entry("trt_workbench.backends.ort_cpu", "OrtCpuBackend"),
    "torch": _Entry("trt_workbench.backends.torch", "TorchBackend"),
    "torch-compile": _Entry("trt_workbench.backends.torch", "TorchCompileBackend"),
}

# What `auto` chooses from, best first, by the kind of file: backends that load it at once. Building an engine or
# compiling takes minutes, and a default must not start that.
_AUTO = {
    ".onnx": ("ort-cuda", "ort-cpu"),
    ".plan": ("trt",),
    ".engine": ("trt",),
}

_NOT_PART = Availability(ok=False, reason="It is not part of this version.", mend="Use another backend.")


def backend_names() -> tuple[str, ...]:
    """Return the names of all backends."""
    return tuple(_BACKENDS)


def get_backend(name: str) -> Backend:
    """Return the backend called `name`.

    Raises:
        UsageProblem: there is no such backend; the message names near matches.
        ComponentMissing: this version does not have it.
    """
    entry = _entry(name)
    if not entry.is_part:
        raise _cannot_serve(name, _NOT_PART)
    backend: Backend = getattr(importlib.import_module(entry.module), entry.attribute)()
    return backend


def availability(name: str) -> Availability:
    """Say whether the backend called `name` can serve here.

    Raises:
        UsageProblem: there is no such backend.
    """
    return get_backend(name).availability() if _entry(name).is_part else _NOT_PART


def availabilities() -> dict[str, Availability]:
    """Ask every backend whether it can serve here."""
    return {name: availability(name) for name in _BACKENDS}


def require_backend(name: str, suffix: str = ".onnx", say: Callable[[str], None] | None = None) -> Backend:
    """Return the backend called `name`; for "auto" the first one that loads files with `suffix` at once and can serve.

    `auto` never starts an engine build or a compilation: those are asked for by name.

    Args:
        name: of the backend, or "auto".
        suffix: of the file to load.
        say: called with a sentence about a GPU that `auto` leaves unused, or that has an environment of its own.

    Raises:
        UsageProblem: there is no such backend, or `auto` knows none for the suffix.
        ComponentMissing: it cannot serve here; the message says why and what mends it.
    """
    if name == AUTO:
        return _first_that_serves(suffix, say or (lambda _: None))
    found = availability(name)
    if not found.ok:
        raise _cannot_serve(name, found)
    return get_backend(name)


def check_name(name: str, also: Sequence[str] = ()) -> None:
    """Raise UsageProblem, which tells the names, those of `also` too, unless a backend is called `name`."""
    if name not in _BACKENDS:
        raise UsageProblem(f"There is no backend called {name!r}; {did_you_mean(name, [*also, *_BACKENDS])}")


def _entry(name: str) -> _Entry:
    check_name(name, also=[AUTO])
    return _BACKENDS[name]


def _first_that_serves(suffix: str, say: Callable[[str], None]) -> Backend:
    if suffix not in _AUTO:
        kind = f"a {suffix} file" if suffix else "a file without a suffix"
        raise UsageProblem(
            f"No backend is chosen by itself for {kind}, only for {', '.join(_AUTO)}; name one with --backend."
        )
    refused: dict[str, Availability] = {}
    for name in _AUTO[suffix]:
        found = availability(name)
        if found.ok:
            better = refused.get("ort-cuda")
            if note := unused_gpu(better.reason, better.mend) if better else other_environment():
                say(note)
            return get_backend(name)
        refused[name] = found
    reasons = [f"{name}: {found.reason} {found.mend}".rstrip() for name, found in refused.items()]
    raise ComponentMissing(
        f"No backend can load {suffix} files here ({'; '.join(reasons)}). {task('doctor')} shows what is missing."
    )


def _cannot_serve(name: str, found: Availability) -> ComponentMissing:
    return ComponentMissing(f"Backend {name} cannot serve here: {found.reason} {found.mend}".rstrip())
