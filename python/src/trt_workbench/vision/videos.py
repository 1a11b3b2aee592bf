"""Video files by OpenCV's FFmpeg: opened without their names, and nothing but themselves."""

from __future__ import annotations

import os
from pathlib import Path

import cv2

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import open_regular

_VARIABLE = "OPENCV_FFMPEG_CAPTURE_OPTIONS"
# What a file holds counts, not what it is called: a playlist or script (HLS, DASH, SDP, ffconcat, ...) opens further
# files. FFmpeg's names of the containers that hold everything themselves, its own check (libavformat/avformat.h).
_CONTAINERS = "mov,matroska,avi,mpeg,mpegts,mpegvideo,m4v"
_OPTIONS = f"format_whitelist;{_CONTAINERS}|protocol_whitelist;file"


def open_video(path: Path) -> cv2.VideoCapture:
    """Open a video for reading.

    FFmpeg gets the number of an open file: in a name it would take `10:30.mp4` for an address, and OpenCV's bindings
    crash on one that is no UTF-8.

    Raises:
        UsageProblem: it is no video in a container of its own.
        OSError: it cannot be read, or is no regular file.
    """
    with open_regular(path) as file:
        before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = _OPTIONS
        try:
            video = cv2.VideoCapture(f"file:/proc/self/fd/{file.fileno()}", cv2.CAP_FFMPEG)
        finally:
            del os.environ[_VARIABLE]
            os.environ.update({} if before is None else {_VARIABLE: before})
    if not video.isOpened():
        raise UsageProblem(
            "The file is no video that OpenCV can decode, it is damaged, or it is a list of other files; replace it: "
            f"{path}"
        )
    return video


def count_frames(path: Path) -> int:
    """Return how many frames of a video can be decoded; 0 of what is none. Raises OSError."""
    try:
        video = open_video(path)
    except UsageProblem:
        return 0
    count = 0
    while video.grab():
        count += 1
    video.release()
    return count
