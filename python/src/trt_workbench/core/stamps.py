"""Whether a file is still the one that was read before."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

# File systems date a change by a clock that ticks this seldom at most: a second change within a tick is not seen.
_TICK_NS = 20_000_000


class Stamp(NamedTuple):
    """What says that a file is the same: where it is kept, and when it changed last."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    def has_content_of(self, other: Stamp) -> bool:
        """Whether the content is the same, too, for all that is known: a new name or new rights change no content."""
        return self[:-1] == other[:-1]


def stamp_of(file: Path | int) -> Stamp | None:
    """Return the stamp of a file, named or open; None where there is none."""
    try:
        status = os.fstat(file) if isinstance(file, int) else file.stat()
    except OSError:
        return None
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def settled_stamp(file: Path | int) -> Stamp | None:
    """Return the stamp of a file as `stamp_of`, once every further change will give another one."""
    stamp = stamp_of(file)
    if stamp and (left := _unsettled_ns(stamp)):
        time.sleep(left / 1e9)
        return stamp_of(file)
    return stamp


def is_settled(stamp: Stamp) -> bool:
    """Whether every further change of a file will give it another stamp."""
    return not _unsettled_ns(stamp)


def _unsettled_ns(stamp: Stamp) -> int:
    age = time.time_ns() - stamp.changed_ns
    return _TICK_NS - age if 0 <= age < _TICK_NS else 0
