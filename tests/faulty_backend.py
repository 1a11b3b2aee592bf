"""A backend with planted faults: ort-cpu, whose outputs are spoiled in one of the ways in which engines are wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import DeviceFailure, UsageProblem

Array = NDArray[Any]


class FaultySession(Session):
    """Takes the fault from the option of that name. Faults see inputs and outputs of every call."""

    opened = 0  # sessions so far, of all

    def __init__(self, inner: Session, fault: str, concurrency: int) -> None:
        self._inner, self._fault = inner, fault
        self.inputs, self.outputs, self.metadata = inner.inputs, inner.outputs, inner.metadata
        self.provenance, self.concurrency = {}, concurrency
        type(self).opened += 1
        self._number = type(self).opened
        self._calls = 0
        self._before: dict[tuple[Any, ...], dict[str, Array]] = {}
        self.ran_many = False
        self._running: list[dict[str, Array]] = []
        self._lock = threading.Lock()

    def _infer(self, inputs: dict[str, Array]) -> dict[str, Array]:
        self._calls += 1
        if cut := INPUT_FAULTS.get(self._fault):
            inputs = {name: cut(name, array) for name, array in inputs.items()}
        outputs = self._inner.run(inputs)
        if self._fault == "calls mixed up":
            return self._mixed(outputs)
        if self._fault == "stale":
            key = tuple(array.shape for array in inputs.values())
            before = self._before.setdefault(key, outputs)
            if self.concurrency == 1:  # of calls at once it is chance which is the one before
                self._before[key] = outputs
            return before
        if self._fault == "stuck":  # the first result of a shape, for ever
            return self._before.setdefault(tuple(array.shape for array in inputs.values()), outputs)
        spoil = FAULTS.get(self._fault)
        return spoil(self, inputs, outputs) if spoil else outputs

    def _mixed(self, outputs: dict[str, Array]) -> dict[str, Array]:
        """Give a call the result of the one that runs beside it."""
        with self._lock:
            self._running.append(outputs)
        time.sleep(0.005)
        with self._lock:
            others = [one for one in self._running if one is not outputs]
            self._running = [one for one in self._running if one is not outputs]
        same = [
            one for one in others if {k: v.shape for k, v in one.items()} == {k: v.shape for k, v in outputs.items()}
        ]
        return same[0] if same else outputs

    def _close(self) -> None:
        self._inner.close()


# What becomes of an input before the model sees it.
INPUT_FAULTS: dict[str, Callable[[str, Array], Array]] = {
    "padding leaks": lambda name, array: np.ones_like(array) if name == "mask" else array,  # the mask is forgotten
    "lengths above 3": lambda name, array: np.minimum(array, 3) if "len" in name else array,
    "numbers above 3": lambda _, array: np.minimum(array, 3) if array.dtype.kind == "i" else array,
    "numbers above 200": lambda _, array: np.minimum(array, 200) if array.dtype.kind == "i" else array,
    "the last number": lambda _, array: np.minimum(array, 998) if array.dtype.kind == "i" else array,
    "types ignored": lambda name, array: array * 0 if "type" in name else array,
    "positions from 0": lambda name, array: array - array[:, :1] if "position" in name else array,
    "positions of row 0": lambda name, array: array * 0 + array[:1] if "position" in name else array,
}

Fault = Callable[[FaultySession, dict[str, Array], dict[str, Array]], dict[str, Array]]


def _each(change: Callable[[Array], Array]) -> Fault:
    return lambda _session, _inputs, outputs: {name: change(array) for name, array in outputs.items()}


def _where(condition: Callable[[FaultySession, dict[str, Array]], bool]) -> Fault:
    """Negate all outputs where a condition holds."""

    def spoil(session: FaultySession, inputs: dict[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
        return {name: -array for name, array in outputs.items()} if condition(session, inputs) else outputs

    return spoil


def _batch(inputs: dict[str, Array]) -> int:
    return int(next(iter(inputs.values())).shape[0])


def _set(place: Callable[[Array], tuple[int, ...]], value: Callable[[Any], Any]) -> Callable[[Array], Array]:
    def change(array: Array) -> Array:
        changed = array.copy()
        changed[place(array)] = value(array[place(array)])
        return changed

    return change


def _of_floats(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda array: change(array) if array.dtype.kind == "f" else array


def _swapped(array: Array) -> Array:
    return array if len(array) < 2 else np.concatenate([array[1::-1], array[2:]])


def _after_the_first(array: Array) -> Array:
    return np.concatenate([array[:1], array[1:] + 1])


def _out_of_memory(_: FaultySession, inputs: dict[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
    if _batch(inputs) == 16:
        raise DeviceFailure("Out of memory on the device.")
    return outputs


def _refuses_three(_: FaultySession, inputs: dict[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
    if _batch(inputs) == 3:
        raise UsageProblem("no kernel for this shape")
    return outputs


def _alone_after_many(session: FaultySession, inputs: dict[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
    """Scale a row that runs alone after a batch: what the batch left behind leaks into it."""
    session.ran_many |= _batch(inputs) > 1
    alone = session.ran_many and _batch(inputs) == 1
    return {name: array * array.dtype.type(1.5) for name, array in outputs.items()} if alone else outputs


def _less_exact_when_long(share: float) -> Fault:
    """Be off by 0.0007 as fp16 is, from 17 tokens on by 0.6 to 1 times `share`: as a kernel that adds up in fp16 is."""

    def spoil(_: FaultySession, inputs: dict[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
        first = next(iter(inputs.values()))
        rng = np.random.default_rng(np.ascontiguousarray(first).view(np.uint8).reshape(-1).tolist())
        found = {}
        for name, array in outputs.items():
            rows = array.reshape(len(array), -1)
            noise = rng.standard_normal(rows.shape)
            size = 7e-4 if first.shape[1] <= 16 else share * rng.uniform(0.6, 1, (len(rows), 1))
            noise *= size * np.linalg.norm(rows, axis=1, keepdims=True) / np.linalg.norm(noise, axis=1, keepdims=True)
            found[name] = (rows + noise).astype(array.dtype).reshape(array.shape)
        return found

    return spoil


def _where_inputs(condition: Callable[[Array], bool]) -> Fault:
    """Scale all outputs where an input has a property."""

    def spoil(_: FaultySession, inputs: dict[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
        hit = any(array.dtype.kind == "f" and condition(array) for array in inputs.values())
        return {name: array * array.dtype.type(1.01) for name, array in outputs.items()} if hit else outputs

    return spoil


def _in_tf32(array: Array) -> Array:
    """Round floats to the 10 bits of TF32's mantissa."""
    return (array.view(np.uint32) + np.uint32(0x1000) & np.uint32(0xFFFFE000)).view(np.float32)


