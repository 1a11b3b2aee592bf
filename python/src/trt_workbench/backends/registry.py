"""The table of backends: a name and where its class is. A module is imported when its backend is first asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions, checked_array
from trt_workbench.backends.unused_gpu import other_environment, unused_gpu
from trt_workbench.core.errors import BackendFailure, ComponentMissing, UsageProblem, WorkbenchError, did_you_mean
from trt_workbench.core.extensions import BACKENDS, Guard, Protocol, extensions, load_extension, package_of, required
from trt_workbench.core.input_files import checkpoint_problem
from trt_workbench.core.launcher import task
from trt_workbench.model.sniff import PLAN_SUFFIXES

AUTO = "auto"
# What results are compared with where nothing else is asked for: it takes nearly every operator and needs no device.
REFERENCE = "ort-cpu"
# What executes TensorRT's plans.
ENGINES = "trt"

_SERVED = "serving"
# Where each is: a module and its class, or the plug-in that has it, an entry point.
_BACKENDS = {
    ENGINES: "trt.backend:TrtBackend",
    "ort-trt": "ort.trt:OrtTrtBackend",
    "ort-rtx": "rtx",
    "ort-cuda": "ort.cuda:OrtCudaBackend",
    "ort-cpu": "ort.cpu:OrtCpuBackend",
    "torch": "torch.backend:TorchBackend",
    "torch-compile": "torch.backend:TorchCompileBackend",
    "v2": _SERVED,
    "openai": _SERVED,
}
_OWN = [name for name, place in _BACKENDS.items() if ":" in place]

# What `auto` chooses from, best first, by the kind of file: backends that load it at once. Building an engine or
# compiling takes minutes, and a default must not start that.
_AUTO = {
    ".onnx": ("ort-cuda", "ort-cpu"),
    **dict.fromkeys(PLAN_SUFFIXES, (ENGINES,)),
}

# Options of a backend that a comparison of several cannot take.
_NOT_COMPARED = {
    "precision": "the comparison sets the precision",
    "config": "the precision is part of the comparison, and a settings file may set it",
    "force": "all steps use the same engine, built once",
}


def backend_names() -> tuple[str, ...]:
    """Return the names of all backends, our own first."""
    return tuple(dict.fromkeys((*_BACKENDS, *extensions(BACKENDS, _OWN))))


def gpu_in_use(
    backend: str, options: Mapping[str, Any], provenance: Mapping[str, Any] = MappingProxyType({})
) -> int | None:
    """Return CUDA's number of the GPU that a session uses, or by its options will use.

    None for one on the processor: the card is idle, and its clocks, memory and energy are not the session's.

    Args:
        backend: that loads the session.
        options: of the backend; they name the GPU as 1 or "cuda:1", else it is 0.
        provenance: of the session, once it is loaded.
    """
    devices, told = get_backend(backend).devices, provenance.get("device", options.get("device"))
    on_processor = provenance.get("providers") == ["CPUExecutionProvider"] or (told == "cpu" and "cpu" in devices)
    if devices == ("cpu",) or on_processor:
        return None
    named = re.fullmatch(r"(?:cuda:)?(\d+)", str(options.get("device_id", options.get("device", 0))))
    return int(named[1]) if named else 0


def default_backends() -> tuple[str, ...]:
    """Return the backends of a comparison that names none: those on a GPU, and the reference.

    What needs a GPU is there for speed, and the reference gives the score where no other runtime can.
    """
    there = {*_OWN, *extensions(BACKENDS, _OWN)}
    known = (name for name in backend_names() if name in there)
    return (*(name for name in known if get_backend(name).devices == ("cuda",)), REFERENCE)


def model_suffixes() -> tuple[str, ...]:
    """Return the suffixes of the files for which `auto` chooses a backend."""
    return tuple(_AUTO)


def load_reference(model: Path, options: SessionOptions | None = None, name: str = REFERENCE) -> Session:
    """Return a session whose results others are compared with: of the graph as it is, in the digits of fp32.

    Raises:
        UsageProblem: the model cannot be loaded.
        ComponentMissing: the backend cannot serve here.
    """
    backend, asked = require_backend(name, model.suffix), options or SessionOptions()
    return backend.load(model, replace(asked, exact=True, extra={**backend.as_reference, **asked.extra}))


def get_backend(name: str) -> Backend:
    """Return the backend called `name`. Its traits can be read without its runtime.

    Raises:
        UsageProblem: there is no such backend; the message names near matches.
        ComponentMissing: the package that it comes from cannot be used.
    """
    try:
        return _load(name)
    except ComponentMissing as problem:
        raise Availability(ok=False, reason=str(problem)).error(name) from problem


def runs_plans(name: str) -> bool:
    """Say whether the backend called `name` executes TensorRT engines; "auto" never chooses one that builds.

    Raises:
        UsageProblem: there is no such backend.
    """
    return name != AUTO and get_backend(name).plans


def check_builds(count: int | None, names: Collection[str]) -> None:
    """Raise UsageProblem where several builds are requested and no backend builds engines; or one is unknown."""
    if count and not any(map(runs_plans, names)):
        listed = ", ".join(sorted(set(names)))
        raise UsageProblem(f"--builds is for backends that build engines, such as trt, not for {listed}.")


def availability(name: str) -> Availability:
    """Say whether the backend called `name` can serve here.

    Raises:
        UsageProblem: there is no such backend.
    """
    check_name(name)
    try:
        return _asked(name)
    except WorkbenchError as error:  # another package must not take `trtw backends` down
        return Availability(ok=False, reason=str(error))


def availabilities() -> dict[str, Availability]:
    """Ask every backend whether it can serve here."""
    return {name: availability(name) for name in backend_names()}


def require_backend(name: str, suffix: str = ".onnx", say: Callable[[str], None] | None = None) -> Backend:
    """Return the backend called `name`; for "auto" the first one that loads files with `suffix` at once and can serve.

    `auto` never starts an engine build or a compilation: those are asked for by name.

    Args:
        name: of the backend, or "auto".
        suffix: of the file to load.
        say: called with a sentence about a GPU that `auto` leaves unused, or that has an environment of its own.

    Raises:
        UsageProblem: there is no such backend, or `auto` knows none for the suffix.
        ComponentMissing: it cannot serve here; the message says why and what fixes it.
    """
    if name == AUTO:
        return _first_that_serves(suffix, say or (lambda _: None))
    backend = get_backend(name)
    if backend.file_kinds and suffix not in backend.file_kinds:
        raise UsageProblem(
            f"Backend {name} loads {', '.join(backend.file_kinds)} files, not {suffix or 'one without a suffix'}"
            f"{'; leave out --backend, and one that does is chosen' if suffix in _AUTO else ''}."
        )
    found = _asked(name)
    on_cpu = "cpu" in backend.devices or suffix not in get_backend(REFERENCE).file_kinds
    if not found.ok and not on_cpu and availability(REFERENCE).ok:
        advice = (
            f"{found.fix} Or choose {REFERENCE}, which runs the model as exported on the CPU: --backend {REFERENCE}."
        )
        found = replace(found, fix=advice.lstrip())
    found.required(name)
    return backend


def check_name(name: str, also: Sequence[str] = (), *, of_models: bool = False) -> None:
    """Raise UsageProblem unless a backend is called `name`.

    Args:
        name: to check.
        also: other names that are taken, which the message lists, too.
        of_models: whether the message lists, of our backends, those alone that load models without a server.
    """
    if name not in _BACKENDS and name not in (known := backend_names()):
        fits = [*also, *(one for one in known if not (of_models and _BACKENDS.get(one) == _SERVED))]
        raise UsageProblem(f"There is no backend called {name!r}; {did_you_mean(name, fits)}")


def check_backend_options(
    asked: Collection[str], given: Mapping[str, Mapping[str, Any]], option: str = "--option"
) -> None:
    """Check what a command that compares backends was given for them; needs neither a model nor a runtime.

    Args:
        asked: names of the backends that are run.
        given: options by backend.
        option: of the command, that gave them.

    Raises:
        UsageProblem: a backend is not run, or does not take an option.
    """
    for name, options in given.items():
        if name not in asked:
            raise UsageProblem(f"{option} names {name}, which does not run; there are: {', '.join(asked)}.")
        for key in options:
            if key in _NOT_COMPARED:
                raise UsageProblem(f"{option} {name}:{key} cannot be given here: {_NOT_COMPARED[key]}.")
        get_backend(name).check_options(SessionOptions(extra=options))


def _asked(name: str) -> Availability:
    return _load(name).availability()


def _load(name: str) -> Backend:
    module, _, own = _BACKENDS.get(name, "").partition(":")
    if own:
        backend: Backend = getattr(import_module(f"trt_workbench.backends.{module}"), own)()
    else:
        check_name(name, also=[AUTO] if name != AUTO else [], of_models=True)
        entry = required(BACKENDS, name, module, _OWN)
        kind: type[Backend] = load_extension(entry, Backend, name)  # type: ignore[type-abstract]
        if name in _BACKENDS:
            backend = kind()
        else:
            guard = Guard(f"Backend {name}", package_of(entry), _PROTOCOL)
            backend = guard.guarded(guard.call(kind))
    backend.checked = _check_names
    return backend


def _check_names(backend: Backend, session: Session) -> None:
    """Raise BackendFailure where a session lacks inputs or outputs of its ONNX file, or has others."""
    if not (model := session.model) or model.suffix != ".onnx" or backend.state:
        return
    from trt_workbench.model.opened import Model

    facts = Model.open(model).facts
    for what in ("inputs", "outputs"):
        own, known = ({one.name for one in getattr(of, what)} for of in (session, facts))
        if own != known:
            raise BackendFailure(
                f"Backend {backend.name} loaded {what} {sorted(own)}, but the model has {sorted(known)}: {model}"
            )


def _check_outputs(session: Session, found: Mapping[str, Any]) -> None:
    """Raise ValueError where an array is missing or, unless `verify` judges that itself, not what its spec says."""
    names = {spec.name for spec in session.outputs}
    if names != found.keys():
        raise ValueError(f"it returned the outputs {sorted(map(str, found))}, but the model has {sorted(names)}")
    if session.refuses_misfits:
        for spec in session.outputs:
            checked_array(spec, found[spec.name], "Output", "returns", ValueError)


# What a backend of another package returns.
_PROTOCOL: Protocol = {
    "availability": Availability,
    **dict.fromkeys(("load", "_load"), Session),
    **dict.fromkeys(("run", "_infer", "run_images"), _check_outputs),
}


def _first_that_serves(suffix: str, say: Callable[[str], None]) -> Backend:
    if problem := checkpoint_problem(Path(f"MODEL{suffix}")):
        raise UsageProblem(problem)
    if suffix not in _AUTO:
        raise UsageProblem(
            f"Pass a {', '.join(_AUTO)} file, not {suffix or 'one without a suffix'}; for another kind of file name "
            "its backend with --backend."
        )
    refused: dict[str, Availability] = {}
    for name in _AUTO[suffix]:
        found = availability(name)
        if found.ok:
            better = next(iter(refused.values()), None)
            if note := unused_gpu(better.reason, better.fix) if better else other_environment():
                say(note)
            return get_backend(name)
        refused[name] = found
    reasons = [f"{name}: {found.reason} {found.fix}".rstrip() for name, found in refused.items()]
    raise ComponentMissing(
        f"No backend can load {suffix} files here ({'; '.join(reasons)}). {task('doctor')} shows what is missing."
    )
