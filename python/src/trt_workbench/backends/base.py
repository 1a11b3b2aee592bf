"""The Backend and Session protocols: what every way of executing a model offers.

The public methods guard state and check inputs against the model; a backend fills in what is abstract:

    class Doubling(Backend):
        name, file_kinds = "doubling", (".onnx",)

        def availability(self):
            return Availability(ok=True)

        def _load(self, model, options):
            return DoublingSession()

    class DoublingSession(Session):
        inputs = (TensorSpec("x", "float32", (None, 3)),)
        outputs = (TensorSpec("y", "float32", (None, 3)),)
        metadata, provenance = {}, {"device": "cpu"}

        def _infer(self, inputs):
            return {"y": 2 * inputs["x"]}

        def _close(self):
            pass

An entry point of the group `trt_workbench.backends` makes it known to every command: `doubling = "my_module:Doubling"`.
docs/extending.md has one that loads models, and lists what a backend may offer beyond this.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from trt_workbench.core.errors import ComponentMissing, UsageProblem, did_you_mean
from trt_workbench.core.files import require_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trt_workbench.engine.loading import LoadedEngine
    from trt_workbench.engine.profiles import Profile
    from trt_workbench.model.facts import ModelTensor
    from trt_workbench.model.precision import Precision


@dataclass(frozen=True)
class TensorSpec:
    """Name, numpy dtype name and shape of one input or output; a dynamic dimension is None.

    `below` is the length of the shortest table of the model that an input's values index; None where none is known.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    below: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, tensor: ModelTensor) -> Self:
        """Return an input or output of an ONNX file: names of its dimensions are forgotten."""
        dims = tuple(dim if isinstance(dim, int) else None for dim in tensor.shape or ())
        return cls(tensor.name, tensor.dtype, dims, tensor.below)

    def __str__(self) -> str:
        """Return the form used in messages, such as `images float32 [?, 3, 416, 416]`."""
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"{self.name} {self.dtype} [{dims}]"


@dataclass(frozen=True)
class Availability:
    """Whether a backend can serve on this machine; if not, why, and the command that fixes it."""

    ok: bool
    reason: str = ""
    fix: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def required(self, backend: str) -> Self:
        """Return this, the availability of `backend`. Raises ComponentMissing where it cannot serve."""
        if not self.ok:
            raise self.error(backend)
        return self

    def error(self, backend: str) -> ComponentMissing:
        """Return the error that says why `backend` cannot serve, and what fixes it."""
        return ComponentMissing(f"Backend {backend} is not available: {self.reason} {self.fix}".rstrip())


@dataclass(frozen=True)
class SessionOptions:
    """What a session is asked for, alike for every backend.

    Attributes:
        threads: CPU threads the session may use in all; None for the processors this process may run on.
        concurrency: how many `run` calls the caller will have in flight at once.
        precision: "fp32", "fp16", … as the backend defines it; a backend that cannot honour it raises.
        tf32: whether fp32 matrix products may use TF32, the same knob on every runtime.
        exact: whether results keep fp32 accuracy where a backend would simulate types of 16 bits, as those of a
            reference do. Other backends ignore it.
        polls: whether idle CPU threads of ONNX Runtime poll for their next call, as they do by default; not where
            something else is computed between calls: on two shared cores, while images were loaded, YOLOX-Nano
            made 12 runs/s with polling and 22 without.
        extra: options of one backend only, checked by that backend.
        shapes: that the caller will use; a backend that builds for ranges of shapes builds for these, unless its own
            options name others. The rest ignore them.
        note: called with what the user should know, such as a long build that starts.
    """

    threads: int | None = None
    concurrency: int = 1
    precision: str = "fp32"
    tf32: bool = False
    exact: bool = False
    polls: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)
    shapes: Profile | None = None
    note: Callable[[str], None] | None = None

    def say(self, text: str) -> None:
        """Pass `text` to the listener."""
        if self.note:
            self.note(text)


