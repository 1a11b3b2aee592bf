"""What is said where a GPU is left unused, or has an environment of its own."""

from __future__ import annotations

from trt_workbench.core.gpu import driver_report, first_gpu
from trt_workbench.core.launcher import card_environment, holds, launcher, package, this_command

# Of ONNX Runtime's GPU wheel: CUDA 13, whose libraries have no kernels for an older GPU (CUDA 13.0 release notes).
_CUDA, _CAPABILITY = (13, 0), (7, 5)


def unused_gpu(reason: str, advice: str) -> str | None:
    """Return a sentence about the GPU that is left unused, why, and the command that uses it; None without a GPU.

    The GPU is looked for through NVML, so that neither CUDA nor a runtime for GPUs is needed.

    Args:
        reason: why the backend for GPUs cannot serve, as a sentence.
        advice: what makes it serve, as a sentence.
    """
    gpu = first_gpu()
    if gpu is None:
        return None
    capability, driver = gpu["compute_capability"], driver_report()["cuda_driver_version"]
    what = f"{gpu['name']} (compute capability {capability}, driver for CUDA {driver}) is not used"
    if capability and _numbers(capability) < _CAPABILITY:
        return f"{what}: CUDA 13 supports compute capability 7.5 and newer."
    if _numbers(driver) < _CUDA:
        return (
            f"{what}: ONNX Runtime for GPUs needs a driver for CUDA 13.0. Install NVIDIA's driver 580 or newer, then: "
            f"{package('onnxruntime-gpu')}"
        )
    environment = launcher().environment
    if environment and not holds(environment, "onnxruntime-gpu"):
        reason, advice = f"the environment {environment} is for the CPU.", package("onnxruntime-gpu")
    return f"{what}: {reason} {advice}"


def other_environment() -> str | None:
    """Return a sentence with the environment made for this GPU where one for any GPU is active; None elsewhere."""
    started, made_for_it, gpu = launcher(), card_environment(), first_gpu()
    if made_for_it is None or gpu is None:
        return None
    command = started.in_environment(made_for_it, this_command())
    return (
        f"The environment {started.environment} is for any GPU; the one for this {gpu['name']} is {made_for_it}: "
        f"`{command}`."
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
