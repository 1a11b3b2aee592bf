"""How decoded images get into the model: as a tensor made on the processor, or as they are, for the device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.images import DetectingSession, Head, ImageSession, ImageTransform, Pixels
from trt_workbench.core.compare import identical
from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem
from trt_workbench.core.memory import require_room
from trt_workbench.vision.families import DecodeSettings, Detections, Family
from trt_workbench.vision.letterbox import Geometry, find_geometry, preprocess
from trt_workbench.vision.plausible import decoded

B = TypeVar("B")
Place = Literal["device", "host"]
"""Where images are letterboxed and normalised, and where boxes are found in the outputs."""


Constants = Callable[[int], Mapping[str, NDArray[Any]]]


def no_constants(_batch: int) -> Mapping[str, NDArray[Any]]:
    """Return no inputs other than the images."""
    return {}


class Ran(NamedTuple):
    """What the model gave for a batch: its outputs, and the boxes of each image where the device found them."""

    outputs: Mapping[str, NDArray[Any]]
    found: list[Detections] | None = None

    def boxes(self, family: Family, settings: DecodeSettings) -> list[Detections]:
        """Return the boxes of each image, as `decoded`."""
        return decoded(family, self.outputs, settings) if self.found is None else self.found


class Feed(Protocol, Generic[B]):
    """Makes batches of images and runs the model on them. Several threads may fill and run different batches.

    Attributes:
        place: where images are letterboxed.
        boxes_place: where boxes are found.
        concurrency: how many `run` calls may be in flight at once.
    """

    place: Place
    boxes_place: Place
    concurrency: int

    def new_batch(self) -> B:
        """Return room for one batch, to be used again and again."""

    def fill(self, batch: B, slot: int, image: Pixels) -> Geometry:
        """Put a decoded image [h, w, 3] into a slot; return its position in the model's input."""

    def run(self, batch: B, count: int) -> Ran:
        """Run the model on the first `count` images; return what it gave for these images only."""


class HostFeed:
    """Letterboxes on the processor, in the threads that read the images."""

    place: Place = "host"
    boxes_place: Place = "host"

    def __init__(
        self,
        session: Session,
        transform: ImageTransform,
        batch: int,
        fixed_batch: int | None,
        constants: Constants = no_constants,
    ) -> None:
        self.concurrency = session.concurrency
        self._session, self._transform, self._fixed, self._constants = session, transform, fixed_batch, constants
        self._input = session.inputs[0].name
        self._shape = (fixed_batch or batch, *transform.shape)
        require_room("A batch", self._shape, np.dtype(transform.dtype).itemsize)

    def new_batch(self) -> NDArray[Any]:
        """Return a tensor of the model's input."""
        return np.zeros(self._shape, self._transform.dtype)

    def fill(self, batch: NDArray[Any], slot: int, image: Pixels) -> Geometry:
        """Letterbox and normalise into the tensor."""
        return preprocess(image, self._transform, batch[slot])[1]

    def run(self, batch: NDArray[Any], count: int) -> Ran:
        """Run the tensor; zeros stand for the images that a fixed batch lacks."""
        tensor = batch[: self._fixed or count]
        tensor[count:] = 0
        outputs = self._session.run({self._input: tensor, **self._constants(len(tensor))})
        return Ran({name: array[:count] for name, array in outputs.items()})


class DeviceFeed:
    """Hands decoded images to a session that letterboxes them on its device."""

    place: Place = "device"
    boxes_place: Place = "host"

    def __init__(
        self,
        session: Session,
        transform: ImageTransform,
        batch: int,
        fixed_batch: int | None,
        constants: Constants = no_constants,
    ) -> None:
        if not isinstance(session, ImageSession):
            raise UsageProblem("This backend cannot letterbox images on its device; pass --preprocess host.")
        self.concurrency = session.concurrency
        self._images: ImageSession = session
        self._transform, self._size, self._fixed, self._constants = transform, batch, fixed_batch, constants
        self._blank = np.zeros((transform.height, transform.width, 3), np.uint8)

    def new_batch(self) -> list[Pixels]:
        """Return a list of black images."""
        return [self._blank] * (self._fixed or self._size)

    def fill(self, batch: list[Pixels], slot: int, image: Pixels) -> Geometry:
        """Keep the image until the batch is run."""
        batch[slot] = image
        return find_geometry(image.shape[0], image.shape[1], self._transform)

    def run(self, batch: list[Pixels], count: int) -> Ran:
        """Run the images and release them; black ones stand for those that a fixed batch lacks."""
        batch[count:] = [self._blank] * (len(batch) - count)
        ran = self._run(batch[: self._fixed or count], count)
        batch[:] = [self._blank] * len(batch)
        return ran

    def _more(self, count: int) -> dict[str, Any]:
        """Return the argument of sessions for models of further inputs, which those of other models need not take."""
        constants = self._constants(count)
        return {"more": constants} if constants else {}

    def _run(self, images: list[Pixels], count: int) -> Ran:
        outputs = self._images.run_images(images, self._transform, **self._more(len(images)))
        return Ran({name: array[:count] for name, array in outputs.items()})


