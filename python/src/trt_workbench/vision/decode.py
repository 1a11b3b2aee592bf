"""Image files to pixels, as COCO's tools see them: three BGR channels, and an EXIF orientation only on request."""

from __future__ import annotations

import functools
import os
import struct
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trt_workbench.backends.preparation import Exif
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import open_regular, read_bytes

_TAG, _SHORT = 0x0112, 3
_ON_SIDE = (5, 6, 7, 8)
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
    if orientation in _ON_SIDE:
        pixels = np.asarray(cv2.transpose(pixels), np.uint8)
    flip = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}.get(orientation)
    return pixels if flip is None else np.asarray(cv2.flip(pixels, flip), np.uint8)


def _blocks(data: bytes) -> Iterator[bytes]:
    """Yield the parts of a file that may be EXIF data."""
    if data.startswith(b"\xff\xd8"):
        for marker, at, end in _segments(data):
            if marker == 0xE1 and data.startswith(_EXIF, at + 4):
                yield data[at + 4 : end]
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


_FLAGS = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION

_JPEG_START = b"\xff\xd8\xff"
_JPEG_END = b"\xff\xd9"
_JPEG_SCAN = 0xDA
_JPEG_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD9)}
_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND"
_PNG_DEPTH = 24  # place of the bits a channel
_TIFF_STARTS = (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")
# Of all 16-bit images of a run: a camera of 12 bits fills a sixteenth of the range.
_DARK = 65535 // 2


class _Decoded(NamedTuple):
    """Pixels, the EXIF orientation (1 where there is none), and the largest value of 16-bit channels, else None."""

    pixels: NDArray[np.uint8]
    orientation: int
    largest: int | None


def read_image(path: Path, exif: Exif = "ignore") -> NDArray[np.uint8]:
    """Read an image file.

    Grey images get three equal channels, CMYK and YCCK JPEGs are converted to colour, an alpha channel is dropped,
    and of 16-bit channels the high byte is kept.

    Args:
        path: a JPEG, PNG, WebP, BMP or TIFF file.
        exif: whether an EXIF orientation turns the pixels. COCO's annotations refer to the stored ones. The orientation
            of a TIFF is part of the format, and always applied.

    Returns:
        uint8 [height, width, 3], channels in BGR order, C-contiguous.

    Raises:
        UsageProblem: the file is missing, unreadable, empty, cut short, not an image, or of floats.
    """
    return _decoded(_content(path), path, exif).pixels


def image_size(path: Path, exif: Exif = "ignore") -> tuple[int, int]:
    """Return the width and height of an image as `read_image` gives it, from the header of its file where that says it.

    Raises:
        UsageProblem: as `read_image`.
    """
    try:
        status = path.stat()
    except OSError:  # which reading it says, too
        return _image_size(path, exif)
    return _unchanged_size(path, exif, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=2**17)
def _unchanged_size(path: Path, exif: Exif, changed_ns: int, size: int) -> tuple[int, int]:  # noqa: ARG001 - of the key
    """Return what the header says, read once while the file is the same: a process reads a data set many times."""
    return _image_size(path, exif)


def _image_size(path: Path, exif: Exif) -> tuple[int, int]:
    try:
        with warnings.catch_warnings(), open_regular(path) as file:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # nothing is decoded
            with Image.open(file, formats=("JPEG", "PNG", "WEBP", "BMP")) as header:
                width, height = header.size
    except (OSError, Image.DecompressionBombError):  # of a TIFF's size its orientation is a part
        height, width = read_image(path, exif).shape[:2]
        return width, height
    if exif == "apply" and read_orientation(read_bytes(path)) in _ON_SIDE:
        width, height = height, width
    return width, height


class ImageReader:
    """Reads the images of a run, all in the same way, and keeps notes about them for the user. Thread-safe."""

    def __init__(self, exif: Exif = "ignore") -> None:
        """Read images as `read_image` does."""
        self._exif: Exif = exif
        self._lock = threading.Lock()
        self._turned = self._deep = self._largest = 0

    def __call__(self, path: Path) -> NDArray[np.uint8]:
        """Return the pixels. Raises UsageProblem as `read_image`."""
        found = _decoded(_content(path), path, self._exif)
        if found.orientation != 1 or found.largest is not None:
            with self._lock:
                self._turned += found.orientation != 1
                self._deep += found.largest is not None
                self._largest = max(self._largest, found.largest or 0)
        return found.pixels

    def counts(self) -> dict[str, int]:
        """Return what `add` takes: what was noticed of the images read so far."""
        return {"turned": self._turned, "deep": self._deep, "largest": self._largest}

    def add(self, turned: int, deep: int, largest: int) -> None:
        """Count images that another process has read."""
        self._turned, self._deep, self._largest = self._turned + turned, self._deep + deep, max(self._largest, largest)

    @property
    def ignored(self) -> bool:
        """Whether an EXIF rotation was ignored."""
        return self._turned > 0 and self._exif == "ignore"

    def notes(self) -> list[str]:
        """Return sentences about the images read so far."""
        notes = []
        if self._turned:
            done = "applied" if self._exif == "apply" else "ignored (the default; --exif apply rotates the image)"
            notes.append(f"The EXIF rotation of {counted(self._turned, 'image')} is {done}.")
        if self._deep and self._largest <= _DARK:
            notes.append(
                f"Images with 16 bits per channel: {self._deep}, largest value {self._largest} of 65535. Only the high "
                "byte is used, so they are dark: store them in the full range."
            )
        return notes


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise UsageProblem(f"The image cannot be read ({error.strerror or error}): {path}") from error


def _require_whole(data: bytes, path: Path | str) -> None:
    if not data:
        raise UsageProblem(f"The image file is empty; fetch it again: {path}")
    if _is_cut_short(data):
        # OpenCV would silently fill the missing part of a JPEG with grey.
        raise UsageProblem(f"The image file is truncated: its end marker is missing; fetch it again: {path}")


def _decoded(data: bytes, path: Path | str, exif: Exif) -> _Decoded:
    _require_whole(data, path)
    raw = np.frombuffer(data, np.uint8)
    is_tiff = data.startswith(_TIFF_STARTS)
    try:
        pixels = cv2.imdecode(raw, _FLAGS)
        is_deep = is_tiff or (data.startswith(_PNG_START) and data[_PNG_DEPTH : _PNG_DEPTH + 1] == b"\x10")
        deep = cv2.imdecode(raw, cv2.IMREAD_UNCHANGED) if is_deep else None
    except cv2.error as error:  # more pixels than OpenCV's own limit, for one
        most = os.environ["OPENCV_IO_MAX_IMAGE_PIXELS"]
        reason = f"more than {most} pixels" if "MAX_IMAGE_PIXELS" in str(error) else error.err
        raise UsageProblem(f"OpenCV cannot decode the image ({reason}): {path}") from error
    if deep is not None and deep.dtype not in (np.uint8, np.uint16):
        raise UsageProblem(
            f"Pixels of type {deep.dtype} are not supported; store the image with 8 bits per channel: {path}"
        )
    if pixels is None:
        raise UsageProblem(f"The file is not an image that OpenCV can decode, or it is damaged; replace it: {path}")
    orientation, stored = 1 if is_tiff else read_orientation(data), np.asarray(pixels, np.uint8)
    largest = int(deep.max()) if deep is not None and deep.dtype == np.uint16 else None
    return _Decoded(turned(stored, orientation) if exif == "apply" else stored, orientation, largest)


def _is_cut_short(data: bytes) -> bool:
    if data.startswith(_JPEG_START):
        # a thumbnail inside an earlier segment has end markers of its own
        scan = next((at for marker, at, _ in _segments(data) if marker == _JPEG_SCAN), None)
        # Behind the start of the scan the bytes FF D9 can only mark the end: pixel data stuffs FF with a zero.
        return scan is None or data.rfind(_JPEG_END, scan) < 0
    return data.startswith(_PNG_START) and data.rfind(_PNG_END) < 0


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield marker, start and end of each segment of a JPEG, up to its first scan."""
    at, marker = 2, 0
    while at + 4 <= len(data) and data[at] == 0xFF and marker != _JPEG_SCAN:
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte before a marker
            at += 1
        elif marker in _JPEG_WITHOUT_LENGTH:
            at += 2
        else:
            end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
            yield marker, at, end
            at = end
