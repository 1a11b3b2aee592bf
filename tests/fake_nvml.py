"""A module `pynvml` that reports the GPUs a test wants; every other query of a GPU is refused, as some cards do.

What pynvml itself does not have, it does not have either.
"""

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pynvml


def fake_nvml(*capabilities: str, cuda: str = "13.0", names: tuple[str, ...] = ()) -> ModuleType:
    """Return the module: one GPU for each compute capability, such as "9.0", and a driver that serves CUDA `cuda`."""
    module: Any = ModuleType("pynvml")
    module.__spec__ = ModuleSpec("pynvml", None)
    major, minor = map(int, cuda.split("."))

    def unknown(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def attribute(name: str) -> Any:
        own = getattr(pynvml, name)
        return unknown if name.startswith("nvmlDevice") else own

    module.__getattr__ = attribute
    module.nvmlInit = module.nvmlShutdown = lambda: None
    module.nvmlSystemGetCudaDriverVersion_v2 = lambda: major * 1000 + minor * 10
    module.nvmlSystemGetDriverVersion = lambda: "580.1"
    module.nvmlDeviceGetCount = lambda: len(capabilities)
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlDeviceGetName = lambda index: (*names, *(["GPU"] * len(capabilities)))[index]
    module.nvmlDeviceGetUUID = lambda index: f"GPU-{index}"
    module.nvmlDeviceGetCudaComputeCapability = lambda index: tuple(map(int, capabilities[index].split(".")))
    return module  # type: ignore[no-any-return]
