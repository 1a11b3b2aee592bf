# ruff: noqa: ARG001, ARG002 - it takes what the real core takes
"""A double of the native core for tests of what surrounds it: a plan is the model itself, ONNX Runtime executes it.

What it pretends to be is told by variables: TRTW_DOUBLE_VERSION and TRTW_DOUBLE_CAPABILITY are TensorRT's and the
GPU's, TRTW_DOUBLE_SLEEP the seconds of a build (roughly, with version 8), TRTW_DOUBLE_UNTIL a file that builds wait
for, TRTW_DOUBLE_LOG a file that gets a line for every build, TRTW_DOUBLE_PROFILER one that gets a line for every start
and stop of the profiler. TRTW_DOUBLE_FAULT names a way to run an engine in which it is wrong: "no graph", "transfers",
"slots", "device arrays", "page-locked outputs", "state", "profile 1". A number stands for a batch: from it on,
rows after the first are wrong. With "crash" the device fails in every call, with "abort" the process ends.
TRTW_DOUBLE_BUILDS is a list of milliseconds: of the builds, counted by the lines of TRTW_DOUBLE_LOG, each gets the next
as its latency and as the name of its tactic; with the fault "slow builds" those that take over 1 ms are wrong.
TRTW_DOUBLE_GRAPHS is a file that gets a line for every CUDA graph that a runner would capture,
TRTW_DOUBLE_MODULES one that gets a line with the modules which the program had imported when an engine was called.
"""

import collections
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

MAGIC = b"doubled plan "


class NativeError(Exception):
    pass


class UsageProblem(NativeError):
    pass


class ComponentMissing(NativeError):
    pass


class DeviceFailure(NativeError):
    pass


class OutOfMemory(DeviceFailure):
    pass


class DeviceLost(DeviceFailure):
    pass


class CheckFailed(NativeError):
    pass


class Cancelled(NativeError):
    pass


class BuildOptions(SimpleNamespace):
    pass


class Profile(SimpleNamespace):
    pass


class Calibration(SimpleNamespace):
    pass


class RunnerOptions(SimpleNamespace):
    pass


class BenchOptions(SimpleNamespace):
    pass


class LetterboxSpec(SimpleNamespace):
    pass


def _version() -> str:
    return os.environ.get("TRTW_DOUBLE_VERSION", "10.16.1")


def build_info() -> dict[str, str]:
    return {"version": "0.2.0", "cuda": "13.0", "tensorrt_headers": _version()}


def tensorrt_status(_: str | None = None) -> dict[str, Any]:
    return {"available": True, "version": _version(), "error": None}


load_tensorrt = tensorrt_status


def cuda_status() -> dict[str, Any]:
    return {"ok": True, "device_count": len(_gpus()), "error": None}


def _gpus() -> list[dict[str, Any]]:
    capability = os.environ.get("TRTW_DOUBLE_CAPABILITY", "9.0")
    facts = {"name": f"GPU {capability}", "uuid": "GPU-1", "compute_capability": capability}
    return [{**facts, "memory_free_bytes": 1 << 30}]


def devices(only: int | None = None) -> list[dict[str, Any]]:
    return _gpus() if only is None else _gpus()[only : only + 1]


def option_names() -> dict[str, list[str]]:
    return {"tactic_sources": ["cublas", "cudnn"]}


def set_log_level(level: str) -> None:
    assert level in ("error", "warning", "info", "verbose")


def drain_log() -> list[tuple[str, str]]:
    return [("info", "a line of the log")]


def unsupported_operators(op_types: Sequence[str]) -> list[str]:
    """The parser's table has no domains: a name with one is in none."""
    return [name for name in op_types if name in ("Bernoulli", "Unique") or "::" in name]


class BuilderHold:
    """`held` counts those that are open."""

    held = 0

    def __init__(self, device: int = 0) -> None:
        self._open = True
        BuilderHold.held += 1

    def close(self) -> None:
        BuilderHold.held -= self._open
        self._open = False


