"""Types of the running half of the core: engines, runners, benches, letterbox, devices."""

import os
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal, Protocol, Self, TypeAlias, Unpack

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trt_workbench_native._options import BenchOptions, HeadSpec, LetterboxSpec, RunnerOptions, _PlanOptions

class CudaArray(Protocol):
    """An array on a GPU, such as a torch.Tensor, a cupy.ndarray or a DeviceArray."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

class DlpackArray(Protocol):
    """An array that hands itself over by DLPack."""

    def __dlpack__(self, *, stream: int | None = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class CudaStream(Protocol):
    """A stream, such as a torch.cuda.Stream; CuPy's, Numba's and cuda-python's are taken, too."""

    @property
    def cuda_stream(self) -> int: ...

HostArray: TypeAlias = NDArray[Any]
Image: TypeAlias = NDArray[np.uint8]
"""uint8 [H, W, 3] in BGR; rows may lie apart, pixels and channels not."""
InputValue: TypeAlias = HostArray | CudaArray | DlpackArray | ImageBatch
Shape: TypeAlias = tuple[int, ...]
ShapeRange: TypeAlias = tuple[Shape, Shape, Shape]
"""Smallest, best-tuned and largest shape (or values)."""

# ---- devices ---------------------------------------------------------------------------------------
def cuda_status() -> dict[str, Any]:
    """Return `ok`, `device_count`, `driver_version`, `runtime_version` (such as "13.0", None if unknown), `error`.

    `error` is CUDA's name and text of why no GPU can be used, None when ok. Never raises; makes no CUDA context.
    """

def devices(only: int | None = None) -> list[dict[str, Any]]:
    """Return every visible GPU, or the one of this index alone, if there is such.

    Each has `index`, `name`, `compute_capability` ("9.0"), `memory_total_bytes`, `memory_free_bytes`,
    `multiprocessors`, `l2_bytes`, `uuid` ("GPU-…") and `pci_id`. Makes a CUDA context on each.

    Raises:
        DeviceFailure: the driver or a device failed.
    """

def pinned_empty(shape: Sequence[int], dtype: DTypeLike = "uint8") -> NDArray[Any]:
    """Return an array in page-locked host memory, which the GPU reads without a copy on the host.

    Decoders and cameras that write into an array of the caller, such as `cv2.VideoCapture.read`, fill it directly.
    Allocating takes far longer than for ordinary memory: keep the array and use it again. Values are not set.

    Raises:
        UsageProblem: a dimension is negative, the array is too large for any memory, or the dtype holds Python objects
            or nothing.
        DeviceFailure: there is no usable GPU, or so much memory cannot be locked.
    """

def profiler_start() -> None:
    """Begin the range that Nsight records with `--capture-range=cudaProfilerApi`. Raises DeviceFailure."""

def profiler_stop() -> None:
    """End that range. Raises DeviceFailure."""

class DeviceArray:
    """A row-major array in device memory.

    What it holds is complete when Python sees it, unless a call on a stream of the caller's made it: then it is
    complete for what comes later on that stream, `__dlpack__` makes other streams wait for it, and `numpy` the host.
    One that was made within a graph that is being captured holds what the graph's last replay wrote, for which the
    caller waits.

    Also `__cuda_array_interface__` (version 3), for dtypes that numpy has, and DLPack (`torch.from_dlpack(array)`). No
    later call writes its memory while it, or an array that another library made of it, lives: a runner whose last
    outputs are kept takes turns with two more sets of buffers, and hands out copies where more are kept. Once all are
    gone, a call uses the memory again and waits on the device for what was put on the consumer's stream until then:
    the stream that it passed to `__dlpack__`, which has to exist as long as the array, or the default stream for
    `__cuda_array_interface__`. Work on further streams has to be ordered by whoever puts it there.
    """

    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> str:
        """The name that numpy has for it, or "bfloat16", "fp8"."""
    @property
    def nbytes(self) -> int: ...
    @property
    def device(self) -> int:
        """Index of the CUDA device."""
    @property
    def pointer(self) -> int:
        """Device address."""
    def numpy(self) -> HostArray:
        """Copy to the host. bfloat16 comes as uint16, fp8 as uint8: their bits. Raises DeviceFailure."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Hand the array over.

        Args:
            stream: the consumer's stream, as DLPack has it: None or 1 for the legacy default stream, 2 for a thread's
                default stream, -1 for a consumer that orders its reads itself, else a handle.
            max_version: not looked at: what is handed over is DLPack's first layout.
            dl_device: the array's own device, or None.
            copy: not True.

        Raises:
            BufferError: a copy or another device is asked for, or DLPack lacks the dtype.
        """
    def __dlpack_device__(self) -> tuple[int, int]: ...