class Session(abc.ABC):
    """A loaded model on one backend: named arrays in, named arrays out. A context manager.

    `run` may be called from as many threads at once as `concurrency` says.

    Attributes:
        inputs: the model's inputs in its own order.
        outputs: the model's outputs in its own order.
        metadata: the model's own key-value metadata (such as `names`, `stride`, `imgsz`).
        provenance: what really executes the model (providers, engine hash, thread counts), for the record.
        concurrency: how many `run` calls may be in flight at once.
        model: the file that was loaded.
        asked: the precision that it was asked for.
        refuses_misfits: whether an array that is not what `outputs` says, from a backend of another package, is an
            error; `verify` judges such arrays itself.
        loaded: the TensorRT engine that it executes; None for another runtime.
        largest_batch: the most rows of a call; None where that is not known, or follows from `inputs` or `loaded`.
        shares_batches: whether calls in flight at once may become one batch, as on a server.
        any_layout: whether `_infer` takes arrays of any strides; others are copied first.
        variants: options by a name, under which another session has to give the same outputs; `verify` compares them.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metadata: Mapping[str, str]
    provenance: Mapping[str, Any]
    concurrency: int = 1
    model: Path | None = None
    asked: str = "fp32"
    refuses_misfits: bool = True
    loaded: LoadedEngine | None = None
    largest_batch: int | None = None
    any_layout: ClassVar[bool] = False
    shares_batches: bool = False
    variants: Mapping[str, Mapping[str, Any]] = {}
    _closed: bool = False
    _precision_ran: Mapping[str, Any] | None = None

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Execute the model once.

        Args:
            inputs: one array for every input, with its exact dtype and a shape that fits; any memory layout.

        Returns:
            One array for every output, owned by the caller.

        Raises:
            UsageProblem: a name, dtype or shape does not fit the model, or the session is closed.
            DeviceFailure: the device failed while executing.
        """
        return self._infer(self._checked(inputs))

    def run_at(self, inputs: Mapping[str, NDArray[Any]], name: str, index: int) -> NDArray[Any]:
        """Execute the model once as `run` does, for one index of the second dimension of one output.

        A session on a device leaves the rest there: to move the logits of 1024 tokens and 50,000 words takes longer
        than the model.

        Args:
            inputs: as `run` takes them.
            name: of the output.
            index: from 0, or from the end where it is negative.

        Returns:
            What numpy calls `output[:, index]`, owned by the caller.

        Raises:
            UsageProblem: as `run`; there is no such output, or no such index in its second dimension.
            DeviceFailure: the device failed while executing.
        """
        checked = self._checked(inputs)
        names = [spec.name for spec in self.outputs]
        if name not in names:
            raise UsageProblem(f"The model has no output {name!r}; {did_you_mean(name, names)}")
        return self._infer_at(checked, name, index)

    def _checked(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        if self._closed:
            raise closed()
        return check_inputs(self.inputs, inputs, any_layout=self.any_layout)

    def close(self) -> None:
        """Release what the session holds. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._close()

    def __enter__(self) -> Self:
        """Return the session itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        self.close()

    def record(self) -> dict[str, Any]:
        """Return `provenance` with what the session computes in, as JSON values.

        `precision_ran` is read from the graph or engine that really runs, at the first call of this method; None where
        neither can be read.
        """
        if self._precision_ran is None:
            found = self._precision()
            simulated = {"simulated": True} if found and found.simulated else {}
            self._precision_ran = {**simulated, "precision_ran": found.document() if found else None}
        return {**self.provenance, **self._precision_ran}

    def memory_bytes(self) -> dict[str, int]:
        """Return what the session holds on its device, by purpose; empty where that is unknown."""
        return {}

    @property
    def simulated(self) -> bool:
        """Whether its format is simulated by the runtime, so that its times say nothing about the format."""
        return bool(self.record().get("simulated"))

    def require_native(self) -> None:
        """Raise UsageProblem where its times would say nothing about the format that it is said to compute in."""
        if self.simulated:
            ran = self.record()["precision_ran"]["text"]
            raise UsageProblem(
                f"It computes in {ran}: with the format's values, in wider floats. Its time would say nothing about "
                "the format; use a runtime that supports it."
            )

    def _precision(self) -> Precision | None:
        """Read what the session computes in, from what really runs; None where it cannot be read."""
        return None

    @abc.abstractmethod
    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Execute checked inputs, C-contiguous unless `any_layout`."""

    def _infer_at(self, inputs: dict[str, NDArray[Any]], name: str, index: int) -> NDArray[Any]:
        """Execute them for one index of an existing output; for sessions that would move more than that."""
        whole = self._infer(inputs)[name]
        check_index(name, whole.shape, index)
        return whole[:, index].copy()

    @abc.abstractmethod
    def _close(self) -> None:
        """Release resources; called once."""


def closed() -> UsageProblem:
    """Return the error for a call on a session that was closed, perhaps by another thread."""
    return UsageProblem("The session is closed; load the model again.")


def check_index(name: str, shape: Sequence[int], index: int) -> None:
    """Raise UsageProblem where an output of this shape has no second dimension or no such index in it."""
    length = shape[1] if len(shape) > 1 else 0
    if not -length <= index < length:
        raise UsageProblem(f"Output {name} of shape {list(shape)} has no index {index} in its second dimension.")


class Backend(abc.ABC):
    """One way to execute a model. Stateless: `load` makes the session. What only some can do is in `abilities.py`.

    The attributes are what the rest of the program uses; no other module checks a backend's name. Reading them imports
    no runtime.

    Attributes:
        name: the stable name used on the command line and in records.
        file_kinds: suffixes of the files it loads.
        precisions: that it can be asked for, "fp32" being a model as it was exported; empty where `check_precision` or
            the load decides.
        devices: "cpu", "cuda" or both: what sessions can compute on.
        plans: whether it executes TensorRT engines through the native core, and takes the fields of `BuildSettings` and
            `RunnerChoice` as options.
        ranges: whether it builds for ranges of shapes: for `SessionOptions.shapes`, or for batches of 1 to the option
            `max_batch`.
        times_kernels: whether loading chooses kernels by timing them, so that nothing else should use the GPU then.
        state: whether the option `state` keeps tensors on its device between calls.
        served: whether models are on a server, whose URL the option `url` is.
        gpu_option: the option that chooses the GPU by its index, for messages; None where there is none.
        as_reference: options with which others are compared with it: those that leave the graph as it is.
        checked: called with each session of `load`. That of a backend from the registry raises BackendFailure where a
            session's inputs and outputs are not those of the file.
    """

    name: ClassVar[str]
    file_kinds: ClassVar[tuple[str, ...]]
    precisions: ClassVar[tuple[str, ...]] = ()
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    plans: ClassVar[bool] = False
    ranges: ClassVar[bool] = False
    times_kernels: ClassVar[bool] = False
    state: ClassVar[bool] = False
    served: ClassVar[bool] = False
    gpu_option: ClassVar[str | None] = None
    as_reference: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    checked: Callable[[Backend, Session], None] | None = None

    @abc.abstractmethod
    def availability(self) -> Availability:
        """Say whether this backend can serve here. Never raises; may import the runtime."""

    def check_precision(self, precision: str) -> None:
        """Raise UsageProblem for a precision that this backend serves with no model; needs neither model nor device."""
        if self.precisions and precision not in self.precisions:
            if self.precisions == ("fp32",):
                raise UsageProblem(
                    f"Backend {self.name} runs a model only in the precision of its export, not in {precision!r}; "
                    "omit the precision, or pass a file that has it."
                )
            *others, last = self.precisions
            raise UsageProblem(f"Backend {self.name} runs {', '.join(others)} or {last}, not {precision!r}.")

    def check_options(self, options: SessionOptions) -> None:
        """Raise UsageProblem for options that this backend serves with no model; needs neither runtime nor device."""
        self.check_precision(options.precision)

    def device_option(self, index: int) -> dict[str, Any]:
        """Return the option that a command's `--device` becomes: none where the backend takes no index by that flag.

        Raises:
            UsageProblem: the index is not the default, 0, and this backend has no GPU or an option of its own for it.
        """
        if index and self.served:
            raise UsageProblem(f"Backend {self.name} leaves the device to the server; omit --device.")
        if index and "cuda" not in self.devices:
            raise UsageProblem(
                f"Backend {self.name} computes only on the CPU and has no CUDA device {index}; omit --device."
            )
        if index and not self.plans:
            instead = f"pass --option {self.gpu_option.format(index)}" if self.gpu_option else "omit it"
            raise UsageProblem(f"--device applies to TensorRT engines, which {self.name} does not use; {instead}.")
        return {"device": index} if self.plans else {}

    def url_option(self, url: str | None) -> dict[str, Any]:
        """Return the option that a command's `--url` becomes.

        Raises:
            UsageProblem: there is one, and this backend runs models itself.
        """
        if url is not None and not self.served:
            raise UsageProblem(f"--url names a server, and backend {self.name} runs models itself; use --backend v2.")
        return {} if url is None else {"url": url}

    def load(self, model: Path, options: SessionOptions | None = None) -> Session:
        """Load `model`.

        Raises:
            UsageProblem: the file is absent, truncated or not of a kind this backend loads, or an option is unknown.
            ComponentMissing: the runtime, or a library it needs, is missing.
            DeviceFailure: the device ran out of memory or failed.
        """
        if model.suffix not in self.file_kinds:
            raise UsageProblem(f"Backend {self.name} loads only {' or '.join(self.file_kinds)} files: {model}")
        require_file("model file", model)
        options = options or SessionOptions()
        self.check_precision(options.precision)
        session = self._load(model, options)
        session.model, session.asked = model, options.precision
        if self.checked:
            self.checked(self, session)
        return session

    @abc.abstractmethod
    def _load(self, model: Path, options: SessionOptions) -> Session:
        """Load an existing file of a kind that this backend takes."""


def check_inputs(
    specs: tuple[TensorSpec, ...], inputs: Mapping[str, NDArray[Any]], *, any_layout: bool = False
) -> dict[str, NDArray[Any]]:
    """Return `inputs` in the model's order, in native byte order, and C-contiguous unless they may have any layout.

    Raises:
        UsageProblem: a name is missing or unknown, or a dtype, rank or fixed dimension differs.
    """
    import numpy as np

    expected = {spec.name for spec in specs}
    if expected != inputs.keys():
        missing, unknown = sorted(expected - inputs.keys()), sorted(inputs.keys() - expected)
        raise UsageProblem(
            f"Inputs do not match the model: missing {missing}, unknown {unknown}; it takes {list(map(str, specs))}."
        )
    # not ascontiguousarray: that turns a scalar into a vector
    order: Literal["C", "K"] = "K" if any_layout else "C"
    return {spec.name: np.asarray(checked_array(spec, inputs[spec.name]), order=order) for spec in specs}


# numpy builds a dtype's name on each access, which takes longer than all other checks
_dtype_name = functools.cache(lambda dtype: str(dtype.name))


def checked_array(
    spec: TensorSpec,
    array: NDArray[Any],
    what: str = "Input",
    does: str = "takes",
    error: type[Exception] = UsageProblem,
) -> NDArray[Any]:
    """Return an array that has the dtype of its spec, native byte order and a shape that fits; raise `error` if not."""
    dtype, shape = array.dtype, array.shape
    if not dtype.isnative:
        raise error(f"{what} {spec.name} is in foreign byte order ({dtype.str}); use .astype({spec.dtype!r}).")
    if _dtype_name(dtype) != spec.dtype:
        # an engine of TensorRT before 10 has int32 where its model has int64
        if (what, spec.dtype, dtype.name) == ("Input", "int32", "int64") and (
            not array.size or -(2**31) <= array.min() <= array.max() < 2**31
        ):
            return checked_array(spec, array.astype(spec.dtype), what, does, error)
        raise error(f"{what} {spec.name} is {dtype.name}, the model {does} {spec}; convert it first.")
    fits = shape == spec.shape or (
        len(shape) == len(spec.shape)
        and all(want is None or want == got for want, got in zip(spec.shape, shape, strict=True))
    )
    if not fits:
        raise error(f"{what} {spec.name} has shape {list(array.shape)}, the model {does} {spec}.")
    return array
