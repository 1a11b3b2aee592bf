"""Which GPUs of this machine a command may be spread over, with the backends that it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trt_workbench.backends.base import Backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.shard_workers import Device, gpu_devices


def gpus_for(backends: Iterable[Backend], numbers: Sequence[int], *, device: str = "") -> list[Device]:
    """Return GPUs by CUDA's numbers; all where none is given.

    Args:
        backends: that compute.
        numbers: CUDA's.
        device: the option by which one GPU was chosen, if it was.

    Raises:
        UsageProblem: a backend does not compute on GPUs here, or as `gpu_devices`.
    """
    if device:
        raise UsageProblem(f"--gpus chooses the devices; leave out {device}.")
    for backend in backends:
        if backend.served:
            raise UsageProblem(f"--gpus is for models that run here, and {backend.name} asks a server; omit it.")
        if "cuda" not in backend.devices:
            raise UsageProblem(f"--gpus is for backends on GPUs, and {backend.name} runs on the CPU; omit --gpus.")
    return gpu_devices(numbers)