# ---- letterbox -------------------------------------------------------------------------------------
class LetterboxGeometry:
    """Where an image is in the input, in pixels: x_input = x_source * new_width / source_width + left, y alike."""

    @property
    def source_height(self) -> int: ...
    @property
    def source_width(self) -> int: ...
    @property
    def new_height(self) -> int: ...
    @property
    def new_width(self) -> int: ...
    @property
    def top(self) -> int: ...
    @property
    def left(self) -> int: ...

def letterbox_geometry(height: int, width: int, spec: LetterboxSpec) -> LetterboxGeometry:
    """Return the position of an image of `height` by `width` pixels. Raises UsageProblem for an empty image."""

def letterbox_cpu(image: Image, spec: LetterboxSpec) -> HostArray:
    """Letterbox one image on the CPU: [3, H, W] or [H, W, 3] of the spec's dtype. Raises UsageProblem."""

class ImageBatch:
    """Images of any sizes as the value of one input: letterboxed on the GPU into the runner's own buffer.

    The input's shape is [len(images), 3, H, W], or [len(images), H, W, 3] for "nhwc". The images are copied before
    `run` or `submit` returns, but those in page-locked memory (of `pinned_empty`, or locked by anyone else) are read
    by the GPU from there and must stay as they are until the call is waited for. Images whose pixels do not lie side by
    side, such as mirrored ones, are copied when the batch is made. Needs a core with CUDA kernels; ComponentMissing is
    raised by the run otherwise.
    """

    def __init__(self, images: Sequence[Image], spec: LetterboxSpec) -> None:
        """Raise UsageProblem for an empty list or an image that is not uint8 [H, W, 3]."""
    def __len__(self) -> int: ...
    @property
    def shape(self) -> Shape: ...

class Letterbox:
    """Letterbox on the GPU without a runner; absent from a core that was built without CUDA kernels.

    Holds its staging buffers; one call at a time, others wait.
    """

    def __init__(self, spec: LetterboxSpec, *, device: int = -1) -> None:
        """Raise DeviceFailure without a usable GPU."""
    def __call__(self, images: Sequence[Image]) -> DeviceArray:
        """Return a new array [N, 3, H, W] or [N, H, W, 3] of the spec's dtype. Raises UsageProblem, DeviceFailure."""

# ---- boxes of detectors ----------------------------------------------------------------------------
FoundBoxes: TypeAlias = tuple[HostArray, ...] | None
"""Of an image: boxes float32 [K, 4] (x1, y1, x2, y2 in pixels of the input), scores float32 [K] and classes int64 [K],
best first, further values float32 [K, values] where the spec has some, and masks uint32 where it has planes; None where
its outputs hold what no detector returns, such as NaN, or too many candidates."""

def find_boxes_cpu(spec: HeadSpec, outputs: Sequence[HostArray]) -> list[FoundBoxes]:
    """Find the boxes of each image in a detector's outputs, in the engine's order. Raises UsageProblem."""

def find_boxes_gpu(spec: HeadSpec, outputs: Sequence[HostArray]) -> list[FoundBoxes]:
    """Do the same by the kernels of `Detector`; absent from a core that was built without CUDA kernels."""

