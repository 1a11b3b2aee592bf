"""What an engine is built for: the TensorRT and the GPU of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.gpu import driver_report, driver_version, no_gpu, why_no_gpu
from trt_workbench.core.launcher import task
from trt_workbench.engine import native
from trt_workbench.engine.tensorrt import current_root, setup_advice


@dataclass(frozen=True)
class Missing:
    """What is not there, and the command that fixes it."""

    reason: str
    fix: str

    def __str__(self) -> str:
        """Return both as one paragraph."""
        return f"{self.reason} {self.fix}".rstrip()


@dataclass(frozen=True)
class Target:
    """TensorRT, CUDA and GPU. A part that is not there is None.

    Attributes:
        tensorrt_version: of the library in use.
        tensorrt_headers: version of the headers that the native core was built with.
        cuda_version: of the CUDA runtime that the native core was built with.
        native_version: of the native core.
        gpu_name: of the chosen device.
        gpu_uuid: of the chosen device.
        compute_capability: of the chosen device, such as "9.0".
        missing: what is not there.
    """

    tensorrt_version: str | None
    tensorrt_headers: str | None
    cuda_version: str | None
    native_version: str | None
    gpu_name: str | None
    gpu_uuid: str | None
    compute_capability: str | None
    missing: tuple[Missing, ...] = ()

    @cached_property
    def driver_version(self) -> str | None:
        """Version of the NVIDIA driver, asked for when it is needed."""
        return driver_version()


def examine_target(device: int = 0) -> Target:
    """Return the TensorRT and GPU of this machine. Never raises; what is not there is named in `missing`."""
    missing: list[Missing] = []
    version, info, gpu = None, {}, None
    try:
        info = native.native().build_info()
        gpu = _cuda_device(device, missing)
        status = native.tensorrt_status()
        version = status["version"] if status["available"] else None
        if version is None:
            reason, fix = native.tensorrt_problem(status)
            missing.append(Missing(f"TensorRT cannot be used: {reason}.", fix))
    except ComponentMissing as error:
        # without the core nobody asks CUDA or opens TensorRT; each is needed before the core helps
        if without := why_no_gpu(driver_report()):
            missing.append(Missing(*without))
        if current_root() is None:
            missing.append(Missing("TensorRT is not set up.", setup_advice()))
        missing.append(Missing(str(error), ""))
    return Target(
        tensorrt_version=version,
        tensorrt_headers=info.get("tensorrt_headers"),
        cuda_version=info.get("cuda"),
        native_version=info.get("version"),
        gpu_name=gpu["name"] if gpu else None,
        gpu_uuid=gpu.get("uuid") if gpu else None,
        compute_capability=gpu["compute_capability"] if gpu else None,
        missing=tuple(missing),
    )


def require_target(device: int = 0) -> Target:
    """Return the TensorRT and GPU of this machine.

    Raises:
        ComponentMissing: one of them is absent; the message names all that is.
    """
    target = examine_target(device)
    if target.missing:
        raise ComponentMissing(" ".join(map(str, target.missing)))
    return target


def _cuda_device(index: int, missing: list[Missing]) -> dict[str, Any] | None:
    module = native.native()
    if not hasattr(module, "devices"):
        if without := why_no_gpu(driver_report()):
            missing.append(Missing(*without))
        missing.append(Missing("The native core was built without CUDA.", native.build_advice()))
        return None
    status = module.cuda_status()
    count = int(status.get("device_count", 0))
    found: list[dict[str, Any]] = []
    reason = str(status.get("error") or "the driver sees none")
    try:
        found = module.devices(index) if status["ok"] else []  # of all of them it would take seconds
    except Exception as error:  # a device that failed is one that cannot be used
        if native.translation(error) is None:
            raise
        reason = str(error)
    if not found and not (status["ok"] and index >= count):
        missing.append(_no_gpu(reason, driver_report(), module.build_info().get("cuda")))
        return None
    if not found:
        missing.append(
            Missing(
                f"CUDA device {index} does not exist; this process sees {counted(count, 'device')}.",
                "Use --device 0.",
            )
        )
        return None
    return found[0]


def _no_gpu(reason: str, driver: Mapping[str, Any], built_with: str | None) -> Missing:
    """Distinguish no driver from one that is too old: CUDA has one error for both."""
    fix = f"Run {task('doctor')} to check the driver."
    if "InsufficientDriver" in reason and "error" in driver:
        reason, fix = no_gpu(driver)
    elif "InsufficientDriver" in reason:
        serves = driver.get("cuda_driver_version")
        reason = f"the driver supports CUDA up to {serves}, but the native core was built with CUDA {built_with}"
        fix = f"Install NVIDIA's driver for CUDA {built_with} (580 or newer for CUDA 13)."
    return Missing(f"No GPU can be used: {reason.rstrip('.')}.", fix)
