"""eval-coco: check what was asked, run the detector over the dataset, score it, write the run's files."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Backend, SessionOptions
from trt_workbench.backends.registry import AUTO, require_backend
from trt_workbench.core.counts import counted
from trt_workbench.core.environment import available_processors
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.core.interruptible import deferred_interrupts
from trt_workbench.core.settings import with_flags
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_files import read_part
from trt_workbench.core.shard_workers import open_journal
from trt_workbench.core.spread import LEFT_OUT
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.low_precision.evidence import calibration_inputs
from trt_workbench.model.low_precision.input_statistics import difference, input_statistics
from trt_workbench.model.opened import sha256_of
from trt_workbench.vision.class_map import ClassMap, class_lines
from trt_workbench.vision.dataset import CocoDataset, read_by
from trt_workbench.vision.dataset_check import check_annotations
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.detections import DetectionStore, DetectionTable, at_least
from trt_workbench.vision.detector import Detector
from trt_workbench.vision.letterbox import preprocess
from trt_workbench.vision.loop import EvaluationLoop, LoopSettings
from trt_workbench.vision.preparation import FINDS_OUT, options_of
from trt_workbench.vision.probe import IMAGES, Way, chosen, open_ways, probe, split, table
from trt_workbench.vision.scoring import NOTHING, CocoOutcome, Found, score
from trt_workbench.vision.settings import SCORE_THRESHOLD, CocoSettings
from trt_workbench.vision.sharding import PART, found_of, joined, write_shard
from trt_workbench.vision.tasks.registry import task_of

_MOST_CONCURRENT = 16  # runs share the memory bandwidth
# One image a run is fastest on a processor, where images in flight at once use the cores better than batches do.
_DYNAMIC_BATCH_ON_CPU, _DYNAMIC_BATCH = 1, 8


def batch_size(request: CocoRequest, backend: Backend, fixed: int | None = None) -> int:
    """Return the images per inference of a model that takes `fixed` images, or any number."""
    return request.batch or fixed or (_DYNAMIC_BATCH_ON_CPU if backend.devices == ("cpu",) else _DYNAMIC_BATCH)


def session_options(request: CocoRequest, backend: Backend, on_note: Callable[[str], None] | None) -> SessionOptions:
    """Return how the model is loaded."""
    concurrency = request.concurrency
    if concurrency is None:
        # N runs of one thread each outrun one run of N threads: no layer waits for its slowest thread.
        processors = request.threads or available_processors()
        concurrency = min(_MOST_CONCURRENT, processors) if backend.devices == ("cpu",) else 1
    # which inputs it has is not known yet; the backend itself makes a profile of the largest batch
    extra = {"max_batch": batch_size(request, backend)} if backend.ranges and not request.shapes else {}
    return SessionOptions(
        threads=request.threads,
        concurrency=concurrency,
        precision=request.precision,
        polls=False,
        extra=with_flags({**extra, **request.options}, backend.url_option(request.url)),
        shapes=request.shapes,
        note=on_note,
    )


INFINITE_INSIDE = "Outputs are finite, but internal values are not"
COMPARABLE_CONF = 0.05
"""Above this score threshold AP is not comparable with published figures: the curve's tail is cut off."""

_MOST_WORKERS = 8  # more do not help: readers share the interpreter
# Images whose values are compared with those of calibration.
_COMPARED = 32
# Images that a search for overflowing values goes through.
_EXPLAINED = 8

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class CocoRequest(CocoSettings):
    """The user's request.

    Attributes:
        model: the model file.
        images: folder of the images.
        annotations: COCO annotation file, or `data.yaml`.
        split: of `data.yaml`; None for its default.
        shapes: that the model is loaded for; a batch of one size is filled up. None to take what fits the dataset.
        find_out: whether what nobody says of the images is found out, on images that are not scored.
        shard: the block of the images to evaluate; None for all.
    """

    model: Path
    images: Path
    annotations: Path
    split: str | None = None
    shapes: Profile | None = None
    find_out: bool = False
    shard: Shard | None = None


