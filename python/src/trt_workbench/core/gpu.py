"""GPUs as the driver reports them through NVML: identity, clocks, power and what disturbs a measurement."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Where the kernel's files are; a test has its own.
_ROOT = Path("/")
# Of the kernel's driver; of WSL 2. A container may show them without NVML.
_DEVICE_FILES = ("dev/nvidia[0-9]*", "dev/dxg")

_ADVICE = "Install NVIDIA's driver 580 or newer; start a container with access to the GPUs."
_OPEN = "On Ubuntu: `sudo ubuntu-drivers install nvidia:580-open`, then reboot."


def driver_report() -> dict[str, Any]:
    """Ask NVML for the driver and its GPUs.

    Returns:
        `{"driver_version", "cuda_driver_version", "gpus": […]}`, or `{"error": why, "gpus": []}` without a driver that
        answers.
        Clocks are in MHz, power in W, temperature in °C, memory in bytes; a figure the card does not report is None.
    """
    if importlib.util.find_spec("pynvml") is None:
        return {"error": "nvidia-ml-py is not installed", "gpus": []}
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return {"error": f"no NVIDIA driver answers ({error})", "gpus": []}
    try:
        cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        return {
            "driver_version": _text(pynvml.nvmlSystemGetDriverVersion()),
            "cuda_driver_version": f"{cuda // 1000}.{cuda % 1000 // 10}",
            "gpus": [_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())],
        }
    except pynvml.NVMLError as error:  # a GPU that fell off the bus, or one that this user may not see
        return {"error": f"the NVIDIA driver does not answer ({error})", "gpus": []}
    finally:
        pynvml.nvmlShutdown()


def driver_version() -> str | None:
    """Return the version of the NVIDIA driver: the kernel module's, which is there at once, or else NVML's."""
    found: str | None = _read(_ROOT / "sys/module/nvidia/version") or driver_report().get("driver_version")
    return found


def first_gpu() -> dict[str, Any] | None:
    """Return NVML's data on the first GPU that this process may use, without CUDA; None where there is none."""
    return gpu_at(0)


