"""A model on a backend, for a program of its own: arrays in and out, or images to what is on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from trt_workbench.backends.base import Backend, SessionOptions, TensorSpec
from trt_workbench.backends.registry import require_backend
from trt_workbench.backends.torch.tensors import run_as_given
from trt_workbench.console.keywords import as_keywords
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import anything, write_bytes
from trt_workbench.core.settings import with_flags
from trt_workbench.vision.settings import PredictSettings

if TYPE_CHECKING:
    import PIL.Image
    from numpy.typing import NDArray

    from trt_workbench.backends.images import Pixels
    from trt_workbench.vision.decode import ImageReader
    from trt_workbench.vision.detector import Detector, Note
    from trt_workbench.vision.extras import Restored
    from trt_workbench.vision.families import Detections
    from trt_workbench.vision.looking import Looker
    from trt_workbench.vision.tasks.base import VisionTask

    Image = str | Path | NDArray[np.uint8] | PIL.Image.Image
    """The path of an image file, uint8 [height, width, 3] in BGR order as OpenCV reads it, or an image of Pillow."""
# Made once, as `isinstance` takes less time than making them.
_FILE = str | Path
_ONE = str | bytes | Path | np.ndarray


def single_options(settings: PredictSettings, backend: Backend, note: Note | None) -> SessionOptions:
    """Return how a model is loaded that is given single images."""
    # which inputs it has is not known yet; the backend itself makes a profile of the largest batch
    extra = {"max_batch": 1} if backend.ranges else {}
    extra = with_flags({**extra, **settings.options}, backend.url_option(settings.url))
    return SessionOptions(threads=settings.threads, precision=settings.precision, extra=extra, note=note)


class FoundObject(NamedTuple):
    """One object: the name of its class, its score, and its box: x1, y1, x2, y2 in pixels of the image."""

    name: str
    score: float
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class FoundObjects:
    """What is on one image, by descending score; K objects, or of a classifier the K best classes.

    Attributes:
        boxes: float32 [K, 4], x1, y1, x2, y2 in pixels of the image.
        scores: float32 [K].
        labels: int64 [K], indices of classes as the model counts them.
        names: of their classes.
        extra: what a model for masks, poses or rotated boxes adds; None of others.
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    extra: Restored | None = None
    _drawn: Callable[[], NDArray[np.uint8]] | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        """Return how many objects there are."""
        return len(self.scores)

    def __getitem__(self, place: int) -> FoundObject:
        """Return one of them; 0 is the one with the highest score."""
        x1, y1, x2, y2 = self.boxes[place].tolist()
        return FoundObject(self.names[place], float(self.scores[place]), (x1, y1, x2, y2))

    def __iter__(self) -> Iterator[FoundObject]:
        """Return them one by one."""
        return map(self.__getitem__, range(len(self)))

    def picture(self) -> NDArray[np.uint8]:
        """Return the image with what was found: uint8 [height, width, 3] in BGR order, as OpenCV writes files.

        Raises:
            UsageProblem: the file of the image cannot be read any more.
        """
        assert self._drawn  # as `LoadedModel` makes them
        return self._drawn()

    def save(self, place: str | Path) -> None:
        """Write the picture to a file, whose suffix says how. Raises UsageProblem if it cannot be written so."""
        write_bytes(Path(place), _encoded(Path(place).suffix, self.picture()), over=anything)

    def show(self) -> None:
        """Open the picture in this machine's viewer of images. Raises UsageProblem as `picture`."""
        from PIL import Image

        Image.fromarray(self.picture()[..., ::-1]).show()

    def _repr_png_(self) -> bytes:
        """Return what a notebook shows."""
        return _encoded(".png", self.picture())

    @property
    def masks(self) -> NDArray[np.bool_] | None:
        """Where the objects are: bool [K, height, width]; None of a model without masks."""
        from trt_workbench.vision.masks import Masks

        return self.extra.planes() if isinstance(self.extra, Masks) else None

    @property
    def keypoints(self) -> NDArray[np.float32] | None:
        """The points of poses: float32 [K, points, 3], x, y and visibility; None of a model without."""
        from trt_workbench.vision.keypoints import Keypoints

        return self.extra.points if isinstance(self.extra, Keypoints) else None

    @property
    def rotated_boxes(self) -> NDArray[np.float32] | None:
        """Centre x, centre y, width, height and angle in radians: float32 [K, 5]; None of a model without."""
        from trt_workbench.vision.rotated import RotatedBoxes

        return self.extra.boxes if isinstance(self.extra, RotatedBoxes) else None


