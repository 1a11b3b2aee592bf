"""The memory of the machine, and the demands on it."""

from __future__ import annotations

import math
import resource
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trt_workbench.core.counts import sized
from trt_workbench.core.errors import UsageProblem

# of version 2 and of version 1: the limit, and what is used of it
_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
# Not worth asking the system for.
_SMALL = 2**24


# Below it libraries cannot be loaded, and some end the process themselves: OpenBLAS, and the loader of libraries.
_LEAST = 2**29


def too_little() -> str:
    """Return what is wrong with a limit of the process's address space, as a message; "" where nothing is."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or limit >= _LEAST:
        return ""
    return (
        f"The address space is limited to {sized(limit)}, but the libraries alone need {sized(_LEAST)}; raise `ulimit "
        "-v`."
    )


def give_back() -> None:
    """Give memory that was let go of back to the system: glibc keeps it, and a runtime takes as much again."""
    import ctypes

    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def available_bytes() -> int:
    """Return the memory that is free, within the limits of the container and of the process if there are any."""
    import psutil

    available = int(psutil.virtual_memory().available)
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        available = min(available, max(0, limit - int(psutil.Process().memory_info().vms)))
    for limits, uses in _CGROUPS:
        if (most := _number(limits)) is not None:
            available = min(available, max(0, most - (_number(uses) or 0) + _cached(uses.with_name("memory.stat"))))
    return available


def _number(path: Path) -> int | None:
    """Return the number in a file; None without the file, or where it says "max"."""
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return int(text) if text.isdigit() else None


def _cached(path: Path) -> int:
    """Return the bytes of files in memory that a container gives back when it needs them, as `docker stats` does."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    found = dict(line.split(maxsplit=1) for line in lines if " " in line)
    # version 1 counts the children's apart
    return int(found.get("total_inactive_file", found.get("inactive_file", 0)))


def require_room(what: str, shape: Sequence[int], bytes_each: int) -> None:
    """Refuse the shape of an array before it is made.

    Linux grants more memory than there is, and then ends the process that uses it, without a word; numpy has errors of
    its own for what it cannot even count.

    Args:
        what: will be made, to begin the message with.
        shape: of it. A dimension of 0 is fine, as an empty cache has one.
        bytes_each: memory for one number while the array is made.

    Raises:
        UsageProblem: a dimension is negative, or there is not so much memory.
    """
    if min(shape, default=0) < 0:
        raise UsageProblem(f"{what} cannot have the shape {_sizes(shape)}: a dimension is negative.")
    # numpy counts the others even where one is 0
    wanted = math.prod(max(1, size) for size in shape) * bytes_each
    if wanted > _SMALL and wanted > (available := available_bytes()):
        raise UsageProblem(
            f"{what} of shape {_sizes(shape)} needs {sized(wanted)}, but only {sized(available)} "
            "of memory are free; use smaller shapes or a smaller batch."
        )


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