FAULTS: dict[str, Fault] = {
    "negative values": _where_inputs(lambda array: bool((array < -1.5).any())),
    "the last channel": _where_inputs(lambda array: array.ndim == 4 and bool((array[:, -1] < -1.5).any())),
    "only batch 11": _where(lambda _, inputs: _batch(inputs) == 11),
    "only batch 2 and height 6": _where(lambda _, inputs: [one.shape[0::2] for one in inputs.values()] == [(2, 6)]),
    "one row less": _each(lambda array: array[:, :, 1:]),
    "less exact when long": _less_exact_when_long(1e-2),
    "far less exact when long": _less_exact_when_long(3e-2),
    "rows swapped": _each(_swapped),
    "rows shifted": _each(lambda array: np.roll(array, 1, axis=0)),
    "every second call": _where(lambda session, _: session._calls % 2 == 0),
    "only batch 3": _where(lambda _, inputs: _batch(inputs) == 3),
    "only the largest shape": _where(lambda _, inputs: _batch(inputs) == 16),
    "tf32": _each(_of_floats(_in_tf32)),
    "scaled": _each(lambda array: (array * array.dtype.type(1.002)) if array.dtype.kind == "f" else array),
    "one NaN": _each(_of_floats(_set(lambda array: tuple(size // 2 for size in array.shape), lambda _: np.nan))),
    "one infinite": _each(_of_floats(_set(lambda array: (0,) * array.ndim, lambda _: np.inf))),
    "dimensions transposed": _each(lambda array: np.ascontiguousarray(np.swapaxes(array, 1, 2))),
    "second session": _where(lambda session, _: session._number > 1),
    "rows after the first": _each(_after_the_first),
    "only the last row": _each(_set(lambda _: (-1,), lambda row: row * 0.5)),
    "one element": _each(_set(lambda array: (-1,) * array.ndim, lambda one: one + 0.01)),
    "wrong shape": _each(lambda array: array[..., :-1]),
    "columns shifted": _each(lambda array: np.roll(array, 1, axis=-1)),
    "zeros only": lambda _, inputs, outputs: (
        outputs if inputs["x"].any() else {name: array + 1 for name, array in outputs.items()}
    ),
    "large only": _where(lambda _, inputs: float(np.abs(inputs["x"]).max()) > 10),
    "rows depend": _each(lambda array: array + array.mean(axis=0, keepdims=True)),
    "all zeros": _each(np.zeros_like),
    "off by one": _each(lambda array: array + 1),
    "a row alone after a batch": _alone_after_many,
    "out of memory": _out_of_memory,
    "refuses batch 3": _refuses_three,
}


class FaultyBackend(Backend):
    """ort-cpu with the fault that `--option fault=NAME` plants; without one it is healthy."""

    name = "faulty"
    file_kinds = (".onnx",)

    def availability(self) -> Availability:
        """It always serves."""
        return Availability(ok=True)

    def _load(self, model: Path, options: SessionOptions) -> Session:
        inner = OrtCpuBackend().load(model, SessionOptions(threads=1))
        return FaultySession(inner, str(options.extra.get("fault", "")), options.concurrency)
