"""A backend that crashes as engines do that read memory which is not theirs: ort-cpu, and what ends process or device.

`--option crash=KIND`: `abort`, `sticky` (the device fails, and for every later call of the process) or `hang`, of
graphs with the operator `--option at=OPERATOR` (all without it), in `--option precision=PRECISION` (any), and at inputs
with a mean above `--option above=MEAN`.
`--option wrong=OPERATOR`: rows after the first of graphs with that operator are wrong.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import DeviceLost

NAME = "crashing"


class CrashingSession(Session):
    dead = False  # the device, for the whole process

    def __init__(self, inner: Session, crash: str, *, is_wrong: bool, above: float) -> None:
        self._inner, self._crash, self._is_wrong, self._above = inner, crash, is_wrong, above
        self.inputs, self.outputs, self.metadata = inner.inputs, inner.outputs, inner.metadata
        self.provenance = {}

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        crash = self._crash if self._above < max(float(array.mean()) for array in inputs.values()) else ""
        if crash == "abort":
            os.abort()
        if crash == "hang":
            time.sleep(600)
        if crash == "sticky":
            type(self).dead = True
        if self.dead:
            raise DeviceLost("The GPU failed: cudaErrorIllegalAddress.")
        found = self._inner.run(inputs)
        if not self._is_wrong:
            return found
        return {name: np.concatenate([a[:1], a[1:] * 1.5]) if a.ndim else a for name, a in found.items()}

    def _close(self) -> None:
        self._inner.close()


class CrashingBackend(Backend):
    name = NAME
    file_kinds = (".onnx",)

    def availability(self) -> Availability:
        return Availability(ok=True)

    def _load(self, model: Path, options: SessionOptions) -> Session:
        has = {node.op_type for node in onnx.load(model).graph.node}
        extra = options.extra
        crash = str(extra.get("crash", "")) if extra.get("at", next(iter(has))) in has else ""
        crash = crash if extra.get("precision", options.precision) == options.precision else ""
        inner = OrtCpuBackend().load(model, SessionOptions(threads=1))
        above = float(extra.get("above", -math.inf))
        return CrashingSession(inner, crash, is_wrong=extra.get("wrong") in has, above=above)