def build_engine(model: str, options: BuildOptions, progress: Any) -> SimpleNamespace:
    if log := os.environ.get("TRTW_DOUBLE_LOG"):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
    while (until := os.environ.get("TRTW_DOUBLE_UNTIL")) and not Path(until).exists():
        time.sleep(0.01)
    seconds = float(os.environ.get("TRTW_DOUBLE_SLEEP", "0"))
    if _version().startswith("8."):
        _build_without_progress(seconds, progress)
    else:
        _build_in_steps(seconds, progress)
    content = Path(model).read_bytes()
    profiles = [{name: list(map(list, dims)) for name, dims in profile.shapes.items()} for profile in options.profiles]
    given = {"types": options.io_types, "formats": options.io_formats}
    header = json.dumps({"version": _version(), "profiles": profiles, **given, **_chance(options)}).encode()
    plan = MAGIC + len(header).to_bytes(4, "little") + header + content
    engine = Engine(plan)
    return SimpleNamespace(
        plan=plan,
        timing_cache=(options.timing_cache or b"ptrt") + b"t",
        build_s=0.1,
        layer_count=1,
        skipped_tactics=0,
        warnings=[],
        inputs=engine.inputs,
        outputs=engine.outputs,
        merge_timing_caches=lambda caches: bytes(sorted(set().union(*caches))),
    )


def _chance(options: BuildOptions) -> dict[str, Any]:
    """What chance makes of a build; nothing unless the test lists it."""
    told = os.environ.get("TRTW_DOUBLE_BUILDS")
    if not told:
        return {}
    choices = told.split(",")
    before = len(Path(os.environ["TRTW_DOUBLE_LOG"]).read_text(encoding="utf-8").splitlines()) - 1
    ms, _, chosen = choices[before % len(choices)].partition(":")
    asked = "INT8" if options.int8 else "FP16" if options.fp16 else "FP32"
    return {"ms": float(ms), "type": chosen or asked}


def _build_in_steps(seconds: float, progress: Any) -> None:
    steps = max(10, round(10 * seconds))  # a builder reports often, and so ends soon after it is told to
    for step in range(steps):
        time.sleep(seconds / steps)
        if progress is not None and not progress("build", step + 1, steps):
            raise Cancelled("The build was cancelled.")


def _build_without_progress(seconds: float, progress: Any) -> None:
    """As TensorRT 8 does: one call of native code, in which no signal's handler runs."""
    assert progress is None or progress("build", 0, 0)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 + int(seconds * 4e6))
    assert progress is None or progress("build", 1, 1)


