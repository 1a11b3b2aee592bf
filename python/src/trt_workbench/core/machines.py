"""Whether two runs were measured on the same machine with the same libraries, by their environments and records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trt_workbench.core.artefacts import BenchArtefacts, Environment, Gpu
from trt_workbench.core.gpu import nvml_name
from trt_workbench.core.records import Record

_TENSORRT = "TensorRT"
_Fact = tuple[str, bool, str | None]


@dataclass(frozen=True)
class MachineDifference:
    """Something that is not the same in two runs.

    Attributes:
        what: its name, such as "GPU".
        a: in the first run; None where it is not recorded.
        b: in the second.
        decides: whether figures from either side are not to be compared unless that is asked for.
    """

    what: str
    a: str | None
    b: str | None
    decides: bool

    def __str__(self) -> str:
        """Return it as a sentence's part."""
        return f"{self.what}: {self.a or 'not recorded'} against {self.b or 'not recorded'}"


def differences(a: BenchArtefacts, b: BenchArtefacts) -> list[MachineDifference]:
    """Return what differs between the machines and libraries of two runs, what decides first."""
    return _differences(facts(a.environment, a.records), facts(b.environment, b.records))


def other_machine(earlier: Environment, now: Environment) -> list[str]:
    """Return what differs between two environments so that times are not to be compared; nothing on one machine."""
    return [str(one) for one in _differences(facts(earlier), facts(now)) if one.decides]


def _differences(a: Iterable[_Fact], b: Iterable[_Fact]) -> list[MachineDifference]:
    found = [
        MachineDifference(what, first, second, decides)
        for (what, decides, first), (_, _, second) in zip(a, b, strict=True)
        # a run in which every engine failed names no TensorRT
        if first != second and (what != _TENSORRT or (first and second))
    ]
    return sorted(found, key=lambda one: not one.decides)


def facts(environment: Environment, records: Iterable[Record] = ()) -> Iterator[_Fact]:
    """Yield what a machine is: a name, whether it decides if times may be compared, and what it is there."""
    driver, cpu = environment.driver, environment.cpu
    yield "GPU", True, _joined(_visible(driver.gpus, environment.variables.get("CUDA_VISIBLE_DEVICES")))
    yield "driver", True, driver.driver_version
    yield "CUDA of the driver", True, driver.cuda_driver_version
    yield "CPU", True, cpu.model
    yield "usable CPUs", True, str(cpu.processors_available or "") or None
    # what the sessions themselves said: an environment may hold other versions than those that were loaded
    yield (
        _TENSORRT,
        True,
        _joined(sorted({str(one) for record in records if (one := record.provenance.get("tensorrt"))})),
    )
    for package in ("onnxruntime", "onnxruntime-gpu", "torch", "trt-workbench", "trt-workbench-native"):
        yield package, False, environment.packages.get(package)
    yield "Python", False, environment.python
    yield "frequency governor", False, cpu.governor


def _visible(gpus: Sequence[Gpu], visible: str | None) -> list[str]:
    """Return the names of the GPUs that CUDA could see, in CUDA's order."""
    called = [nvml_name(device, visible) for device, _ in enumerate(gpus)]
    return [
        str(gpu.name)
        for name in called
        for gpu in gpus
        if gpu.index == name or (isinstance(name, str) and str(gpu.uuid).startswith(name))
    ]


def _joined(texts: Iterable[str]) -> str | None:
    return ", ".join(texts) or None
