"""The platforms of a workspace: a conda subdir and the least that a machine must offer to count as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskrunner.machine import Machine
from taskrunner.versions import version_tuple


@dataclass(frozen=True)
class Platform:
    """An entry of `[workspace] platforms`. Every figure is a floor: a newer machine fits as well."""

    name: str
    subdir: str
    glibc: str | None = None
    cuda_driver: str | None = None
    cuda_arch: str | None = None

    def lacking(self, machine: Machine) -> list[str]:
        """Return what the machine lacks to count as this platform, in words; nothing when it fits."""
        lacks = [] if machine.subdir == self.subdir else [f"{self.subdir} (this is {machine.subdir})"]
        floors = (
            ("glibc", self.glibc, machine.glibc),
            ("a CUDA driver for", self.cuda_driver, machine.cuda_driver),
            ("a GPU of compute capability", self.cuda_arch, machine.cuda_arch),
        )
        for what, floor, offered in floors:
            if floor and (offered is None or version_tuple(offered) < version_tuple(floor)):
                lacks.append(f"{what} {floor} or newer (found: {offered or 'none'})")
        return lacks


def read_platforms(entries: list[Any]) -> tuple[Platform, ...]:
    """Read the entries in order: the order is their priority."""
    return tuple(_read_platform(entry) for entry in entries)


def _read_platform(entry: Any) -> Platform:
    if isinstance(entry, str):
        return Platform(name=entry, subdir=entry)
    cuda = entry.get("cuda")
    if isinstance(cuda, str):
        cuda = {"driver": cuda}
    cuda = cuda or {}
    subdir = entry.get("platform", entry.get("name"))
    return Platform(
        name=entry.get("name", subdir),
        subdir=subdir,
        glibc=entry.get("glibc"),
        cuda_driver=cuda.get("driver"),
        cuda_arch=cuda.get("arch"),
    )
