"""What a backend of another package answers, checked, before the rest of the program uses it.

Checks raise WrongAnswer, which `core/extensions.py` makes a sentence with the backend's name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import Availability, Backend, Session, TensorSpec, checked_array
from trt_workbench.backends.images import FoundOnDevice
from trt_workbench.backends.reproduction import Reproduction
from trt_workbench.core.extensions import Answer, Guard, WrongAnswer

if TYPE_CHECKING:
    from numpy.typing import NDArray


def wrong_trait(kind: type[Backend]) -> str | None:
    """Return what is wrong with the attributes of a backend's class; None if nothing is."""
    texts = {name: getattr(kind, name, None) for name in ("file_kinds", "precisions", "devices")}
    for name, found in texts.items():
        if not isinstance(found, tuple) or not _are_texts(found):
            return f"its {name} must be a tuple of texts, not {found!r}"
    if not kind.file_kinds or not kind.devices or not set(kind.devices) <= {"cpu", "cuda"}:
        return f"its file_kinds are {kind.file_kinds} and its devices {kind.devices}; both need at least one entry"
    switches = {name: getattr(kind, name) for name in ("plans", "times_kernels", "state", "language", "served")}
    if odd := {name: found for name, found in switches.items() if not isinstance(found, bool)}:
        return f"{next(iter(odd))} must be True or False, not {next(iter(odd.values()))!r}"
    if kind.gpu_option is not None and not isinstance(kind.gpu_option, str):
        return f"its gpu_option must be a text, not {kind.gpu_option!r}"
    return None


def _are_texts(found: Iterable[Any]) -> bool:
    return all(isinstance(one, str) for one in found)


def of_kind(kind: type[Any] | tuple[type[Any], ...]) -> Answer:
    """Return the check that an answer is of a type, or of one of several."""
    names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))

    def check(_: Guard, __: Any, found: Any) -> Any:
        if not isinstance(found, kind):
            raise _no(names, found)
        return found

    return check


def _no(wanted: str, found: Any) -> WrongAnswer:
    return WrongAnswer(f"it returned {_a(found)}, not {wanted}")


def _a(found: Any) -> str:
    return "None" if found is None else f"a {type(found).__name__}"


def _availability(_: Guard, __: Any, found: Any) -> Availability:
    if not isinstance(found, Availability):
        raise _no("an Availability", found)
    texts = (found.reason, found.fix, *found.versions, *found.versions.values())
    if not isinstance(found.ok, bool) or not _are_texts(texts):
        raise WrongAnswer("it returned an Availability whose fields are not True or False, and texts")
    return found


def _session(guard: Guard, _: Any, found: Any) -> Session:
    """Return the session itself, with its calls guarded as well."""
    if not isinstance(found, Session):
        raise _no("a Session", found)
    for name in ("inputs", "outputs"):
        _check_specs(name, getattr(found, name, None))
    metadata = getattr(found, "metadata", None)
    if not isinstance(metadata, Mapping) or not _are_texts([*metadata, *metadata.values()]):
        raise WrongAnswer("the session's metadata must map texts to texts")
    provenance = getattr(found, "provenance", None)
    try:
        json.dumps({**provenance}, allow_nan=False)  # type: ignore[dict-item]
    except (TypeError, ValueError) as error:
        raise WrongAnswer(f"the session's provenance cannot be written as JSON ({error})") from error
    if not isinstance(found.concurrency, int) or found.concurrency < 1:
        raise WrongAnswer(f"the session's concurrency is {found.concurrency!r}")
    guarded: Session = guard.guarded(found)
    return guarded


