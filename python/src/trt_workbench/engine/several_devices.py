"""One engine on several GPUs of one type, in one process: a thread next to each GPU loads and runs it there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine import native
from trt_workbench.engine.loading import LoadedEngine

Result = TypeVar("Result")
_PCI_DEVICES = Path("/sys/bus/pci/devices")


def require_alike(devices: Sequence[int]) -> list[dict[str, Any]]:
    """Return what the core says of GPUs that are of one type.

    Raises:
        UsageProblem: one is absent, or of another type than the first: a plan is built, and tuned, for one.
        ComponentMissing: the native core is absent.
    """
    found: list[dict[str, Any]] = []
    for device in devices:
        with native.translated():
            one = native.require("devices")(device)
        if not one:
            raise UsageProblem(f"CUDA device {device} does not exist. `trtw doctor` lists the GPUs.")
        found += one
    kinds = [(gpu["name"], gpu["compute_capability"]) for gpu in found]
    for device, (name, _), kind in zip(devices, kinds, kinds, strict=True):
        if kind != kinds[0]:
            raise UsageProblem(
                f"GPU {device} is a {name}, but GPU {devices[0]} is a {kinds[0][0]}, and a plan is built for one type. "
                "Name GPUs of one type, and run the others in a process of their own."
            )
    return found


def processors_beside(pci_id: str) -> list[int]:
    """Return the processors of a GPU's NUMA node that this process may use; all that it may, where none is known."""
    allowed = os.sched_getaffinity(0)
    try:
        text = (_PCI_DEVICES / pci_id.lower() / "local_cpulist").read_text(encoding="ascii")
        near = {number for part in text.strip().split(",") if part for number in _span(part)}
    except (OSError, ValueError):
        near = set()
    return sorted(near & allowed or allowed)


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class EnginesOnDevices:
    """An engine on each of several GPUs.

    What a GPU's thread allocates, page-locked memory too, lies on the NUMA node whose processors it runs on.

    Attributes:
        devices: indices of the GPUs.
        processors: those of each GPU's thread.
    """

    def __init__(self, devices: Sequence[int], load: Callable[[int], LoadedEngine]) -> None:
        """Start the threads, and load the engine in each.

        Args:
            devices: indices of CUDA devices.
            load: loads the engine on a device.

        Raises:
            UsageProblem: as `require_alike`.
            What `load` raises.
        """
        self.devices = tuple(devices)
        self.processors = [processors_beside(str(gpu.get("pci_id", ""))) for gpu in require_alike(devices)]
        self._threads = [
            ThreadPoolExecutor(1, f"trtw-gpu-{device}", os.sched_setaffinity, (0, processors))
            for device, processors in zip(devices, self.processors, strict=True)
        ]
        self._engines: list[LoadedEngine] = []
        try:
            self._engines = _results(
                [thread.submit(load, one) for one, thread in zip(devices, self._threads, strict=True)]
            )
        except BaseException:
            self.close()
            raise

    def each(self, work: Callable[[LoadedEngine], Result]) -> list[Result]:
        """Do work on every GPU at once, and return what it gave in the order of the GPUs. Raises what it raises."""
        pairs = zip(self._engines, self._threads, strict=True)
        return _results([thread.submit(work, engine) for engine, thread in pairs])

    def first(self, work: Callable[[LoadedEngine], Result]) -> Result:
        """Do work on the first GPU alone."""
        return self._threads[0].submit(work, self._engines[0]).result()

    def close(self) -> None:
        """End the threads once their work is done, and let go of the engines."""
        for thread in self._threads:
            thread.shutdown()
        self._engines = []

    def __enter__(self) -> EnginesOnDevices:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def _results(tasks: Sequence[Future[Result]]) -> list[Result]:
    """Wait for all tasks, so that none is at work when the error of one is raised."""
    failures = [error for task in tasks if (error := task.exception())]
    if failures:
        raise failures[0]
    return [task.result() for task in tasks]
