"""A TensorRT engine as a session: arrays or images in, arrays out, several calls in flight."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from trt_workbench.backends.base import TensorSpec, check_inputs, closed
from trt_workbench.backends.images import (
    NOTHING,
    FoundBoxes,
    FoundOnDevice,
    Head,
    ImageTransform,
    Pixels,
    Place,
)
from trt_workbench.backends.measuring import Samples, SamplingLimits
from trt_workbench.backends.pooling import PooledState
from trt_workbench.backends.state_session import StateSession
from trt_workbench.backends.trt.choice import RunnerChoice
from trt_workbench.backends.trt.pool import TrtStreamPool, most_rows
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import FORMATS
from trt_workbench.engine import native
from trt_workbench.engine.loading import LoadedEngine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trt_workbench.model.precision import Precision

# Types that numpy lacks: the core's name, which is a format's or of ml_dtypes, to that of the package ml_dtypes.
_EXTENSION_TYPES = {name: one.numpy for one in FORMATS for name in (one.name, one.numpy) if one.lacks_numpy}
# Stands in for the images that a fixed batch lacks; the smallest that there is, as it is uploaded.
_NO_IMAGE = np.zeros((1, 1, 3), np.uint8)


class TrtSession(StateSession):
    """An engine with one execution context, streams and buffers for each call in flight.

    Attributes:
        state_inputs: what feeds back on the device and is no input of a call.
    """

    loaded: LoadedEngine
    any_layout: ClassVar[bool] = True  # the core copies views in pieces, while the device takes them
    variants: Mapping[str, Mapping[str, Any]] = {
        "without a CUDA graph": {"cuda_graph": False},
        "transfers outside of the graph": {"graph_includes_transfers": False},
    }

    def __init__(
        self, loaded: LoadedEngine, choice: RunnerChoice, concurrency: int, conversion: Mapping[str, Any] | None = None
    ) -> None:
        """Make the contexts and buffers.

        Args:
            loaded: the engine.
            choice: how it is run.
            concurrency: calls in flight at once, unless `choice.slots` asks for more.
            conversion: how the model was brought to its precision before it was built, for the record.

        Raises:
            UsageProblem: the choice does not fit the engine.
            DeviceFailure: the device is out of memory or failed.
        """
        engine = loaded.engine
        state = dict(choice.state or {})
        self._settings = {
            "cuda_graph": choice.cuda_graph,
            "spin": choice.spin,
            "graph_includes_transfers": choice.graph_includes_transfers,
            "profile": choice.profile,
            "state": state,
        }
        self.concurrency = choice.slots or concurrency
        with native.translated():
            options = native.require("RunnerOptions")(slots=self.concurrency, **self._settings)
            self._runner = native.require("Runner")(engine, options)
        self._image_batch = native.require("ImageBatch")
        self.inputs = tuple(_spec(tensor) for tensor in engine.inputs if tensor.name not in state.values())
        self.outputs = tuple(_spec(tensor) for tensor in engine.outputs if tensor.name not in state)
        self.state_inputs = tuple(_spec(tensor) for tensor in engine.inputs if tensor.name in state.values())
        self._output_names = [spec.name for spec in self.outputs]
        self._others = {spec.name for spec in self.inputs[1:]}
        self._extension = {spec.name: spec.dtype for spec in self.outputs if spec.dtype in _EXTENSION_TYPES.values()}
        self.metadata = _metadata(loaded)
        self.loaded = loaded
        self._conversion = dict(conversion or {})
        self._graph_status = ""
        self._last_spec: tuple[ImageTransform, Any] | None = None
        self._detector_lock = threading.Lock()
        self._last_detector: tuple[Head, Any] | None = None

    @property
    def provenance(self) -> Mapping[str, Any]:  # type: ignore[override]
        """What executes the model: plan, manifest, TensorRT, GPU, and whether CUDA graphs are in use now."""
        from trt_workbench.core.documents import json_values

        plan, target = self.loaded.plan, self.loaded.target
        return {
            "tensorrt": target.tensorrt_version,
            "tensorrt_headers": target.tensorrt_headers,
            "native": target.native_version,
            "driver": target.driver_version,
            "gpu": target.gpu_name,
            "compute_capability": target.compute_capability,
            "plan": str(plan.path),
            "plan_sha256": plan.sha256,
            "manifest": json_values(plan.manifest),
            **self._conversion,
            "precision": "+".join(plan.manifest.precision) if plan.manifest else "unknown",
            "slots": self.concurrency,
            "cuda_graph": self.graph_status(),
            "spin": self._settings["spin"],
            "notes": list(self.loaded.notes),
        }

    def _precision(self) -> Precision:
        from trt_workbench.engine.inspection import engine_precision
        from trt_workbench.model.low_precision.evidence import is_calibrated

        manifest = self.loaded.plan.manifest
        found = engine_precision(self.loaded.engine, manifest.precision if manifest else ())
        return dataclasses.replace(found, calibrated=is_calibrated(manifest.model.metadata if manifest else {}))

    def new_runner(self, *, timing: bool) -> Any:
        """Return a further runner with one slot and this session's settings; the caller closes it.

        Args:
            timing: whether it measures the device's times of each call.

        Raises:
            DeviceFailure: the device is out of memory or failed.
        """
        with native.translated():
            options = native.require("RunnerOptions")(slots=1, timing=timing, **self._settings)
            return native.require("Runner")(self.loaded.engine, options)

    def graph_status(self) -> str:
        """Return whether CUDA graphs are in use, such as "on: 2 graphs captured", and if not, why."""
        return self._graph_status if self._closed else self._graphs()

    def _graphs(self) -> str:
        return str((self._last_detector[1] if self._last_detector else self._runner).graph_status())

    def memory_bytes(self) -> dict[str, int]:
        """Return the device and pinned memory of all slots by purpose, weights left out."""
        return dict(self._runner.memory_bytes())

    def reset_state(self) -> None:
        """Let state inputs start from zeros again. Raises UsageProblem if a call is in flight."""
        with native.translated():
            self._runner.reset_state()

    def take_state(self, other: Self) -> None:
        """Copy what the other runner's next call would read, as `StateSession` describes."""
        with native.translated():
            self._runner.take_state(other._runner)

    def run_images(
        self, images: Sequence[Pixels], transform: ImageTransform, more: Mapping[str, NDArray[Any]] = NOTHING
    ) -> dict[str, NDArray[Any]]:
        """Letterbox `images` into one batch on the device and execute the model once, as `ImageSession` describes."""
        batch = self._whole(images, more)
        with native.translated():
            outputs = self._runner.run(self._given(batch, transform, more))
        outputs, count = self._typed(outputs), len(images)
        return {name: array[:count] for name, array in outputs.items()} if len(batch) > count else outputs

    def find_boxes(
        self,
        images: Sequence[Pixels],
        transform: ImageTransform,
        head: Head,
        *,
        with_outputs: bool,
        more: Mapping[str, NDArray[Any]] = NOTHING,
    ) -> FoundOnDevice:
        """Execute the model on images and find the boxes in its outputs, as `DetectingSession` describes."""
        batch, count = self._whole(images, more), len(images)
        with native.translated():
            detector, given = self._detector(head), self._given(batch, transform, more)
            boxes, outputs = detector.run(given, outputs=self._output_names if with_outputs else [])
            is_odd = None in boxes[:count]
            if is_odd and not with_outputs:
                _, outputs = detector.run(given, outputs=self._output_names)
        kept = {name: array[:count] for name, array in self._typed(outputs).items()}
        return FoundOnDevice(None if is_odd else [FoundBoxes(*one) for one in boxes[:count]], kept)

    def _whole(self, images: Sequence[Pixels], more: Mapping[str, NDArray[Any]]) -> Sequence[Pixels]:
        """Return the images of a call, filled up to a fixed batch."""
        if self._closed:
            raise closed()
        if len(self.inputs[0].shape) != 4 or self._others != more.keys():
            raise UsageProblem(
                f"Images need a model with one input of four dimensions, not {list(map(str, self.inputs))}."
            )
        fixed, count = self.inputs[0].shape[0], len(images)
        if fixed is not None and count > fixed:
            raise UsageProblem(
                f"The engine takes only batches of {fixed}, not {counted(count, 'image')}; build one with a dynamic "
                "batch."
            )
        return images if fixed is None or fixed == count else [*images, *[_NO_IMAGE] * (fixed - count)]

    def _detector(self, head: Head) -> Any:
        """Return the core's detector for a head; that of the last one is kept."""
        last = self._last_detector  # read once: another head's call may replace it
        if last is not None and last[0] is head:
            return last[1]
        with self._detector_lock:
            last = self._last_detector
            if last is None or last[0] != head:
                names = [tensor.name for tensor in self.loaded.engine.outputs]
                options = native.require("RunnerOptions")(slots=self.concurrency, **self._settings)
                made = native.require("Detector")(self.loaded.engine, head_spec(head, names), options)
                if last is not None:
                    last[1].close()
                last = self._last_detector = (head, made)
            return last[1]

    def measure(self, inputs: Mapping[str, NDArray[Any]], plan: SamplingLimits) -> Samples:
        """Time single calls in C++, from host arrays to host arrays, as `MeasuringSession` describes."""
        with native.translated():
            options = native.require("BenchOptions")(
                iterations=plan.min_iterations,
                duration_s=plan.duration_s,
                warmup_ms=plan.warmup_ms,
            )
            result = self._runner.measure(check_inputs(self.inputs, inputs, any_layout=True), options)
            if self.state_inputs:
                self._runner.reset_state()
        kept = slice(plan.max_iterations)
        split = {"enqueue": result.enqueue_ms, "host_to_device": result.h2d_ms}
        split |= {"compute": result.compute_ms, "device_to_host": result.d2h_ms}
        wall_ms = float(result.end_ms[kept][-1] - result.start_ms[0])
        return Samples(result.end_to_end_ms[kept], wall_ms / 1e3, {name: ms[kept] for name, ms in split.items()})

    def most_rows(self, name: str, shape: Sequence[int], axis: int) -> int | None:
        """Return the most rows of a call, as `PoolingSession` describes."""
        return most_rows(self.loaded.engine, name, shape, axis)

    def stream_pool(
        self,
        state: Sequence[PooledState],
        batch_axes: Mapping[str, int],
        capacity: int,
        buckets: Sequence[int],
        *,
        timing: bool,
    ) -> TrtStreamPool:
        """Return a pool of streams on the device, as `PoolingSession` describes."""
        return TrtStreamPool(
            self.loaded.engine,
            state,
            batch_axes,
            [spec.name for spec in self.outputs if spec.name not in {pair.output for pair in state}],
            self._typed,
            capacity=capacity,
            buckets=buckets,
            cuda_graphs=self._settings["cuda_graph"],
            spin=self._settings["spin"],
            timing=timing,
        )

    def run_on_device(
        self, inputs: Mapping[str, NDArray[Any]], upload: Callable[[NDArray[Any]], Any] | None
    ) -> dict[str, NDArray[Any]]:
        """Execute the model on arrays in device memory, as `DeviceArraySession` describes.

        Inputs whose values are shapes always stay on the host.
        """
        checked = self._checked(inputs)
        with native.translated():
            on_host = {tensor.name for tensor in self.loaded.engine.inputs if tensor.is_shape_tensor}
            given = {k: upload(array) if upload and k not in on_host else array for k, array in checked.items()}
            found = self._runner.run(given, device_outputs=True)
            return self._typed({name: array.numpy() for name, array in found.items()})

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return self._run(inputs)

    def _infer_at(self, inputs: dict[str, NDArray[Any]], name: str, index: int) -> NDArray[Any]:
        return self._run(inputs, outputs=[], at={name: index})[name]

    def _run(self, inputs: dict[str, NDArray[Any]], **selection: Any) -> dict[str, NDArray[Any]]:
        with native.translated():
            outputs = self._runner.run(inputs, **selection)
        return self._typed(outputs)

    def _given(self, batch: Sequence[Pixels], transform: ImageTransform, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a call."""
        images = self._image_batch(batch, self._letterbox_spec(transform))
        return {self.inputs[0].name: images, **more} if more else {self.inputs[0].name: images}

    def _letterbox_spec(self, transform: ImageTransform) -> Any:
        """Return the core's form of `transform`; that of the last one is kept, as a caller seldom changes it."""
        last = self._last_spec  # read once: calls of other threads may replace it
        if last is None or (last[0] is not transform and last[0] != transform):
            values = dataclasses.asdict(transform)
            if values.pop("antialias"):
                raise UsageProblem("The device resizes without antialiasing.")
            del values["crop"]  # which is never without it
            last = self._last_spec = (transform, native.require("LetterboxSpec")(**values))
        return last[1]

    def _typed(self, outputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Give outputs of types that numpy lacks, which arrive as bits, the types of ml_dtypes."""
        if self._extension:
            import ml_dtypes

            for name in self._extension.keys() & outputs.keys():
                outputs[name] = outputs[name].view(getattr(ml_dtypes, self._extension[name]))
        return outputs

    def _close(self) -> None:
        self._graph_status = self._graphs()
        if self._last_detector:
            self._last_detector[1].close()
        self._runner.close()


def head_spec(head: Head, outputs: Sequence[str]) -> Any:
    """Return the core's form of a head, for an engine with outputs of these names."""
    given = {field.name: getattr(head, field.name) for field in dataclasses.fields(head)}
    for name, value in list(given.items()):
        if isinstance(value, Place):
            given[name] = (outputs.index(value.output), value.first, value.item, value.inner)
        elif value is None:
            del given[name]  # as the core has it
    return native.require("HeadSpec")(**given)


def _spec(tensor: Any) -> TensorSpec:
    shape = tuple(None if dim < 0 else int(dim) for dim in tensor.shape)
    return TensorSpec(tensor.name, _EXTENSION_TYPES.get(tensor.dtype, tensor.dtype), shape)


def _metadata(loaded: LoadedEngine) -> dict[str, str]:
    """Return the model's metadata: the manifest's, else that of the header which ultralytics writes before a plan."""
    if loaded.plan.manifest:
        return dict(loaded.plan.manifest.model.metadata)
    try:
        header = json.loads(loaded.engine.metadata or "{}")
    except (json.JSONDecodeError, RecursionError):
        return {}
    return {str(key): str(value) for key, value in header.items()} if isinstance(header, dict) else {}