class Engine:
    num_profiles = 1
    device_memory_bytes = 1024
    metadata = ""

    def __init__(
        self,
        plan: bytes,
        *,
        allow_host_code: bool = False,
        device: int = 0,
        plugins: Sequence[str] = (),
        weight_streaming_budget: int | str | None = None,
    ) -> None:
        before = {*sys.modules}
        import onnxruntime as ort

        self.modules_of_double = {*sys.modules} - before
        if weight_streaming_budget is not None and _version().startswith("8."):
            raise UsageProblem(f"TensorRT {_version()} has no weight streaming budget.")
        self.open_runners, self.device = 0, device
        for path in plugins:
            if not Path(path).is_file():
                raise UsageProblem(f"The plugin library cannot be opened: {path}")
        if not plan.startswith(MAGIC):
            raise UsageProblem("The bytes are no plan.")
        start = len(MAGIC) + 4
        end = start + int.from_bytes(plan[len(MAGIC) : start], "little")
        try:
            header = json.loads(plan[start:end])
            profiles = header["profiles"]
            version = header["version"]
            self.ms: float | None = header.get("ms")
            self.type = header.get("type")
        except (ValueError, KeyError, TypeError) as error:
            raise UsageProblem(f"TensorRT cannot deserialise the plan ({error}).") from error
        if version != _version():
            raise UsageProblem(f"The plan was made by TensorRT {version}.")
        try:
            quiet = ort.SessionOptions()
            quiet.log_severity_level = 4
            self.session = ort.InferenceSession(plan[end:], quiet, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise UsageProblem(f"TensorRT cannot deserialise the plan ({error}).") from error
        self.inputs = tuple(_tensor(node, True, profiles) for node in self.session.get_inputs())
        for tensor in self.inputs:
            tensor.dtype = {"fp16": "float16"}.get(header.get("types", {}).get(tensor.name), tensor.dtype)
            tensor.format = "+".join(header.get("formats", {}).get(tensor.name, [tensor.format]))
        self.outputs = tuple(_tensor(node, False, []) for node in self.session.get_outputs())
        self.tensors = (*self.inputs, *self.outputs)


def _computed(engine: Engine, names: list[str] | None, arrays: Mapping[str, Any]) -> list[Any]:
    typed = {name: array.astype("float32") if array.dtype == "float16" else array for name, array in arrays.items()}
    return list(engine.session.run(names, typed))


def _tensor(node: Any, is_input: bool, profiles: list[dict[str, Any]]) -> SimpleNamespace:
    dtype = {"tensor(float)": "float32", "tensor(int64)": "int64"}[node.type]
    return SimpleNamespace(
        name=node.name,
        is_input=is_input,
        dtype=dtype,
        shape=tuple(dim if isinstance(dim, int) else -1 for dim in node.shape),
        profiles=tuple(tuple(map(tuple, profile[node.name])) for profile in profiles if node.name in profile),
        values=(),
        is_shape_tensor=False,
        format="linear",
        aliased_input=None,
        location="device",
    )


def inspect_engine(engine: Engine) -> dict[str, Any]:
    names = [f"{tensor.name} [layer]" for tensor in engine.outputs]
    told = os.environ.get("TRTW_DOUBLE_LAYERS")  # a file of the inspector's JSON; names alone without
    layers = Path(told).read_text(encoding="utf-8") if told else json.dumps({"Layers": names})
    if engine.ms is not None:
        tensor = {"Name": "t", "Format/Datatype": f"Row major linear {engine.type}"}
        layers = json.dumps({"Layers": [{"Name": n, "TacticName": f"k{engine.ms}", "Inputs": [tensor]} for n in names]})
    return {"layer_count": len(names), "refittable": False, "layers_json": layers}


def refit(engine: Engine, *, model: str) -> bytes:
    header = json.dumps({"version": _version(), "profiles": []}).encode()
    return MAGIC + len(header).to_bytes(4, "little") + header + Path(model).read_bytes()


class ImageBatch:
    """Letterboxes on the CPU, by the package's own reference."""

    def __init__(self, images: list[Any], spec: LetterboxSpec) -> None:
        from trt_workbench.backends.images import ImageTransform
        from trt_workbench.vision.letterbox import preprocess

        transform = ImageTransform(**vars(spec))
        self.array = np.stack([preprocess(image, transform)[0] for image in images])


def pinned_empty(shape: Sequence[int], dtype: Any = "uint8") -> Any:
    return np.empty(shape, dtype)


class DeviceArray(SimpleNamespace):
    @property
    def shape(self) -> Any:
        return self.array.shape

    def numpy(self) -> Any:
        return self.array.copy()


class Runner:
    def __init__(self, engine: Engine, options: RunnerOptions) -> None:
        self.engine, self.options, self.closed = engine, options, False
        engine.open_runners += 1
        self.pairs: dict[str, str] = getattr(options, "state", {})
        known = {tensor.name for tensor in engine.tensors}
        for name in (*self.pairs, *self.pairs.values()):
            if name not in known:
                raise UsageProblem(f"State names {name!r}, which the engine does not have.")
        self._state = _zeros(engine, self.pairs)
        self._calls, self._idle = 0, threading.Condition()
        self._uses: collections.OrderedDict[tuple[Any, ...], int] = collections.OrderedDict()
        self._parity = 0

    def run(self, inputs: Mapping[str, Any], **how: Any) -> dict[str, Any]:
        with self._idle:
            if self.closed:
                raise UsageProblem("The runner is closed; make a new one.")
            self._calls += 1
        try:
            return self._run(inputs, **how)
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def _run(
        self,
        inputs: Mapping[str, Any],
        *,
        out: Mapping[str, Any] | None = None,
        outputs: Sequence[str] | None = None,
        device_outputs: bool = False,
        at: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        if log := os.environ.get("TRTW_DOUBLE_MODULES"):
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(" ".join(sorted({*sys.modules} - self.engine.modules_of_double)) + "\n")
        apart = (ImageBatch, DeviceArray)
        arrays = {name: value.array if isinstance(value, apart) else value for name, value in inputs.items()}
        for name, array in arrays.items():
            _require_native_order(array, f"Input '{name}'")
        arrays |= self._state
        for tensor in self.engine.inputs:
            shape, chosen = arrays[tensor.name].shape, getattr(self.options, "profile", None)
            profiles = tensor.profiles if chosen is None else tensor.profiles[chosen : chosen + 1]
            ranges = [(low, high) for low, _, high in profiles]
            fits = [all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True)) for low, high in ranges]
            if ranges and not any(fits):
                low, high = ranges[0]
                raise UsageProblem(f"Shape {list(shape)} of {tensor.name} is outside {list(low)} to {list(high)}.")
        names = [tensor.name for tensor in self.engine.outputs]
        try:
            computed = _computed(self.engine, names, arrays)
        except Exception as error:
            raise UsageProblem(f"TensorRT refuses these shapes ({error}).") from error
        found = dict(zip(names, map(_spoiled, computed), strict=True))
        copied = {name for name in found if name not in self.pairs and (outputs is None or name in outputs)}
        _require_room(
            out or {},
            {name: _taken(name, found[name], index) for name, index in (at or {}).items()}
            | {name: found[name] for name in copied - {*(at or {})} if not device_outputs},
        )
        self._count_use(tuple(sorted((name, array.shape) for name, array in arrays.items())), tuple(at or ()))
        self._state = {name: found.pop(output) for output, name in self.pairs.items()}
        if self._is_wrong(on_device=device_outputs, into=out is not None):
            found = {name: array + 1 for name, array in found.items()}
        if device_outputs:
            return {name: DeviceArray(array=array) for name, array in found.items()}
        chosen = {name: array for name, array in found.items() if outputs is None or name in outputs}
        chosen |= {name: _taken(name, found[name], index) for name, index in (at or {}).items()}
        for name, target in (out or {}).items():
            target[...] = chosen[name]
        return chosen | dict(out or {})

    def _count_use(self, *kind: Any) -> None:
        """As the core does: a call is captured at its second use, 16 kinds are remembered, with state twice."""
        key = (*kind, self._parity)
        uses = self._uses.pop(key, 0) + 1
        self._uses[key] = uses
        if len(self._uses) > 16 * (1 + bool(self.pairs)):
            self._uses.popitem(last=False)
        if self.pairs:
            self._parity = 1 - self._parity
        if uses == 2 and self.options.cuda_graph and (log := os.environ.get("TRTW_DOUBLE_GRAPHS")):
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(f"{key}\n")

    def _is_wrong(self, *, on_device: bool, into: bool) -> bool:
        ways = {
            "no graph": not self.options.cuda_graph,
            "transfers": getattr(self.options, "graph_includes_transfers", None) is False,
            "page-locked outputs": into,
            "slots": getattr(self.options, "slots", 1) > 1,
            "device arrays": on_device,
            "state": bool(self.pairs),
            "profile 1": getattr(self.options, "profile", None) == 1,
            "slow builds": (self.engine.ms or 0) > 1,
        }
        return ways.get(os.environ.get("TRTW_DOUBLE_FAULT", ""), False)

    def take_state(self, other: "Runner") -> None:
        self._state = dict(other._state)

    def reset_state(self) -> None:
        self._state = _zeros(self.engine, self.pairs)

    def input_buffer(self, name: str, shape: Sequence[int] | None = None, *, slot: int = 0) -> Any:
        tensor = next(tensor for tensor in self.engine.inputs if tensor.name == name)
        return np.zeros(tensor.shape if shape is None else shape, tensor.dtype)

    def timing(self) -> SimpleNamespace:
        return SimpleNamespace(h2d_ms=0.1, compute_ms=1.0, d2h_ms=0.1)

    def measure(self, inputs: Mapping[str, Any], options: BenchOptions) -> "BenchResult":
        chosen = BenchOptions(streams=1, transfers=True, cuda_graph=self.options.cuda_graph)
        return _measured(self.engine, {**inputs, **self._state}, chosen)

    def graph_status(self) -> str:
        return "on: 1 graph captured" if self.options.cuda_graph else "off: not asked for"

    def memory_bytes(self) -> dict[str, int]:
        return {"device_inputs": 16, "pinned_inputs": 16}

    def close(self) -> None:
        with self._idle:
            self.engine.open_runners -= not self.closed
            self.closed = True
            self._idle.wait_for(lambda: not self._calls)


