"""A backend of another package that is wrong in one way: ort-cpu, and what `TRTW_ODD` names.

`PLACE:WHAT`: PLACE is a method's name, WHAT an exception that it raises, or a value of Python's that it returns; or
`session.ATTRIBUTE:VALUE`, what the session has. `arrays.NAME:VALUE`: what an output is, from its `array`.
"""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions, TensorSpec
from trt_workbench.backends.images import ImageTransform
from trt_workbench.backends.measuring import Samples, SamplingLimits
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import DeviceLost, OutOfMemory, UsageProblem

NAME = "odd"


class Panic(BaseException):
    """As a library in another language raises one."""


class OutOfMemoryError(RuntimeError):
    """As PyTorch's, which is no MemoryError."""


KNOWN = {"np": np, "sys": sys, "Samples": Samples, "Availability": Availability, "TensorSpec": TensorSpec}
ERRORS = {kind.__name__: kind for kind in (Panic, OutOfMemoryError, DeviceLost, OutOfMemory, UsageProblem)}


def odd(place: str, right: Any, **names: Any) -> Any:
    """Return what is right, unless this place was asked to be wrong."""
    asked, _, what = os.environ.get("TRTW_ODD", "").partition(":")
    if asked != place:
        return right
    if what == "warns":
        warnings.warn("an old interface", DeprecationWarning, stacklevel=2)
        return right
    found = eval(what, {**KNOWN, **ERRORS, **names})
    if isinstance(found, BaseException):
        raise found
    return found


class OddSession(Session):
    def __init__(self, model: Path, options: SessionOptions) -> None:
        odd("__init__", None)
        self._inner = OrtCpuBackend().load(model, options)
        for name in ("inputs", "outputs", "metadata"):
            setattr(self, name, odd(f"session.{name}", getattr(self._inner, name)))
        self.provenance = odd("session.provenance", {"device": "cpu"})
        self.concurrency = odd("session.concurrency", options.concurrency)

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        found = self._inner.run(inputs)
        found = {name: odd(f"arrays.{name}", array, array=array) for name, array in found.items()}
        return odd("_infer", found, found=found)

    def _close(self) -> None:
        self._inner.close()
        odd("_close", None)


class OddDeviceSession(OddSession):
    """It measures itself and takes images, too."""

    def measure(self, inputs: dict[str, NDArray[Any]], limits: SamplingLimits) -> Samples:
        self._inner.run(inputs)
        return odd("measure", Samples(np.full(limits.min_iterations, 1.5), 0.02))

    def run_images(self, images: list[NDArray[Any]], transform: ImageTransform) -> dict[str, NDArray[Any]]:
        one = np.zeros((len(images), *transform.shape), transform.dtype)
        return odd("run_images", self._inner.run({self.inputs[0].name: one}))


class OddBackend(Backend):
    name = NAME
    file_kinds = odd("file_kinds", (".onnx",))
    precisions = odd("precisions", ("fp32",))
    devices = ("cpu",)

    def __init__(self) -> None:
        odd("backend", None)

    def availability(self) -> Availability:
        return odd("availability", Availability(ok=True, versions={"odd": "1"}))

    def check_options(self, options: SessionOptions) -> None:
        super().check_options(options)
        odd("check_options", None)

    def _load(self, model: Path, options: SessionOptions) -> Session:
        kind = OddDeviceSession if os.environ.get("TRTW_ODD_DEVICE") else OddSession
        return odd("_load", kind(model, options))