class DetectingFeed(DeviceFeed):
    """The same for a session that finds boxes on its device, too.

    The boxes of the first images must be those that the processor finds in the same outputs. What the device does not
    judge, such as NaN, is left to the processor.
    """

    boxes_place: Place = "device"

    def __init__(
        self,
        session: Session,
        transform: ImageTransform,
        batch: int,
        fixed_batch: int | None,
        constants: Constants,
        wanted: Wanted,
        head: Head,
    ) -> None:
        super().__init__(session, transform, batch, fixed_batch, constants)
        assert isinstance(session, DetectingSession)
        self._boxes: DetectingSession = session
        self._wanted, self._head = wanted, head
        self._lock, self._checked = threading.Lock(), False

    def _run(self, images: list[Pixels], count: int) -> Ran:
        if self._checked:
            return self._find(images, count, with_outputs=False)
        with self._lock:  # others wait until the first is judged
            ran = self._find(images, count, with_outputs=not self._checked)
            if ran.found is not None and not self._checked:
                _require_same(ran, self._wanted)
                self._checked = True
        return ran

    def warm_up(self, count: int) -> None:
        """Run black images, so that the first call does not pay for memory and capture."""
        for _ in range(2):
            self._find(self.new_batch()[: self._fixed or count], count, with_outputs=False)

    def _find(self, images: list[Pixels], count: int, *, with_outputs: bool) -> Ran:
        boxes, outputs = self._boxes.find_boxes(
            images, self._transform, self._head, with_outputs=with_outputs, **self._more(len(images))
        )
        outputs = {name: array[:count] for name, array in outputs.items()}
        return Ran(outputs, None if boxes is None else self._wanted.family.completed(boxes[:count]))


class Wanted(NamedTuple):
    """Boxes of a family, with these thresholds; `place` is where they are to be found, None for where it is best."""

    family: Family
    decoding: DecodeSettings
    place: Place | None = None


def _require_same(ran: Ran, wanted: Wanted) -> None:
    """Raise CheckFailed where the boxes that the device found are not those in the outputs of the same run."""
    assert ran.found is not None
    for index, (ours, theirs) in enumerate(
        zip(ran.found, decoded(wanted.family, ran.outputs, wanted.decoding), strict=True)
    ):
        if not all(identical(one, other) for one, other in zip(arrays_of(ours), arrays_of(theirs), strict=True)):
            raise CheckFailed(
                f"The boxes that the device found in image {index} of the first batch differ from those that the "
                f"CPU finds in the same outputs ({len(ours.scores)} and {len(theirs.scores)} boxes). Pass "
                "--postprocess host, and report this."
            )


def arrays_of(found: Detections) -> list[NDArray[Any]]:
    """Return the arrays of boxes and of what a task adds to them."""
    return [*found[:3], *([] if found.extra is None else found.extra.arrays(found.boxes))]


def make_feed(
    session: Session,
    transform: ImageTransform,
    batch: int,
    fixed_batch: int | None,
    place: Place | None,
    constants: Constants = no_constants,
    wanted: Wanted | None = None,
) -> tuple[Feed[Any], str | None]:
    """Return the requested feed, run once so that the first image does not pay for allocation and tuning.

    Args:
        session: the loaded model.
        transform: how images become its input.
        batch: images per inference.
        fixed_batch: how many images the model takes, at least `batch`; None for a model that takes any number.
        constants: returns the inputs other than the images for a batch of so many.
        place: "device" or "host"; None for the device where the session offers that and takes the transform.
        wanted: the boxes that are wanted; None if outputs alone are.

    Returns:
        The feed, and a note if the device refused the transform or the head and the processor takes its place.

    Raises:
        UsageProblem: the device was asked for and the session does not offer it, or the model cannot run the batch.
        ComponentMissing: the device was asked for and the native core cannot find boxes.
        DeviceFailure: the device failed.
    """
    note = None
    if place == "device" or (place is None and isinstance(session, ImageSession)):
        device = DeviceFeed(session, transform, batch, fixed_batch, constants)
        try:
            ran = device.run(device.new_batch(), batch)
        except UsageProblem as refusal:
            if place == "device":
                raise
            note = f"Images are letterboxed on the CPU, because the device cannot do it: {refusal}"
        else:
            return _finding(device, ran, wanted, (session, transform, batch, fixed_batch, constants))
    if wanted and wanted.place == "device":
        why = "Boxes can be found on the device only if it letterboxes the images, too. Pass --postprocess host."
        raise UsageProblem(f"{why} {note or ''}".rstrip())
    host = HostFeed(session, transform, batch, fixed_batch, constants)
    host.run(host.new_batch(), batch)
    return host, note


def _finding(
    device: DeviceFeed,
    ran: Ran,
    wanted: Wanted | None,
    arguments: tuple[Session, ImageTransform, int, int | None, Constants],
) -> tuple[Feed[Any], str | None]:
    """Return the feed that finds the boxes that are wanted on the device, where that can be done, else `device`."""
    if wanted is None or wanted.place == "host":
        return device, None
    head = wanted.family.head({name: array.shape for name, array in ran.outputs.items()}, wanted.decoding)
    if head is None or not isinstance(arguments[0], DetectingSession):
        if wanted.place == "device":
            unread = f"outputs of family {wanted.family.name} are read by the CPU"
            why = "this backend offers none of it" if head else unread
            raise UsageProblem(f"Boxes cannot be found on the device: {why}. Pass --postprocess host.")
        return device, None
    finding = DetectingFeed(*arguments, wanted, head)
    try:
        finding.warm_up(arguments[2])
    except (UsageProblem, ComponentMissing) as refusal:
        if wanted.place == "device":
            raise
        return device, f"Boxes are found on the CPU, because the device cannot do it: {refusal}"
    return finding, None
