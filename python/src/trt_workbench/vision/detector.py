"""A detector on a backend: opened, recognised, fed with images, its engine verified. What every use of one shares."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from trt_workbench.backends.base import Backend, Session, SessionOptions
from trt_workbench.backends.images import ImageTransform
from trt_workbench.backends.pooling import PoolingSession
from trt_workbench.core.verification import Mark, Shapes
from trt_workbench.verify import require_verified
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.families import DecodeSettings, Family
from trt_workbench.vision.families.recognise import check_family, recognise
from trt_workbench.vision.feed import Feed, Wanted, make_feed
from trt_workbench.vision.preparation import SAID
from trt_workbench.vision.settings import DetectorSettings

Note = Callable[[str], None]


class Detector(AbstractContextManager["Detector"]):
    """A loaded detector; `prepare` makes it ready for images. A context manager.

    Attributes:
        backend: that it runs on.
        session: the loaded model.
        family: of the model.
        transform: how images become its input; after `prepare`.
        decoding: thresholds.
        feed: how images get into the model; after `prepare`.
        mark: how the engine is verified, None for other runtimes; after `prepare`.
        notes: what the user should know, in sentences.
    """

    transform: ImageTransform
    feed: Feed[Any]
    mark: Mark | None

    def __init__(
        self,
        model: Path,
        settings: DetectorSettings,
        backend: Backend,
        options: SessionOptions,
        note: Note | None = None,
        session: Session | None = None,
    ) -> None:
        """Load the model, unless it is loaded already, and recognise its family.

        Raises:
            UsageProblem: the model or a setting cannot be used.
            ComponentMissing: the backend cannot serve here.
            DeviceFailure: the device failed.
        """
        self.backend, self.notes = backend, list[str]()
        self._model, self._settings, self._note = model, settings, note or (lambda _: None)
        self._shapes_asked = options.shapes.shapes if options.shapes else {}
        self.decoding = DecodeSettings(settings.conf, settings.iou, settings.max_dets)
        if settings.family:  # before an engine is built
            check_family(settings.family, "--family")
        self.session: Session = session or backend.load(model, options)
        try:
            self.family: Family = recognise(
                self.session.inputs,
                self.session.outputs,
                self.session.metadata,
                settings,
            )
        except BaseException:
            if session is None:
                self.session.close()
            raise
        if settings.iou is not None and self.family.default_iou is None:
            self.notes.append(f"--iou has no effect: family {self.family.name} uses no NMS.")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the model."""
        self.session.close()

    @property
    def fixed_batch(self) -> int | None:
        """How many images the model takes at once, by itself or as it was loaded; None for any number."""
        tensor = self.session.inputs[0]
        asked = self._shapes_asked.get(tensor.name)
        return asked.opt[0] if asked and asked.min[0] == asked.max[0] else tensor.shape[0]

    @property
    def most_images(self) -> int | None:
        """How many images an engine takes at once; None where nothing limits them."""
        if not isinstance(self.session, PoolingSession):
            return None
        return self.session.most_rows(self.session.inputs[0].name, (1, *self.family.transform().shape), 0)

    @property
    def said(self) -> dict[str, str | None]:
        """What the user or the metadata says of the images, for records."""
        return {name: getattr(self.family.facts.said, name) for name in SAID}

    def reader(self) -> ImageReader:
        """Return what reads the images of a run."""
        return ImageReader(self._settings.exif)

    def prepare(self, batch: int, images: int) -> None:
        """Make the feed, run it once, and require a TensorRT engine to be verified at the shapes that will be used.

        Args:
            batch: images per inference.
            images: how many there are in all.

        Raises:
            UsageProblem: the model cannot run the batch.
            CheckFailed: the TensorRT engine is wrong, or not verified for these shapes.
            DeviceFailure: the device failed.
        """
        self.take(self.family, batch)
        self.mark = require_verified(
            self.session.provenance,
            self._model,
            self._shapes(batch, images),
            allow_unverified=self._settings.allow_unverified,
            device=int(self._settings.options.get("device", 0)) if self.backend.plans else 0,
            note=self._note,
        )

    def take(self, family: Family, batch: int) -> None:
        """Prepare images, and read outputs, as this family does from now on.

        Raises:
            UsageProblem: the family does not know how, or the model cannot run the batch.
            DeviceFailure: the device failed.
        """
        self.family, self.transform = family, family.preparation()
        wanted = Wanted(family, self.decoding, self._settings.postprocess)
        self.feed, refusal = make_feed(
            self.session, self.transform, batch, self.fixed_batch, self._settings.preprocess, family.constants, wanted
        )
        if refusal and refusal not in self.notes:
            self.notes.append(refusal)

    def _shapes(self, batch: int, images: int) -> list[Shapes]:
        """Return the input shapes that are used: of whole batches, and of the last one."""
        tensor, fixed = self.session.inputs[0], self.fixed_batch
        sizes = [min(batch, images), images % batch or batch] if fixed is None else [fixed]
        return [
            {
                tensor.name: (size, *self.transform.shape),
                **{name: array.shape for name, array in self.family.constants(size).items()},
            }
            for size in dict.fromkeys(sizes)
        ]
