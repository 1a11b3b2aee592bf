"""The table of backends: a name and where its class is. A module is imported when its backend is first asked for."""

from __future__ import annotations

import difflib
import importlib

from trt_workbench.backends.base import Availability, Backend
from trt_workbench.errors import ComponentMissing, UsageProblem

AUTO = "auto"

# In the order in which `auto` prefers them.
_BACKENDS = {
    "ort-cpu": "trt_workbench.backends.ort_cpu:OrtCpuBackend",
}


def backend_names() -> tuple[str, ...]:
    """Return the names of all backends, in the order in which `auto` prefers them."""
    return tuple(_BACKENDS)


def get_backend(name: str) -> Backend:
    """Return the backend called `name`.

    Raises:
        UsageProblem: there is no such backend; the message names near matches.
    """
    if name not in _BACKENDS:
        near = difflib.get_close_matches(name, [*_BACKENDS, AUTO], n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join([AUTO, *_BACKENDS])}."
        msg = f"There is no backend called {name!r}; {hint}"
        raise UsageProblem(msg)
    module, _, attribute = _BACKENDS[name].partition(":")
    backend: Backend = getattr(importlib.import_module(module), attribute)()
    return backend


def availabilities() -> dict[str, Availability]:
    """Ask every backend whether it can serve here."""
    return {name: get_backend(name).availability() for name in _BACKENDS}


def require_backend(name: str) -> Backend:
    """Return the backend called `name`, or for "auto" the first one that can serve here.

    Raises:
        UsageProblem: there is no such backend.
        ComponentMissing: it cannot serve here; the message says why and what mends it.
    """
    if name != AUTO:
        backend = get_backend(name)
        found = backend.availability()
        if not found.ok:
            msg = f"Backend {name} cannot serve here: {found.reason} {found.mend}".rstrip()
            raise ComponentMissing(msg)
        return backend
    reasons = []
    for candidate in map(get_backend, _BACKENDS):
        found = candidate.availability()
        if found.ok:
            return candidate
        reasons.append(f"{candidate.name}: {found.reason}")
    msg = f"No backend can serve here ({'; '.join(reasons)}). Run `trtw doctor` to see what is missing."
    raise ComponentMissing(msg)
