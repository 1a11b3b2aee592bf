"""Images, folders of images and videos as one sequence of pictures, read one at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from trt_workbench.backends.images import Pixels
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_there
from trt_workbench.core.image_files import IMAGE_SUFFIXES, images_below, is_image
from trt_workbench.core.input_files import open_regular
from trt_workbench.vision.decode import read_image

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
            "OpenCV cannot decode the video: it has another format, is damaged, or is a list of other files; replace "
            f"it: {path}"
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


# No playlists, which would name further files.
VIDEOS = frozenset({".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg"})


@dataclass(frozen=True)
class SourceImage:
    """One image, or one frame of a video.

    Attributes:
        path: of the file.
        frame: number of the frame, from 0; None for an image.
        pixels: uint8 [height, width, 3], BGR; of an image, where it was read to.
        frames_per_s: of the video, as the file says; None for an image.
    """

    path: Path
    frame: int | None
    pixels: Pixels
    frames_per_s: float | None = None


@dataclass(frozen=True)
class Sources:
    """Files in the order in which they are read, and how many pictures there are, by what videos say."""

    files: tuple[Path, ...]
    count: int

    def pictures(
        self,
        note: Callable[[str], None] = lambda _: None,
        read: Callable[[Path], Pixels] = read_image,
    ) -> Iterator[SourceImage]:
        """Yield every picture; `read` makes pixels of an image file.

        Raises:
            UsageProblem: an image is missing or damaged, or a video cannot be opened.
        """
        for path in self.files:
            if path.suffix.lower() in IMAGE_SUFFIXES:
                yield SourceImage(path, None, read(path))
            else:
                yield from _frames(path, note)


def find_sources(given: Sequence[Path]) -> Sources:
    """Return the files to read: those that are named, and the images and videos of folders, by name.

    Raises:
        UsageProblem: a file does not exist or is neither, or a folder holds none.
    """
    files: list[Path] = []
    for path in given:
        require_there("file or folder", path)
        if path.is_dir():
            inside = sorted(entry for entry in path.iterdir() if is_image(entry.name, VIDEOS) and not entry.is_dir())
            if not inside:
                deeper = next(images_below(path), None)
                below = f"; pass a folder below it that does, such as {deeper.parent}" if deeper else ""
                raise UsageProblem(f"The folder contains no images or videos ({_known()}){below}: {path}")
            files += inside
        elif path.suffix.lower() not in IMAGE_SUFFIXES | VIDEOS:
            raise UsageProblem(f"The file name has no extension of an image or video ({_known()}): {path}")
        else:
            files.append(path)
    return Sources(tuple(files), sum(map(_count, files)))


def _known() -> str:
    return " ".join(sorted(IMAGE_SUFFIXES | VIDEOS))


def _count(path: Path) -> int:
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return 1
    video = _opened(path)
    try:
        return max(1, int(video.get(cv2.CAP_PROP_FRAME_COUNT)))
    finally:
        video.release()


def _opened(path: Path) -> cv2.VideoCapture:
    try:
        return open_video(path)
    except OSError as error:
        raise UsageProblem(f"The video cannot be read ({error.strerror or error}): {path}") from error


def _frames(path: Path, note: Callable[[str], None]) -> Iterator[SourceImage]:
    video = _opened(path)
    try:
        rate, said = video.get(cv2.CAP_PROP_FPS), int(video.get(cv2.CAP_PROP_FRAME_COUNT))
        frame = 0
        while True:
            there, pixels = video.read()
            if not there:
                break
            yield SourceImage(path, frame, np.asarray(pixels, np.uint8), rate)
            frame += 1
        if frame == 0:
            raise UsageProblem(f"No frame of the video can be decoded; replace it: {path}")
        if frame < said:
            note(f"Only {frame} of the {said} frames that the video lists could be decoded: {path}")
    finally:
        video.release()