def gpu_at(device: int) -> dict[str, Any] | None:
    """Return NVML's data on a GPU by CUDA's number in this process, without CUDA; None where there is none."""
    gpus = driver_report()["gpus"]
    name = nvml_name(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if isinstance(name, str):
        return next((gpu for gpu in gpus if str(gpu["uuid"]).startswith(name)), None)
    return gpus[name] if name is not None and name < len(gpus) else None


def visible_gpus() -> list[str]:
    """Return what CUDA_VISIBLE_DEVICES is for a process that is to see one GPU alone, by CUDA's number in this one."""
    gpus, visible = driver_report()["gpus"], os.environ.get("CUDA_VISIBLE_DEVICES")
    return [str(name) for name in [nvml_name(device, visible) for device in range(len(gpus))] if name is not None]


def why_no_gpu(report: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return in a sentence why no GPU can be used, and its fix, found out without CUDA; None where there may be one.

    Args:
        report: of `driver_report`.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if nvml_name(0, visible) is None:
        return f"No GPU can be used: CUDA_VISIBLE_DEVICES={visible} hides every GPU.", "Unset it, or name a GPU in it."
    if report["gpus"] or any(any(_ROOT.glob(pattern)) for pattern in _DEVICE_FILES):
        return None
    reason, fix = no_gpu(report)
    return f"No GPU can be used: {reason.rstrip('.')}.", fix


def no_gpu(report: Mapping[str, Any]) -> tuple[str, str]:
    """Return why NVML shows no GPU, with what the kernel says of a card that is there, and how to fix it.

    Blackwell and newer cards work with NVIDIA's open kernel modules alone: with the proprietary ones the driver answers
    and shows no card.

    Args:
        report: of `driver_report`, without GPUs.
    """
    reason = str(report.get("error", "the driver sees no GPU"))
    vendors = [vendor for vendor in sorted(_ROOT.glob("sys/bus/pci/devices/*/vendor")) if _read(vendor) == "0x10de"]
    cards = [vendor.parent for vendor in vendors if _read(vendor.with_name("class")).startswith("0x03")]
    if not cards:
        return reason, _ADVICE
    loaded = re.search(r"(Open )?Kernel Module.*?(\d+\.[\d.]+)", _read(_ROOT / "proc/driver/nvidia/version"))
    if loaded is None:
        driver = cards[0] / "driver"
        other = f", which uses {driver.resolve().name}" if driver.exists() else ""
        signed = any(_read(file).endswith("\x01") for file in _ROOT.glob("sys/firmware/efi/efivars/SecureBoot-*"))
        key = " Secure Boot is on: if the installation asks for a password, choose Enroll MOK at the next start."
        fix = f"Install NVIDIA's driver with the open kernel modules. {_OPEN}{key if signed else ''}"
        return f"{reason}; the kernel module nvidia is not loaded for the card {cards[0].name}{other}", fix
    reason += f"; NVIDIA's {'open' if loaded[1] else 'proprietary'} kernel module {loaded[2]} is loaded"
    if "Library Not Found" in reason:
        return reason, "Start a container with access to the GPUs; elsewhere install the driver's libraries."
    if loaded[1] or "error" in report:
        return reason, "Reboot; if that does not help, `sudo dmesg | grep NVRM` shows the cause."
    return reason, f"GeForce RTX 50, B200 and newer cards need the open kernel module. {_OPEN}"


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="latin-1").strip()
    except OSError:
        return ""


def nvml_name(device: int, visible: str | None) -> int | str | None:
    """Return NVML's name of a CUDA device: its index, or its UUID where the process gets its GPUs by UUID.

    NVML counts all GPUs by PCI address. CUDA counts those of CUDA_VISIBLE_DEVICES, by address too as long as the GPUs
    are alike or CUDA_DEVICE_ORDER is PCI_BUS_ID (CUDA programming guide, environment variables).

    Args:
        device: CUDA's number of the device in the process.
        visible: the process's CUDA_VISIBLE_DEVICES; None where it is not set.

    Returns:
        An index, a UUID (or the beginning of one), or None where the process sees no such device.
    """
    if visible is None:
        return device
    entries = [entry.strip() for entry in visible.split(",")]
    # The first entry that is no device ends the list, as CUDA reads it.
    valid = list(itertools.takewhile(lambda entry: entry.isdecimal() or entry.startswith(("GPU-", "MIG-")), entries))
    if device >= len(valid):
        return None
    return int(valid[device]) if valid[device].isdecimal() else valid[device]


def _gpu(index: int) -> dict[str, Any]:
    import pynvml as nvml

    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(query: Callable[..., Any], *args: Any) -> Any:
        try:
            return query(handle, *args)
        except nvml.NVMLError:
            return None

    memory = ask(nvml.nvmlDeviceGetMemoryInfo)
    capability = ask(nvml.nvmlDeviceGetCudaComputeCapability)
    power, limit = ask(nvml.nvmlDeviceGetPowerUsage), ask(nvml.nvmlDeviceGetEnforcedPowerLimit)
    processes = ask(nvml.nvmlDeviceGetComputeRunningProcesses)
    return {
        "index": index,
        "name": _text(ask(nvml.nvmlDeviceGetName)),
        "uuid": _text(ask(nvml.nvmlDeviceGetUUID)),
        "compute_capability": None if capability is None else f"{capability[0]}.{capability[1]}",
        "memory_total_bytes": memory and memory.total,
        "memory_used_bytes": memory and memory.used,
        "sm_clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        "sm_clock_max_mhz": ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        "power_w": None if power is None else power / 1000,
        "power_limit_w": None if limit is None else limit / 1000,
        "temperature_c": ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        "throttle_reasons": ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons),
        "persistence_mode": ask(nvml.nvmlDeviceGetPersistenceMode),
        "compute_processes": None if processes is None else len(processes),
    }


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