def _check_specs(what: str, specs: Any) -> None:
    import numpy as np

    if not isinstance(specs, Sequence) or not all(isinstance(one, TensorSpec) for one in specs):
        raise WrongAnswer(f"the session's {what} must be a tuple of TensorSpecs")
    names = [one.name for one in specs]
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise WrongAnswer(f"the names of the session's {what} are not unique: {names}")
    for one in specs:
        if not isinstance(one.shape, tuple) or not all(dim is None or _is_size(dim) for dim in one.shape):
            raise WrongAnswer(f"the shape of {one.name} in the session's {what} is {one.shape!r}")
        try:
            np.dtype(str(one.dtype))  # that of None is float64
        except TypeError as error:
            raise WrongAnswer(f"{one.name} in the session's {what} has no dtype of numpy: {one.dtype!r}") from error


def _is_size(dim: Any) -> bool:
    return isinstance(dim, int) and not isinstance(dim, bool) and dim >= 0


def _outputs(_: Guard, session: Session, found: Any) -> dict[str, NDArray[Any]]:
    if not isinstance(found, Mapping):
        raise _no("arrays by name", found)
    names = {spec.name for spec in session.outputs}
    if names != found.keys():
        raise WrongAnswer(
            f"outputs are missing or unknown: it returned {sorted(map(str, found))}, but the model has {sorted(names)}"
        )
    arrays = {spec.name: _array(found[spec.name]) for spec in session.outputs}
    if session.refuses_misfits:
        for spec in session.outputs:
            checked_array(spec, arrays[spec.name], "Output", "returns", WrongAnswer)
    return arrays


def _array(found: Any) -> NDArray[Any]:
    import numpy as np

    if isinstance(found, np.generic):  # what numpy makes of an array without dimensions
        found = np.asarray(found)
    if not isinstance(found, np.ndarray) or isinstance(found, np.ma.MaskedArray):
        raise _no("an array", found)
    return np.asarray(found)  # a matrix has axes of its own


def _samples(_: Guard, __: Any, found: Any) -> Any:
    import numpy as np

    from trt_workbench.backends.measuring import Samples

    if not isinstance(found, Samples):
        raise _no("Samples", found)
    latency = np.asarray(found.latency_ms)
    columns = [latency, *map(np.asarray, found.split_ms.values())]
    sound = all(one.shape == (latency.size,) and np.isfinite(one).all() and (one >= 0).all() for one in columns)
    if not (sound and latency.size and np.isfinite(found.wall_s) and found.wall_s > 0):
        raise WrongAnswer("it did not return one time in milliseconds per call")
    return found


def _guarded(guard: Guard, _: Any, found: Any) -> Any:
    if found is None:
        raise _no("an object", found)
    return guard.guarded(found)


def _precision(_: Guard, __: Any, found: Any) -> Any:
    from trt_workbench.model.precision import Precision

    if found is not None and not isinstance(found, Precision):
        raise _no("a Precision", found)
    return found


def _profiled(_: Guard, __: Any, found: Any) -> Any:
    from trt_workbench.backends.profiling import Operation, Profiled

    if not isinstance(found, Profiled):
        raise _no("a Profiled", found)
    if not all(isinstance(one, Operation) for one in found.operations):
        raise WrongAnswer("it returned invalid operations")
    return found


def _partitions(_: Guard, __: Any, found: Any) -> Any:
    from trt_workbench.model.partitions import Partitions

    if not isinstance(found, Partitions):
        raise _no("Partitions", found)
    return found


ANSWERS: Mapping[str, Callable[[Guard, Any, Any], Any]] = {
    "availability": _availability,
    **dict.fromkeys(("device_option", "url_option"), of_kind(dict)),
    **dict.fromkeys(("load", "_load"), _session),
    **dict.fromkeys(("run", "_infer", "run_images"), _outputs),
    **dict.fromkeys(("run_at", "_infer_at"), lambda _, __, found: _array(found)),
    "find_boxes": of_kind(FoundOnDevice),
    "record": of_kind(dict),
    "_precision": _precision,
    "measure": _samples,
    "memory_bytes": of_kind(dict),
    "most_rows": of_kind((int, type(None))),
    "stream_pool": _guarded,
    "profile": _profiled,
    "partitions": _partitions,
    "reproduction": of_kind((Reproduction, type(None))),
    "load_language": _guarded,
}
