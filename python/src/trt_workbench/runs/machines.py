"""Whether two runs were measured on the same machine with the same libraries, by their environments and records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trt_workbench.runs.artefacts import BenchArtefacts
from trt_workbench.runs.records import Record
from trt_workbench.system.gpu import visible_gpus

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
    return _differences(_facts(a.environment, a.records), _facts(b.environment, b.records))


def other_machine(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what differs between two environments so that times are not to be compared; nothing on one machine.

    Args:
        earlier: content of the env.json of an earlier run.
        now: that of this one.
    """
    return [str(one) for one in _differences(_facts(earlier, ()), _facts(now, ())) if one.decides]


def _differences(a: Iterable[_Fact], b: Iterable[_Fact]) -> list[MachineDifference]:
    found = [
        MachineDifference(what, first, second, decides)
        for (what, decides, first), (_, _, second) in zip(a, b, strict=True)
        # a run in which every engine failed names no TensorRT
        if first != second and (what != _TENSORRT or (first and second))
    ]
    return sorted(found, key=lambda one: not one.decides)


def _facts(environment: Mapping[str, Any], records: Iterable[Record]) -> Iterator[_Fact]:
    driver, cpu, packages = (_object(environment.get(name)) for name in ("driver", "cpu", "packages"))
    variables = _object(environment.get("variables"))
    yield "GPU", True, _joined(visible_gpus(driver.get("gpus") or (), variables.get("CUDA_VISIBLE_DEVICES")))
    yield "driver", True, _text(driver.get("driver_version"))
    yield "CUDA of the driver", True, _text(driver.get("cuda_driver_version"))
    yield "processor", True, _text(cpu.get("model"))
    yield "processors that could be used", True, _text(cpu.get("processors_available"))
    yield _TENSORRT, True, _joined(_versions(records, "tensorrt"))
    for package in ("onnxruntime", "onnxruntime-gpu", "torch", "trt-workbench", "trt-workbench-native"):
        yield package, False, _text(packages.get(package))
    yield "Python", False, _text(environment.get("python"))
    yield "frequency governor", False, _text(cpu.get("governor"))


def _versions(records: Iterable[Record], name: str) -> list[str]:
    """What the sessions themselves said: an environment may hold other versions than those that were loaded."""
    return sorted({str(record.provenance[name]) for record in records if record.provenance.get(name)})


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _joined(texts: Iterable[str]) -> str | None:
    return ", ".join(texts) or None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
