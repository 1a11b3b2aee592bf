"""The EXIF orientation of an image file: how stored pixels are turned to be seen upright.

OpenCV reads it of some kinds of files, depending on its release, and does not tell it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

Exif = Literal["apply", "ignore"]
"""What becomes of an EXIF orientation."""

_TAG, _SHORT = 0x0112, 3
_EXIF = b"Exif\0\0"


def read_orientation(data: bytes) -> int:
    """Return the orientation 1 to 8 in the EXIF data of a JPEG, PNG or WebP file; 1 where there is none."""
    for block in _blocks(data):
        try:
            if (found := _in_tiff(block.removeprefix(_EXIF))) is not None:
                return found if 1 <= found <= 8 else 1
        except struct.error:  # cut short: no viewer turns such an image
            continue
    return 1


def turned(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Return pixels [height, width, 3] as an orientation of 1 to 8 shows them (EXIF 2.3, tag 274)."""
    if orientation in (5, 6, 7, 8):
        pixels = np.asarray(cv2.transpose(pixels), np.uint8)
    flip = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}.get(orientation)
    return pixels if flip is None else np.asarray(cv2.flip(pixels, flip), np.uint8)


def _blocks(data: bytes) -> Iterator[bytes]:
    """Yield the parts of a file that may be EXIF data."""
    if data.startswith(b"\xff\xd8"):
        at = 2
        while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != 0xDA:
            if data[at + 1] == 0xFF:  # fill byte before a marker
                at += 1
                continue
            end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
            if data[at + 1] == 0xE1 and data.startswith(_EXIF, at + 4):
                yield data[at + 4 : end]
            at = end
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        yield from _chunks(data, 8, "big", b"eXIf", 4)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        yield from _chunks(data, 12, "little", b"EXIF", 0)


def _chunks(data: bytes, at: int, order: Literal["big", "little"], wanted: bytes, checksum: int) -> Iterator[bytes]:
    """Yield the chunks with a name: PNG has length, name, content, checksum; RIFF name, length, content, evened."""
    name_at, length_at = (4, 0) if checksum else (0, 4)
    while at + 8 <= len(data):
        length = int.from_bytes(data[at + length_at : at + length_at + 4], order)
        if data[at + name_at : at + name_at + 4] == wanted:
            yield data[at + 8 : at + 8 + length]
        at += 8 + length + (checksum or length % 2)


def _in_tiff(block: bytes) -> int | None:
    """Return the value of the orientation tag in the first directory; None without one. Raises struct.error."""
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None:
        return None
    (start,) = struct.unpack_from(f"{order}I", block, 4)
    (count,) = struct.unpack_from(f"{order}H", block, start)
    for place in range(count):
        tag, kind, _, value = struct.unpack_from(f"{order}HHIH", block, start + 2 + 12 * place)
        if (tag, kind) == (_TAG, _SHORT):
            return int(value)
    return None