class HeadSpec(SimpleNamespace):
    pass


class Detector:
    """Boxes of heads of rows, found in the outputs of a runner."""

    def __init__(self, engine: Engine, spec: HeadSpec, options: RunnerOptions) -> None:
        if spec.kind != "rows":
            raise UsageProblem(f"The double finds boxes in rows, not in {spec.kind}.")
        self.spec, self._runner = spec, Runner(engine, options)

    def run(self, inputs: Mapping[str, Any], *, outputs: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
        found = self._runner.run(inputs)
        arrays, boxes = [*found.values()], self.spec.boxes[0]
        images = [self._boxes(rows) for rows in arrays[boxes]]
        if hasattr(self.spec, "planes"):
            planes = arrays[self.spec.planes[0]]
            images = [one and (*one, self._masks(one, some)) for one, some in zip(images, planes, strict=True)]
        return images, {name: found[name] for name in outputs}

    def _boxes(self, rows: Any) -> Any:
        if not np.isfinite(rows).all() or rows[:, 4].max() > 1:
            return None
        kept = rows[rows[:, 4] > np.float32(self.spec.conf)]
        kept = kept[np.argsort(-kept[:, 4], kind="stable")][: self.spec.max_dets]
        if os.environ.get("TRTW_DOUBLE_FAULT") == "boxes":
            kept = kept[:-1]
        first, values = getattr(self.spec, "more", (0, 0))[1], self.spec.values
        more = [kept[:, first : first + values].copy()] if values else []
        return kept[:, :4].copy(), kept[:, 4].copy(), kept[:, 5].astype(np.int64), *more

    def _masks(self, found: Any, planes: Any) -> Any:
        from trt_workbench.vision.families.prototypes import PrototypeMasks

        made = PrototypeMasks((self.spec.height, self.spec.width), found[3], planes)
        words = [np.zeros(0, np.uint32)]
        for part in made.arrays(found[0]):
            wide = np.pad(part, ((0, 0), (0, -part.shape[1] % 32)))  # every row begins in a new word
            words.append(np.packbits(wide.ravel(), bitorder="little").view(np.uint32))
        masks = np.concatenate(words)
        return masks ^ 1 if os.environ.get("TRTW_DOUBLE_FAULT") == "masks" else masks

    def graph_status(self) -> str:
        return self._runner.graph_status()

    def close(self) -> None:
        self._runner.close()


def _spoiled(array: Any) -> Any:
    fault = os.environ.get("TRTW_DOUBLE_FAULT", "")
    if fault == "abort":
        os.abort()
    if fault == "crash":
        raise DeviceLost("The GPU failed. Every later call of this process will fail too; start a new process.")
    if fault.isdecimal() and array.dtype.kind == "f" and array.ndim and len(array) >= int(fault):
        return np.concatenate([array[:1], array[1:] / 2])
    return array


def _taken(name: str, array: Any, index: int) -> Any:
    if array.ndim < 2 or not -array.shape[1] <= index < array.shape[1]:
        raise UsageProblem(f"Output '{name}' has no index {index} in its second dimension.")
    return array[:, index].copy()


def _require_native_order(array: Any, what: str) -> None:
    dtype = getattr(array, "dtype", None)
    if dtype is not None and dtype.byteorder == ">":
        raise UsageProblem(f"{what} is in foreign byte order ({dtype.str}); use .astype('{dtype.name}').")


def _require_room(out: Mapping[str, Any], copied: Mapping[str, Any]) -> None:
    for name, target in out.items():
        what = f"The array for output '{name}'"
        if name not in copied:
            raise UsageProblem(f"{what} would stay empty: the call does not copy this output to the host.")
        _require_native_order(target, what)
        value, flags = copied[name], target.flags
        if target.dtype != value.dtype or not (flags.c_contiguous and flags.writeable):
            raise UsageProblem(f"{what} must be {value.dtype}, C-contiguous and writeable.")
        if target.shape != value.shape:
            raise UsageProblem(f"{what} has the shape {list(target.shape)}, but the output has {list(value.shape)}.")


def _zeros(engine: Engine, pairs: Mapping[str, str]) -> dict[str, Any]:
    found = [tensor for tensor in engine.inputs if tensor.name in pairs.values() and min(tensor.shape) >= 0]
    return {tensor.name: np.zeros(tensor.shape, tensor.dtype) for tensor in found}


class BenchResult(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.compute_ms)


def bench(engine: Engine, inputs: Mapping[str, Any], options: BenchOptions) -> BenchResult:
    """A hundred queries a stream that take a millisecond each, with copies of a tenth before and after."""
    # a runner that has run keeps its stream, and kernels on a second stream slow down the engine's
    assert not engine.open_runners
    return _measured(engine, inputs, options)


def _measured(engine: Engine, inputs: Mapping[str, Any], options: BenchOptions) -> BenchResult:
    _computed(engine, None, inputs)
    count = 100 * options.streams
    start = np.arange(count) / options.streams
    copy = np.full(count, 0.1 if options.transfers else 0.0)
    compute = np.full(count, 1.0 if engine.ms is None else engine.ms)
    return BenchResult(
        start_ms=start,
        compute_start_ms=start + copy,
        end_ms=start + compute + 2 * copy,
        enqueue_ms=np.full(count, 0.05),
        h2d_ms=copy,
        compute_ms=compute,
        d2h_ms=copy,
        latency_ms=compute + 2 * copy,
        host_start_ms=start,
        end_to_end_ms=compute + 3 * copy,
        stream=np.arange(count, dtype=np.int32) % options.streams,
        wall_ms=100.0,
        host_wall_ms=100.0,
        throughput_qps=count * 10.0,
        warmup_queries=7,
        graph=options.cuda_graph,
        graph_fallback=None,
    )


def profile_layers(
    engine: Engine, inputs: Mapping[str, Any], *, iterations: int = 3, profile: int | None = None
) -> list[SimpleNamespace]:
    return [SimpleNamespace(name="first", milliseconds=np.ones(3)), SimpleNamespace(name="b", milliseconds=np.ones(3))]


def profiler_start() -> None:
    _note_profiler("start")


def profiler_stop() -> None:
    _note_profiler("stop")


def _note_profiler(text: str) -> None:
    if log := os.environ.get("TRTW_DOUBLE_PROFILER"):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")


from ._streams import StreamPool, StreamState  # noqa: E402, F401 - it uses the names above