class CocoEvaluation(AbstractContextManager["CocoEvaluation"]):
    """A checked request with its model loaded; nothing has been written yet. A context manager.

    Attributes:
        request: what was asked.
        backend: name of the backend that was chosen.
        task: what the model finds.
        dataset: the images and their annotations.
        detector: the loaded model, ready for images.
        settings: how the loop spreads the work.
        notes: what the user should know about this evaluation, in sentences.
        probe: what was found out of the images, and on which; None where nothing had to be.
        overflow: which inner values of a simulated model leave its format's range although its outputs are finite, as
            the end of a sentence.
    """

    probe: dict[str, Any] | None = None
    overflow: str = ""

    def __init__(self, request: CocoRequest, on_note: Callable[[str], None] | None = None) -> None:
        """Check everything that can be checked before the first image is read, load the model and run it once.

        Args:
            request: what was asked.
            on_note: called with messages for the user at once, such as the start of an engine build.

        Raises:
            UsageProblem: the model, dataset or an option cannot be used, or they do not fit each other.
            CheckFailed: the TensorRT engine is wrong, or not verified for the shapes that are used.
            ComponentMissing: the backend cannot serve here.
            DeviceFailure: the device failed while loading the model.
        """
        self.request = request
        backend = require_backend(request.backend, request.model.suffix, on_note)
        self.backend = backend.name
        self.dataset = read_by(vars(request), task_of("boxes"))
        self._of_dataset = check_annotations(self.dataset)
        class_lines(request.classes, self.dataset.categories)  # a file that cannot be used is refused before a build
        options = session_options(request, backend, on_note)
        self.detector = Detector(request.model, request, backend, options, on_note)
        try:
            self._model_sha256 = sha256_of(request.model)
            self.task = task_of(self.detector.family.task)
            if self.dataset.of_images != self.task.of_images:
                labels = "a class for each image" if self.dataset.of_images else "objects in images"
                raise UsageProblem(
                    f"The data set has {labels}, and the model is for {self.task.words}: {self.request.annotations}"
                )
            if self.task.keys:  # what the model is for is known only now
                self.dataset = read_by(vars(request), self.task)
                self._of_dataset = check_annotations(self.dataset)
            self.settings = self._loop_settings()
            self.classes = self._understood(on_note or (lambda _: None))
            self.detector.prepare(self.settings.batch, len(self.dataset.images))
            self.notes = self._notes()
        except BaseException:
            self.detector.session.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the model."""
        self.detector.session.close()

    def run(
        self,
        folder: Path,
        on_images: Progress | None = None,
        *,
        skipped: Collection[int] = (),
        journal: Path | None = None,
        earlier: Sequence[Path] = (),
    ) -> CocoOutcome:
        """Evaluate, score and write the run's files into `folder`. Once per object.

        Args:
            folder: an existing folder, such as the staging folder of a run directory.
            on_images: called with the images done and their total while the loop runs.
            skipped: as of `find`, as is the next one.
            journal: file.
            earlier: run directories of the same evaluation that was interrupted; what is done there is not done again.

        Raises:
            UsageProblem: an image is missing or corrupt, the model's outputs do not fit, or a file cannot be written.
            CheckFailed: the model returned NaN or infinite values.
            DeviceFailure: the device failed.
            KeyboardInterrupt: interrupted before any image was done, twice, or while scoring.
        """
        before = self._done_in(earlier)
        begin = len(before.done) if before else 0
        found = self.find(on_images, skipped=skipped, journal=journal, begin=begin)
        if before:
            found = joined([(0, before), (begin, found)], len(self.block))
        if self.request.shard:
            with deferred_interrupts():
                return write_shard(folder, self, found)
        outcome = score(folder, self.dataset, found, self.facts())
        if outcome.status == "partial":
            (folder / PART).mkdir()
            write_shard(folder / PART, self, found)
        return outcome

    def _done_in(self, earlier: Sequence[Path]) -> Found | None:
        """Return what interrupted runs found on the first images of the block; None where they have nothing."""
        ids = [image.id for image in self.dataset.images[self.block.start : self.block.stop]]
        for place in (left if self.request.shard else left / PART for left in earlier):
            found = found_of(read_part(place), self.task)
            if found.done.tolist() == ids[: len(found.done)]:
                return found
        return None

    def find(
        self,
        on_images: Progress | None = None,
        *,
        skipped: Collection[int] = (),
        journal: Path | None = None,
        begin: int = 0,
    ) -> Found:
        """Detect, and write nothing. Raises as `run`.

        Args:
            on_images: as of `run`.
            skipped: places in the block of images that are left out, because worker processes die of them.
            journal: file that says which images are begun and done, for `open_journal`; None for none.
            begin: place of the first image in the block, a multiple of the batch.
        """
        block = self.block
        own = enumerate(self.dataset.images[block.start : block.stop])
        images = [one for place, one in own if place >= begin and place not in skipped]
        image_ids = np.array([image.id for image in images], np.int64)
        store = DetectionStore(image_ids, self.classes.ids, self.classes.kept, self.task.most)
        detector, read = self.detector, self.detector.reader()
        loop = self._loop([self.dataset.path(one) for one in images], store, read, open_journal(journal, len(images)))
        try:
            result = loop.run(on_images)
        except NotFinite as error:
            raise NotFinite(error.what, self._explained()) from error
        found = Found(image_ids[result.done], result, store.collect(), read)
        if detector.session.simulated and (overflow := self._explained()):
            self.overflow = overflow
            found.notes.append(INFINITE_INSIDE + overflow)
        if len(images) and not len(found.detections):
            found.notes.append(f"{NOTHING}; {self._why_nothing()}.")
        if left := [self.dataset.images[block.start + place].file_name for place in sorted(skipped)]:
            found.notes.append(f"{LEFT_OUT} {counted(len(left), 'image')}: {', '.join(left)}.")
        return found

    @property
    def block(self) -> range:
        """The images that are evaluated, by their places in the data set: all, or those of the shard.

        Batches of a shard are batches of the whole, as what a model gives may depend on the others of a batch.
        """
        return (self.request.shard or Shard(0, 1)).block(len(self.dataset.images), self.settings.batch)

    def _understood(self, say: Callable[[str], None]) -> ClassMap:
        """Settle how images are prepared, and return the categories of the classes."""
        request, detector = self.request, self.detector
        ways = open_ways(detector.family, self.dataset.categories, request.classes)
        way = ways[0]
        if len(ways) > 1:
            if not request.find_out:
                detector.family.preparation()  # says what is to be passed
                raise UsageProblem(f"The model does not say which slot is the background. {FINDS_OUT}")
            every = dataclasses.replace(request, limit=None)
            whole = self.dataset if request.limit is None else read_by(vars(every), self.task)
            on, self.dataset = split(whole, self.dataset, request.seed, [*way.tried])
            say(f"Trying {counted(len(ways), 'way')} to prepare images, on {IMAGES} images that are not scored.")
            detector.family = way.family
            detector.prepare(self.settings.batch, IMAGES)
            measure = self.task.measures[0]
            rows = probe(ways, on, partial(self._detected, on), request.seed, measure)
            for line in table(rows, [*way.tried], measure):
                say(line)
            found = chosen(rows, [*way.tried], measure)
            way = next(one for one in ways if one.tried == found)
            self.probe = {"images": [image.id for image in on.images], "chosen": found, "ways": rows}
        detector.family = way.family
        return way.classes

    def _detected(self, dataset: CocoDataset, way: Way) -> DetectionTable:
        """Return what the model detects on some images when they are prepared in one way."""
        self.detector.take(way.family, self.settings.batch)
        ids = np.array([image.id for image in dataset.images], np.int64)
        store = DetectionStore(ids, way.classes.ids, way.classes.kept, self.task.most)
        paths = [dataset.path(image) for image in dataset.images]
        if self._loop(paths, store, self.detector.reader()).run().interrupted:
            raise KeyboardInterrupt
        return store.collect()

    def _loop(
        self, paths: list[Path], store: DetectionStore, read: ImageReader, journal: NDArray[np.uint8] | None = None
    ) -> EvaluationLoop:
        one = self.detector
        return EvaluationLoop(one.feed, one.family, one.decoding, paths, store, self.settings, read, journal)

    def _loop_settings(self) -> LoopSettings:
        fixed, asked = self.detector.fixed_batch, self.request.batch
        if fixed is not None and asked is not None and asked > fixed:
            raise UsageProblem(
                f"The model takes batches of exactly {fixed}; --batch {asked} needs a model exported with a dynamic "
                f"batch: {self.request.model}"
            )
        workers = self.request.workers or min(_MOST_WORKERS, available_processors())
        size = batch_size(self.request, self.detector.backend, fixed)
        return LoopSettings(size if asked else min(size, self.detector.most_images or size), workers)

    def _notes(self) -> list[str]:
        notes = []
        backend = self.detector.backend
        if self.request.backend == AUTO and "cuda" in backend.devices and not backend.plans:
            notes.append("auto does not build an engine; pass --backend trt to evaluate the model in TensorRT.")
        if self.request.conf > COMPARABLE_CONF and self.task.measures[0].by_score:
            notes.append(f"AP at --conf {self.request.conf} is lower than at 0.001 and not comparable with it.")
        if self.probe:
            notes.append(
                f"Images are prepared with {options_of(self.probe['chosen'])}, as {IMAGES} images show that are not "
                "scored. Pass these options to other commands."
            )
        if self.request.conf > self.request.threshold and self.task.measures[0].by_score:
            notes.append(
                f"Boxes below --conf {self.request.conf:g} are not kept, so metrics at --threshold "
                f"{self.request.threshold:g} are of boxes from {self.request.conf:g} on."
            )
        if self.dataset.missing:
            notes.append(self.dataset.left_out)
        notes += self.task.notes(self.detector.family, self.dataset.truth)
        return notes + self._of_dataset + list(self.classes.notes) + self.detector.notes + self._unlike_calibration()

    def _explained(self) -> str:
        """Say which inner values leave the range of the format on some of the images; "" where that is not known."""
        session, batch = self.detector.session, self.detector.fixed_batch or 1
        name = session.inputs[0].name
        more = self.detector.family.constants(batch)
        batches = (np.repeat(one[None], batch, axis=0) for one in self._prepared(_EXPLAINED))
        from trt_workbench.backends.overflow import explained_of

        return explained_of(session, ({name: images, **more} for images in batches))

    def _why_nothing(self) -> str:
        """Say whether objects are found with pixels in another range, which is tried on some images."""
        session, family, transform = self.detector.session, self.detector.family, self.detector.transform
        scale, batch = (1.0 / 255 if transform.scale == 1 else 1.0), self.detector.fixed_batch or 1
        name, count = session.inputs[0].name, 0
        for one in self._prepared(_EXPLAINED, scale) if transform.dtype != "uint8" else ():
            outputs = session.run({name: np.repeat(one[None], batch, axis=0), **family.constants(batch)})
            with contextlib.suppress(UsageProblem, NotFinite):  # no scores, so that this range is wrong, too
                count += int(at_least(family.decode(outputs)[0].scores, SCORE_THRESHOLD).sum())
        if not count:
            by_score = self.task.measures[0].by_score
            return f"check the preprocessing{', the family and --conf' if by_score else ' and the family'}"
        range_, own = ("0 to 255", "divides by 255") if scale == 1 else ("0 to 1", "does not divide by 255")
        found = f"{counted(count, 'object')} on some images, right or not"
        return f"with pixels from {range_} it finds {found}: if it {own} itself, the export has to say so"

    def _prepared(self, count: int, scale: float | None = None) -> Iterator[NDArray[Any]]:
        """Yield images as the model takes them, evenly chosen; `scale` replaces that of its pixels."""
        listed, transform, read = self.dataset.images, self.detector.transform, ImageReader(self.request.exif)
        transform = dataclasses.replace(transform, scale=scale or transform.scale)
        for image in listed[:: max(1, len(listed) // count)]:
            yield preprocess(read(self.dataset.path(image)), transform)[0]

    def _unlike_calibration(self) -> list[str]:
        """Describe how calibration inputs differ from these prepared images."""
        session = self.detector.session
        if not (fed := calibration_inputs(session.metadata)):
            return []
        name = session.inputs[0].name
        found = difference(fed, input_statistics({name: tensor} for tensor in self._prepared(_COMPARED)))
        return [found.words] if found else []

    def facts(self) -> dict[str, Any]:
        """What was asked and chosen: the part of `metrics.json` that does not depend on the result."""
        request, settings, detector = self.request, self.settings, self.detector
        family, decoding, record = detector.family, detector.decoding, detector.session.record()
        return {
            "model": {
                "path": str(request.model.absolute()),
                "sha256": self._model_sha256,
                "family": family.name,
                "task": family.task,
                "class_count": len(self.classes.ids),
            },
            "backend": self.backend,
            "backend_requested": request.backend,
            "precision_ran": record["precision_ran"],
            "provenance": record,
            "verification": detector.mark,
            "allow_unverified": request.allow_unverified,
            "settings": {
                "conf": decoding.conf,
                "iou": family.overlap(decoding),
                "max_dets": decoding.max_dets,
                "clip_boxes": family.clips_boxes,
                "batch": settings.batch,
                "imgsz": [detector.transform.height, detector.transform.width],
                "workers": settings.workers,
                "concurrency": detector.session.concurrency,
                "precision": request.precision,
                "options": dict(request.options),
                "preprocess": detector.feed.place,
                "postprocess": detector.feed.boxes_place,
                "limit": request.limit,
                **detector.said,
                "exif": request.exif,
                "classes": request.classes,
                "threshold": request.threshold,
                "seed": request.seed,
                "transform": dataclasses.asdict(detector.transform),
            },
            "probe": self.probe,
            "notes": self.notes,
        }
