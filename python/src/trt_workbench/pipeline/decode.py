"""Image files to pixels, as COCO's tools see them: three BGR channels, EXIF orientation ignored."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.input_files import read_bytes
from trt_workbench.errors import UsageProblem

_FLAGS = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION

_JPEG_START = b"\xff\xd8\xff"
_JPEG_END = b"\xff\xd9"
_JPEG_SCAN = 0xDA
_JPEG_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD9)}
_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND"


def read_image(path: Path) -> NDArray[np.uint8]:
    """Read an image file.

    Grey images get three equal channels, CMYK and YCCK JPEGs are converted to colour, an alpha channel is dropped,
    and of 16-bit channels the high byte is kept. The EXIF orientation is ignored, because COCO's annotations
    refer to the stored pixels.

    Args:
        path: a JPEG, PNG, WebP, BMP or TIFF file.

    Returns:
        uint8 [height, width, 3], channels in BGR order, C-contiguous.

    Raises:
        UsageProblem: the file is missing, unreadable, empty, cut short or not an image.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise UsageProblem(f"The image cannot be read ({error.strerror or error}): {path}") from error
    if not data:
        raise UsageProblem(f"The image file is empty; fetch it again: {path}")
    if _is_cut_short(data):
        # OpenCV would fill the missing part of a JPEG with grey and say nothing to the caller.
        raise UsageProblem(f"The image file is cut short, its end marker is missing; fetch it again: {path}")
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), _FLAGS)
    except cv2.error as error:  # more pixels than OpenCV's own limit, for one
        most = os.environ["OPENCV_IO_MAX_IMAGE_PIXELS"]
        reason = f"more than {most} pixels" if "MAX_IMAGE_PIXELS" in str(error) else error.err
        raise UsageProblem(f"OpenCV refuses the image ({reason}): {path}") from error
    if pixels is None:
        raise UsageProblem(f"The file is not an image that OpenCV can decode, or it is damaged; replace it: {path}")
    return np.asarray(pixels, np.uint8)


def _is_cut_short(data: bytes) -> bool:
    if data.startswith(_JPEG_START):
        scan = _first_scan(data)
        # Behind the start of the scan the bytes FF D9 stand for the end alone: pixel data stuffs FF with a zero.
        return scan is None or data.rfind(_JPEG_END, scan) < 0
    if data.startswith(_PNG_START):
        return data.rfind(_PNG_END) < 0
    return False


def _first_scan(data: bytes) -> int | None:
    """Return where a JPEG's first scan starts: a thumbnail inside an earlier segment has end markers of its own."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte before a marker
            at += 1
        elif marker == _JPEG_SCAN:
            return at
        elif marker in _JPEG_WITHOUT_LENGTH:
            at += 2
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