class LoadedModel(AbstractContextManager["LoadedModel"]):
    """A model on a backend. A context manager.

    Attributes:
        backend: name of the backend that was chosen.
        inputs: name, dtype and shape of the model's inputs.
        outputs: name, dtype and shape of its outputs.
        notes: what the user should know, in sentences.
    """

    def __init__(self, model: Path, settings: PredictSettings, note: Note | None = None) -> None:
        """Load the model.

        Raises:
            UsageProblem: the file or a setting cannot be used.
            ComponentMissing: the backend cannot serve here.
            DeviceFailure: the device failed while loading the model.
        """
        self._model, self._settings, self._note = model, settings, note
        self._backend = require_backend(settings.backend, model.suffix, note)
        self._looker: tuple[Looker, Detector] | None = None
        self._options = single_options(settings, self._backend, note)
        self._session = self._backend.load(model, self._options)
        extra = self._options.extra
        is_sized = model.suffix == ".onnx" and not extra.keys() & {"profiles", "config"}
        self._most_rows: int | None = extra.get("max_batch") if is_sized else None
        self.backend, self.notes = self._backend.name, list[str]()
        self.inputs: tuple[TensorSpec, ...] = self._session.inputs
        self.outputs: tuple[TensorSpec, ...] = self._session.outputs

    def __repr__(self) -> str:
        """Return what a prompt of Python shows."""
        tensors = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"<{self._model.name} on {self.backend}: {' -> '.join(tensors)}>"

    @property
    def precision(self) -> str | None:
        """What it computes in, with shares, as the optimised graph or the engine's layers say; None if unknown."""
        ran = self._session.record()["precision_ran"]
        return str(ran["text"]) if ran else None

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Execute the model once.

        Args:
            inputs: an array for every input, or a tensor of PyTorch on any device, with its exact dtype and a shape
                that fits. TensorRT builds for one row, or for as many as `options={"max_batch": 8}` says.

        Returns:
            An array for every output; where an input is a tensor, tensors on its device. They are copied by way of the
            host.

        Raises:
            UsageProblem: a name, dtype or shape does not fit the model, or it is closed.
            DeviceFailure: the device failed while executing.
        """
        for spec in self.inputs if self._most_rows and isinstance(inputs, Mapping) else ():
            rows = (*getattr(inputs.get(spec.name), "shape", ()), 0)[0]
            if spec.shape and spec.shape[0] is None and rows > self._most_rows:
                raise UsageProblem(
                    f"Input {spec.name} has {rows} rows, the engine was built for {self._most_rows}; load the model "
                    f"with options={{'max_batch': {rows}}}."
                )
        return run_as_given(self._session, inputs)

    @overload
    def __call__(self, images: Image) -> FoundObjects: ...  # type: ignore[overload-overlap] # a path is one image

    @overload
    def __call__(self, images: Iterable[Image]) -> list[FoundObjects]: ...

    def __call__(self, images: Image | Iterable[Image]) -> FoundObjects | list[FoundObjects]:
        """Find what a vision model finds on images, by the steps that `predict` takes, one image after the other.

        Args:
            images: an image, or several: the path of a file, or uint8 [height, width, 3] in BGR order, as OpenCV reads
                files, or an image of Pillow.

        Returns:
            What is on the image; of several, a list in their order.

        Raises:
            UsageProblem: the model is of no known family, or an image cannot be read.
            CheckFailed: the TensorRT engine is wrong, or not verified for single images, or the model returned NaN.
            DeviceFailure: the device failed.
        """
        if isinstance(images, _ONE) or not isinstance(images, Iterable):
            return self([images])[0]
        with as_keywords(PredictSettings):
            looker, detector = self._prepared()
            listed = list(images)
            reader = detector.reader()
            found = [_named(looker, looker.look(_pixels(one, reader)), one, reader) for one in listed]
            looker.finish()
            self.notes += [note for note in (*detector.notes, *reader.notes()) if note not in self.notes]
            return found

    def close(self) -> None:
        """Release the model. Safe to call twice."""
        self._session.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the model."""
        self.close()

    def _prepared(self) -> tuple[Looker, Detector]:
        if self._looker is None:  # what looks at images, OpenCV first of all, takes as long to import as all else
            from trt_workbench.vision.detector import Detector
            from trt_workbench.vision.looking import Looker

            detector = Detector(
                self._model, self._settings, self._backend, self._options, self._note, session=self._session
            )
            self._looker = Looker(detector, self._settings, images=1), detector
            self.notes += self._looker[0].notes
        return self._looker


def _pixels(image: Image, reader: ImageReader) -> Pixels:
    if isinstance(image, _FILE):
        return reader(Path(image))
    import PIL.Image

    if isinstance(image, PIL.Image.Image):
        return np.ascontiguousarray(np.asarray(image.convert("RGB"))[..., ::-1])
    is_array = isinstance(image, np.ndarray)
    if is_array and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size:
        return image
    given = f"{image.dtype} {list(image.shape)}" if is_array else f"of type {type(image).__name__}"
    raise UsageProblem(
        f"An image is uint8 [height, width, 3] in BGR order, the path of a file or an image of Pillow, not {given}."
    )


def _named(looker: Looker, found: Detections, image: Image, reader: ImageReader) -> FoundObjects:
    from trt_workbench.vision.extras import Restored

    extra, names = found.extra, tuple(map(looker.name, found.labels.tolist()))
    assert extra is None or isinstance(extra, Restored)  # as `Looker` leaves it
    drawn = partial(_draw, looker.task, image, reader, found, names)
    return FoundObjects(found.boxes, found.scores, found.labels, names, extra, drawn)


def _draw(
    task: VisionTask, image: Image, reader: ImageReader, found: Detections, names: Sequence[str]
) -> NDArray[np.uint8]:
    from trt_workbench.vision.looking import records_of
    from trt_workbench.vision.predicted_pictures import draw_found

    pixels = _pixels(image, reader).copy()
    draw_found(pixels, task, records_of(found, names))
    return pixels


def _encoded(suffix: str, pixels: NDArray[np.uint8]) -> bytes:
    import cv2

    if not cv2.haveImageWriter(f"picture{suffix}"):
        raise UsageProblem(f"No picture can be written as {suffix!r}; .jpg and .png can.")
    return cv2.imencode(suffix, pixels)[1].tobytes()
