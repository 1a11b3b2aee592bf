"""The device's decoder of JPEG files compared with the host's: how far apart their pixels are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from trt_workbench.backends.images import JpegDecoder
from trt_workbench.backends.preparation import Exif
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.document import ImageDecoding

COMPARED: Final = 8
"""Images that both decode before a run."""
_MOST_MEAN = 1.5  # grey levels: rounding, and another filter of the colours, make less


def compare_decoders(decoder: JpegDecoder, paths: Sequence[Path], exif: Exif) -> ImageDecoding:
    """Decode the first images in both places.

    Returns:
        For records: the device's decoder, the images that it decoded, and the largest and the mean difference of their
        values from the host's in grey levels, None where it decoded none.

    Raises:
        UsageProblem: an image cannot be read.
        CheckFailed: the pixels are those of other images.
        DeviceFailure: the device failed.
    """
    reader, largest, total, count, images = ImageReader(exif, decoder), 0, 0, 0, 0
    for path in paths[:COMPARED]:
        found = reader.anywhere(path)
        if isinstance(found, np.ndarray):
            continue
        ours, theirs = reader(path), found.numpy()
        if ours.shape != theirs.shape:
            raise CheckFailed(
                f"{decoder.version} decodes an image as {list(theirs.shape)}, the host as {list(ours.shape)}: {path}. "
                "Pass --decode host, and report this."
            )
        apart = cv2.absdiff(ours, theirs)
        largest, total = max(largest, int(apart.max())), total + int(apart.sum())
        count, images = count + apart.size, images + 1
    mean = total / count if count else None
    if mean is not None and mean > _MOST_MEAN:
        raise CheckFailed(
            f"{decoder.version} and the host decode {counted(images, 'image')} with a mean difference of {mean:.2f} "
            f"grey levels, more than {_MOST_MEAN}. Pass --decode host, and report this."
        )
    known = None if mean is None else largest
    return {"library": decoder.version, "compared": images, "max_difference": known, "mean_difference": mean}