# ---- engines ---------------------------------------------------------------------------------------
class EngineTensor:
    """An input or output of an engine."""

    @property
    def name(self) -> str: ...
    @property
    def is_input(self) -> bool: ...
    @property
    def dtype(self) -> str:
        """The name that numpy has for it, else "bfloat16", "fp8", "int4", "fp4"."""
    @property
    def shape(self) -> Shape:
        """-1 for a dimension known at run time only."""
    @property
    def location(self) -> Literal["device", "host"]:
        """Where TensorRT reads or writes it; "host" for shape tensors."""
    @property
    def is_shape_tensor(self) -> bool: ...
    @property
    def is_linear(self) -> bool:
        """Row-major. Of others the runner takes inputs in HWC and HWC8, whose arrays are row-major still."""
    @property
    def format(self) -> str:
        """TensorRT's description of the memory layout."""
    @property
    def aliased_input(self) -> str | None:
        """Of an output that TensorRT (10.15 and later) writes in an input's memory: that input.

        A device array that is given for the input is updated in place. State that such a pair keeps takes one buffer.
        """
    @property
    def profiles(self) -> tuple[ShapeRange, ...]:
        """Of an input: the shapes that each optimisation profile allows. Of an output: empty."""
    @property
    def values(self) -> tuple[ShapeRange, ...]:
        """Of a shape tensor: the values that each profile allows, where this TensorRT version reports them."""

