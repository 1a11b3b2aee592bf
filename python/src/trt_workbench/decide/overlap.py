"""Whether calibration data hold samples that are scored: a score on what ranges or groups were chosen on flatters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_arrays, hash_file
from trt_workbench.engine.calibration import calibration_files, holds_images
from trt_workbench.model.low_precision.kinds import RANDOM
from trt_workbench.model.opened import Model
from trt_workbench.quantize import HALVES, CalibrationSettings, Half, ScoreSettings, calibration_data
from trt_workbench.vision import read_dataset


def images_overlap(calibration: str | None, images: Path, annotations: Path) -> bool:
    """Whether one of the calibration images is, by its bytes, one that an annotation file lists.

    Arrays are never taken to be images: how they were made of them is not known.

    Raises:
        UsageProblem: the annotations cannot be read, or there is no calibration data.
    """
    path = Path(calibration or "")
    if calibration is None or calibration == RANDOM or path.resolve() == images.resolve():
        return calibration != RANDOM
    if not holds_images(path):
        return False
    listed = read_dataset(images, annotations, allow_missing=True)
    scored = [file for image in listed.images if (file := listed.path(image)).is_file()]
    return _share_files(calibration_files(path), scored)


def samples_overlap(model: Model, calibration: CalibrationSettings, scored: CalibrationSettings) -> bool:
    """Whether one of the samples that ranges or a search may use equals one that is scored."""
    source = calibration.calibration
    if source is None or source == RANDOM or Path(source).resolve() == Path(scored.calibration or "").resolve():
        return source != RANDOM
    try:
        used = set(_hashes(model, calibration, None))
        used |= {one for half in HALVES for one in _hashes(model, calibration, half)}
        return any(one in used for one in _hashes(model, scored, None))
    except UsageProblem:  # told where the data are used
        return False


def _hashes(model: Model, settings: CalibrationSettings, half: Half | None) -> Iterator[str]:
    """Yield a hash of every sample that is drawn for ranges, or of one half for ranges and for the score."""
    for count in (settings.samples,) if half is None else {settings.samples, ScoreSettings.score_samples}:
        try:
            data = calibration_data(model, replace(settings, samples=count), half)
        except UsageProblem:
            if half is None:
                raise
            return  # too few for halves
        yield from map(hash_arrays, data.read())


def _share_files(one: Iterable[Path], other: Iterable[Path]) -> bool:
    """Whether two of the files are equal; only files of a size that both have are read."""
    sizes = [{file: file.stat().st_size for file in files} for files in (one, other)]
    both = set(sizes[0].values()) & set(sizes[1].values())
    found = [{hash_file(file) for file, size in files.items() if size in both} for files in sizes]
    return bool(found[0] & found[1])
