"""The pictures of a predict run: every image, and every video, with the boxes that were found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import write_bytes
from trt_workbench.vision.boxes import DrawnBox, bgr, draw_boxes
from trt_workbench.vision.tasks.base import VisionTask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trt_workbench.vision.document import DetectionRecord
    from trt_workbench.vision.image_sources import SourceImage

_QUALITY = 90
_JPEG_SIDE = 65_500  # pixels, of libjpeg


def draw_found(pixels: NDArray[np.uint8], task: VisionTask, found: Sequence[DetectionRecord]) -> None:
    """Draw what a task finds into an image, BGR [height, width, 3], with its labels."""
    for one in reversed(found):
        task.paint(pixels, one, 1.0, bgr(one["class_id"]))
    boxes = [
        DrawnBox(
            task.label_place(one["box"], place),
            f"{one['class_name']} {one['score']:.2f}",
            one["class_id"],
            2 if task.framed else 0,
        )
        for place, one in enumerate(found)
    ]
    draw_boxes(pixels, boxes)


class PredictedPictures(AbstractContextManager["PredictedPictures"]):
    """Writes `00001-NAME.jpg` for an image and `00001-NAME.mp4` for a video, numbered in the order they are read.

    An image that is too large for a JPEG becomes a PNG.
    """

    def __init__(self, folder: Path, task: VisionTask) -> None:
        """Write what a task finds into `folder`, which is made."""
        folder.mkdir()
        self._folder, self._task, self._count = folder, task, 0
        self._video: Any = None
        self._place_of_video, self._frames = folder, 0
        self._source: Path | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the video that is being written. Raises UsageProblem as `add`, unless an error is under way."""
        self._end(check=error is None)

    def add(self, picture: SourceImage, found: Sequence[DetectionRecord]) -> None:
        """Draw into the picture and write it.

        Raises:
            UsageProblem: the video cannot be encoded here, or the one before was not written whole.
            OSError: the folder is not writable or the disk is full.
        """
        import cv2

        pixels = picture.pixels
        draw_found(pixels, self._task, found)
        if picture.frame is None:
            suffix = ".jpg" if max(pixels.shape) <= _JPEG_SIDE else ".png"
            written, encoded = cv2.imencode(suffix, pixels, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
            if not written:
                raise UsageProblem(f"OpenCV cannot encode the picture; skip pictures (--no-pictures): {picture.path}")
            write_bytes(self._place(picture, suffix), encoded.tobytes())
            return
        if picture.frame == 0:
            self._begin(picture, pixels.shape[1::-1])
        self._video.write(pixels)
        self._frames += 1

    def _place(self, picture: SourceImage, suffix: str) -> Path:
        self._end()
        self._count += 1
        # a name that is no text, or longer than a file system takes, is not carried on
        stem = picture.path.stem.encode(errors="replace").decode()[:60]
        return self._folder / f"{self._count:05}-{stem}{suffix}"

    def _begin(self, picture: SourceImage, size: Sequence[int]) -> None:
        import cv2

        place, rate = self._place(picture, ".mp4"), picture.frames_per_s or 25.0
        folder = os.open(self._folder, os.O_PATH)  # its name may be no text, on which OpenCV's bindings crash
        try:
            code = cv2.VideoWriter_fourcc(*"mp4v")  # type: ignore[attr-defined]
            video = cv2.VideoWriter(f"/proc/self/fd/{folder}/{place.name}", code, rate, size)
        finally:
            os.close(folder)
        if not video.isOpened():
            raise UsageProblem(f"OpenCV cannot encode a video here; skip pictures (--no-pictures): {place}")
        self._video, self._place_of_video, self._frames = video, place, 0

    def _end(self, *, check: bool = True) -> None:
        if self._video is None:
            return
        self._video.release()
        self._video = None
        from trt_workbench.vision.image_sources import count_frames

        # OpenCV does not report a full disk
        if check and (found := count_frames(self._place_of_video)) < self._frames:
            raise UsageProblem(
                f"The video is incomplete: {found} of its {self._frames} frames can be read; free disk space, "
                f"choose another place with --output, or skip pictures (--no-pictures): {self._place_of_video}"
            )
