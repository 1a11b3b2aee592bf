"""trt-workbench: from an ONNX file to a TensorRT deployment decision that can be trusted."""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.2.0"

# Libraries read these once, when they are loaded; every process of ours imports this package first. ONNX Runtime's
# telemetry keeps a device's number in the home folder, and Hugging Face's sends what is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# OpenCV refuses a larger image by its header, before a pixel is decoded: 2^27 pixels take 400 MB, and a file of 750 kB
# can ask for 2^30 of them, OpenCV's own limit.
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(2**27))

# Functions of `api.py` that have the name of a feature's folder, and the names of other modules.
_FUNCTIONS = ("verify", "decide", "bench")
_NAMES = {
    **dict.fromkeys(("load", "evaluate", "LoadedModel"), "api"),
    "FoundObjects": "vision",
    "Finished": "console.called",
    **dict.fromkeys(
        ("WorkbenchError", "CheckFailed", "UsageProblem", "ComponentMissing", "DeviceFailure"), "core.errors"
    ),
}


class _Function(ModuleType):
    """A feature's folder that has the name of a function of Python: to call it is to call the function."""

    def __call__(self, *places: Any, **given: Any) -> Any:
        """Call the function of `api.py`."""
        return getattr(import_module(f"{__name__}.api"), self.__name__.rpartition(".")[2])(*places, **given)


class _Package(ModuleType):
    """The package: its functions and their errors are imported when they are first asked for."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, such as the folder of a feature when it has been imported."""
        if name in _FUNCTIONS and isinstance(value, ModuleType):
            value.__class__ = _Function
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        """Return a function, or what functions take, return and raise."""
        if name in _FUNCTIONS:
            return import_module(f"{__name__}.{name}")
        if name in _NAMES:
            return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        """Return the names, those that are not imported yet too, and none of what this module imports."""
        return sorted({*(name for name in super().__dir__() if name[:2] == "__"), *_FUNCTIONS, *_NAMES})


sys.modules[__name__].__class__ = _Package