class Engine:
    """A deserialised plan. Immutable; runners and benches share it and keep it alive.

    A plan is executable code: load none whose origin you do not trust.
    """

    def __init__(self, plan: bytes | bytearray | memoryview, **options: Unpack[_PlanOptions]) -> None:
        """Deserialise a plan, whose bytes may follow ultralytics' metadata header (see `metadata`).

        Raises:
            UsageProblem: the bytes are no plan, are damaged, or were made by another TensorRT version or for
                another GPU, or an option does not fit the plan or the version.
            ComponentMissing: libnvinfer is absent, or a plugin library cannot be opened.
            DeviceFailure: there is no usable GPU, or its memory does not suffice.
        """
    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **options: Unpack[_PlanOptions]) -> Engine:
        """Read a plan's file and deserialise it. Raises as the constructor; UsageProblem if it is no regular file."""
    @property
    def tensors(self) -> tuple[EngineTensor, ...]:
        """Inputs and outputs in the engine's own order."""
    @property
    def inputs(self) -> tuple[EngineTensor, ...]: ...
    @property
    def outputs(self) -> tuple[EngineTensor, ...]: ...
    @property
    def num_profiles(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    @property
    def name(self) -> str:
        """Of the network; mostly empty."""
    @property
    def device_memory_bytes(self) -> int:
        """Scratch memory of one execution context, for any profile. Each slot of a runner has its own."""
    @property
    def device(self) -> int: ...
    @property
    def metadata(self) -> str:
        """JSON text of a header before the plan; empty without one."""

# ---- running ---------------------------------------------------------------------------------------
class CallTiming:
    """Milliseconds of one call. All but `enqueue_ms` and `end_to_end_ms` need `RunnerOptions.timing`, else 0."""

    @property
    def enqueue_ms(self) -> float:
        """Host time of the launch alone."""
    @property
    def h2d_ms(self) -> float:
        """Device time of copying the inputs, letterbox included."""
    @property
    def compute_ms(self) -> float:
        """Device time of the engine."""
    @property
    def d2h_ms(self) -> float:
        """Device time of copying the outputs."""
    @property
    def end_to_end_ms(self) -> float:
        """Host time from the start of submit to the end of wait, without the copy into arrays of the caller's."""

class GraphStatus:
    """Whether CUDA graphs are in use; `str` gives one line such as "on: 2 graphs captured"."""

    @property
    def graphs(self) -> int:
        """Captured graphs, of all slots."""
    @property
    def fallback(self) -> str | None:
        """Why some calls run without a graph; None where none does."""

class Runner:
    """Runs an engine with a bounded number of calls in flight. Thread-safe; the GIL is free while it works.

    Inputs are numpy arrays of the exact dtype, of any strides (bfloat16 as uint16 or ml_dtypes' type, fp8 as uint8 or
    ml_dtypes' type), arrays on the GPU (DLPack, else `__cuda_array_interface__`; row-major, unchanged until the call is
    waited for), or an ImageBatch. Arrays on the GPU are used in place, at up to four addresses for each shape; from
    further addresses, those of up to 16 MiB are copied on the device, as a graph holds addresses. State inputs may be
    left out. The calling thread's CUDA device stays selected, whichever the engine's is.
    """

    def __init__(self, engine: Engine, options: RunnerOptions | None = None) -> None:
        """Raise UsageProblem for options that do not fit the engine, DeviceFailure if its memory does not suffice."""
    @property
    def engine(self) -> Engine: ...
    @property
    def options(self) -> RunnerOptions:
        """A copy."""
    def run(
        self,
        inputs: Mapping[str, InputValue],
        *,
        copy: bool = True,
        out: Mapping[str, HostArray] | None = None,
        outputs: Sequence[str] | None = None,
        device_outputs: Sequence[str] | Literal[True] = (),
        at: Mapping[str, int] | None = None,
        stream: CudaStream | int | None = None,
    ) -> dict[str, Any]:
        """Execute the engine once.

        Args:
            inputs: by name. The device reads those of 32 KiB and more in page-locked memory where they lie.
            copy: return arrays of the caller's own. False: numpy views of the pinned buffers, which the next call of
                the same slot overwrites (their memory stays alive); meant for runners with one slot.
            out: arrays to write outputs into, by name: C-contiguous, writeable, in native byte order, of the exact
                dtype and shape; returned as they are. What does not fit is refused before the engine runs. The device
                writes into those of 32 KiB and more in page-locked memory itself.
            outputs: names of the outputs to copy to the host; None: as the runner's options say.
            device_outputs: names of the outputs to return as DeviceArray; True: all.
            at: names of outputs to copy to the host, each with the one index of its second dimension to copy: numpy's
                `output[:, index]`. The rest of them stays on the device.
            stream: a stream to execute on, or its handle (0 for the default stream), in order with what else is there;
                None: one of the runner's. Where no output is copied to the host, the call then returns at once, before
                the device is done: arrays on the GPU that it reads must stay as they are until the stream has come
                past it. Where the stream captures a graph, the call becomes part of it, with a context and outputs of
                its own that go after the graph, or with the runner: so long may the graph live.

        Returns:
            numpy arrays and DeviceArrays by output name. bfloat16 comes as uint16, fp8 as uint8: their bits.

        Raises:
            UsageProblem: an input is missing, unknown, of a wrong dtype or byte order, or outside every profile; an
                output has no such index, TensorRT writes it in host memory, or it is aliased to a device array that was
                given and asked for on the device; an array of `out` does not fit; or a graph that is being captured
                cannot hold the call: one with arrays on the host, state, or outputs whose shapes depend on the data.
                State stays as it was.
            DeviceFailure: the device failed or is out of memory; after the latter state is as it was, and the runner
                stays usable.
        """
    def submit(
        self,
        inputs: Mapping[str, InputValue],
        *,
        outputs: Sequence[str] | None = None,
        device_outputs: Sequence[str] | Literal[True] = (),
        at: Mapping[str, int] | None = None,
    ) -> Ticket:
        """Start a call and return its ticket, which has the slot; waits while every slot is busy.

        Host arrays may change afterwards; device arrays, and images in page-locked memory, only once the call is done.

        Raises:
            UsageProblem: as `run`; also if for 10 s every slot holds a call whose thread waits for a slot, as this one.
            KeyboardInterrupt: Ctrl-C came while it waited for a slot; so does `run`, and while it waits for a call
                after one of more than 0.1 s. Such a call ends by itself: its arrays must stay as they are until then.
            DeviceFailure: as `run`.
        """
    def measure(self, inputs: Mapping[str, HostArray], options: BenchOptions | None = None) -> BenchResult:
        """Measure single calls, one after the other, from ordinary host memory to ordinary host memory.

        The device's times are taken whether the runner's options ask for them or not. `end_to_end_ms` includes both
        host copies: what a C++ program sees that calls this runner. `start_ms` and `end_ms` are of the host clock. Of
        the options it takes iterations, duration_s, warmup_ms (of host time) and profiler; the rest is as the runner
        was made. State inputs may be left out: they go on from call to call.

        Raises:
            UsageProblem: the inputs do not fit the engine.
            DeviceFailure: the device failed or is out of memory.
        """

    def timing(self) -> CallTiming:
        """Return the times of the last call that this thread finished; UsageProblem if there was none."""
    def graph_status(self) -> GraphStatus: ...
    def input_buffer(self, name: str, shape: Sequence[int] | None = None, *, slot: int = 0) -> HostArray:
        """Return a writable view of a slot's pinned input buffer; passing it to `run` saves a copy on that slot.

        Args:
            name: an input.
            shape: of the view; None for an input of fixed shape.
            slot: whose buffer. With one slot there is no choice; with several, a call on another slot copies from it.

        Raises:
            UsageProblem: the name or slot is unknown, the shape is missing, or the slot has a call in flight.
            DeviceFailure: there is not enough memory.
        """
    def reset_state(self, values: Mapping[str, InputValue] | None = None) -> None:
        """Forget all state, then set the next values of the named state inputs; the others start from zeros.

        Raises:
            UsageProblem: an input is no state, a value does not fit, or a call is in flight. State stays as it was.
            DeviceFailure: the device failed.
        """
    def take_state(self, other: Runner) -> None:
        """Forget all state, then copy what the next call of `other` reads, on the device.

        Args:
            other: a runner, perhaps of another engine, that keeps state inputs of the same names and dtypes.

        Raises:
            UsageProblem: one of the two keeps no such state, a dtype differs, or a call is in flight.
            DeviceFailure: the device failed or is out of memory.
        """
    def memory_bytes(self) -> dict[str, int]:
        """Return the memory of all slots, without graphs and weights.

        `device_scratch`, `device_inputs`, `device_outputs`, `device_state`, `device_images`, `pinned_inputs`,
        `pinned_outputs`, `pinned_images`.
        """
    def counters(self) -> dict[str, int]:
        """Return how many calls took which path.

        `strided_copies`: inputs that had to be made contiguous. `in_place_inputs`: read by the device where the caller
        wrote them: in the slot's own buffer, or in page-locked memory.
        `page_locked_images`: read from the caller's page-locked memory.
        """
    def close(self) -> None:
        """Wait for the calls in flight, those of other threads too, and release device and pinned memory.

        Voids open tickets. A second call, of any thread, waits for the same end. Ctrl-C ends the wait. In a signal's
        handler that interrupts a call of the runner it returns at once, and memory is released with that call.
        """
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

class Detector:
    """Runs an engine and finds the boxes in its outputs on the GPU, in the same CUDA graph. Thread-safe.

    Absent from a core that was built without CUDA kernels.
    """

    def __init__(self, engine: Engine, spec: HeadSpec, options: RunnerOptions | None = None) -> None:
        """Raise UsageProblem for options that do not fit the engine, DeviceFailure if its memory does not suffice."""
    def run(
        self, inputs: Mapping[str, InputValue], *, outputs: Sequence[str] = ()
    ) -> tuple[list[FoundBoxes], dict[str, HostArray]]:
        """Execute the engine once; return the boxes of each image, and the named outputs of the same call.

        Raises:
            UsageProblem: the inputs do not fit the engine, or its outputs the spec.
            DeviceFailure: the device failed.
        """
    def timing(self) -> CallTiming:
        """Return the times of the call that ended last, on whichever thread; `compute_ms` is of engine and boxes."""
    def graph_status(self) -> str:
        """Return in one line whether CUDA graphs are in use."""
    def close(self) -> None:
        """Wait for the calls in flight and release memory. Safe to call twice."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

class Ticket:
    """A call in flight, with its slot of the runner. Made by `Runner.submit`. Thread-safe.

    The slot is free again once the result is taken. A ticket that is dropped waits for the device and frees it, too.
    `await ticket` gives the result in asyncio; where that is cancelled, the ticket still has it.
    """

    def done(self) -> bool:
        """Return, at once, whether the device is done with the call, well or not; also true once `result` has begun."""
    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the call, at most `timeout` seconds, and return done(). The result stays to be taken.

        Raises:
            UsageProblem: the timeout is negative.
        """
    def result(
        self, timeout: float | None = None, *, copy: bool = True, out: Mapping[str, HostArray] | None = None
    ) -> dict[str, Any]:
        """Wait for the call and return its outputs as `run` does.

        Args:
            timeout: in seconds; None: without end.
            copy: as in `run`.
            out: as in `run`.

        Raises:
            TimeoutError: the call is still in flight; the ticket stays as it is.
            UsageProblem: the result was taken already, the runner was closed, the timeout is negative, or an array of
                `out` does not fit; in the latter two cases the ticket stays as it is.
            DeviceFailure: the call failed on the device.
        """
    def future(self) -> Future[dict[str, Any]]:
        """Return a future of `result()`, for which a thread of the module waits.

        That thread, as the one behind `await`, polls, as `RunnerOptions.spin` says: switch it off where many wait.
        """
    def __await__(self) -> Generator[Any, None, dict[str, Any]]: ...

# ---- measuring -------------------------------------------------------------------------------------
class BenchResult:
    """Every query of a measurement after the warm-up, ordered by start. Arrays are float64 [len(self)]; times in ms."""

    def __len__(self) -> int: ...
    @property
    def start_ms(self) -> NDArray[np.float64]:
        """Device clock: begin of the input copy, of compute without transfers."""
    @property
    def compute_start_ms(self) -> NDArray[np.float64]:
        """Device clock."""
    @property
    def end_ms(self) -> NDArray[np.float64]:
        """Device clock: end of the output copy, of compute without transfers."""
    @property
    def enqueue_ms(self) -> NDArray[np.float64]:
        """Host time of the launch."""
    @property
    def h2d_ms(self) -> NDArray[np.float64]: ...
    @property
    def compute_ms(self) -> NDArray[np.float64]: ...
    @property
    def d2h_ms(self) -> NDArray[np.float64]: ...
    @property
    def latency_ms(self) -> NDArray[np.float64]:
        """Sum of h2d, compute and d2h: trtexec's latency, which leaves out waiting in between."""
    @property
    def host_start_ms(self) -> NDArray[np.float64]:
        """Host clock."""
    @property
    def end_to_end_ms(self) -> NDArray[np.float64]:
        """Host clock from the start of the query until its result was seen."""
    @property
    def stream(self) -> NDArray[np.int32]:
        """Index of the inference stream."""
    @property
    def wall_ms(self) -> float:
        """Device clock, first start to last end."""
    @property
    def host_wall_ms(self) -> float:
        """Host clock over the same queries."""
    @property
    def throughput_qps(self) -> float:
        """Queries/s over `wall_ms`, as trtexec reports it; a batch is one query."""
    @property
    def warmup_queries(self) -> int:
        """How many were dropped."""
    @property
    def graph(self) -> bool:
        """Whether a CUDA graph was used."""
    @property
    def graph_fallback(self) -> str | None:
        """Why none was used though asked for."""

def bench(engine: Engine, inputs: Mapping[str, HostArray], options: BenchOptions | None = None) -> BenchResult:
    """Measure an engine by trtexec's method.

    Raises:
        UsageProblem: the inputs or options do not fit the engine.
        DeviceFailure: the device failed or is out of memory.
    """

class LayerTime:
    """Device time of one layer."""

    @property
    def name(self) -> str: ...
    @property
    def milliseconds(self) -> NDArray[np.float32]:
        """One value an iteration."""

def profile_layers(
    engine: Engine, inputs: Mapping[str, HostArray], *, iterations: int = 20, profile: int | None = None
) -> list[LayerTime]:
    """Time every layer, in execution order, over `iterations` runs after one to warm up; without a CUDA graph.

    Profiling slows the run, so the sum exceeds the engine's own time.

    Raises:
        UsageProblem: the inputs do not fit the engine, or it was built with profiling verbosity "none".
        DeviceFailure: the device failed or is out of memory.
    """

def count_nonfinite(array: HostArray) -> int:
    """Return how many elements of a C-contiguous float16, float32 or float64 array are NaN or infinite, else 0.

    The array may be in foreign byte order.
    """
