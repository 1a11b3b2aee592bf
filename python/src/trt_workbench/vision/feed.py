"""How decoded images get into the model: as a tensor made on the processor, or as they are, for the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.images import ImageSession, ImageTransform
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.memory import require_room
from trt_workbench.vision.letterbox import Geometry, find_geometry, preprocess

B = TypeVar("B")
Place = Literal["device", "host"]
"""Where images are letterboxed and normalised."""


Constants = Callable[[int], Mapping[str, NDArray[Any]]]


def no_constants(_batch: int) -> Mapping[str, NDArray[Any]]:
    """Return no inputs other than the images."""
    return {}


class Feed(Protocol, Generic[B]):
    """Makes batches of images and runs the model on them. Several threads may fill and run different batches.

    Attributes:
        place: where images are letterboxed.
        concurrency: how many `run` calls may be in flight at once.
    """

    place: Place
    concurrency: int

    def new_batch(self) -> B:
        """Return room for one batch, to be used again and again."""

    def fill(self, batch: B, slot: int, image: NDArray[np.uint8]) -> Geometry:
        """Put a decoded image [h, w, 3] into a slot; return its position in the model's input."""

    def run(self, batch: B, count: int) -> dict[str, NDArray[Any]]:
        """Run the model on the first `count` images; return its outputs for these images only."""


class HostFeed:
    """Letterboxes on the processor, in the threads that read the images."""

    place: Place = "host"

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

    def fill(self, batch: NDArray[Any], slot: int, image: NDArray[np.uint8]) -> Geometry:
        """Letterbox and normalise into the tensor."""
        return preprocess(image, self._transform, batch[slot])[1]

    def run(self, batch: NDArray[Any], count: int) -> dict[str, NDArray[Any]]:
        """Run the tensor; zeros stand for the images that a fixed batch lacks."""
        tensor = batch[: self._fixed or count]
        tensor[count:] = 0
        outputs = self._session.run({self._input: tensor, **self._constants(len(tensor))})
        return {name: array[:count] for name, array in outputs.items()}


class DeviceFeed:
    """Hands decoded images to a session that letterboxes them on its device."""

    place: Place = "device"

    def __init__(self, session: Session, transform: ImageTransform, batch: int, fixed_batch: int | None) -> None:
        if not isinstance(session, ImageSession):
            raise UsageProblem("This backend cannot letterbox images on its device; pass --preprocess host.")
        self.concurrency = session.concurrency
        self._images: ImageSession = session
        self._transform, self._size, self._fixed = transform, batch, fixed_batch
        self._blank = np.zeros((transform.height, transform.width, 3), np.uint8)

    def new_batch(self) -> list[NDArray[np.uint8]]:
        """Return a list of black images."""
        return [self._blank] * (self._fixed or self._size)

    def fill(self, batch: list[NDArray[np.uint8]], slot: int, image: NDArray[np.uint8]) -> Geometry:
        """Keep the image until the batch is run."""
        batch[slot] = image
        return find_geometry(image.shape[0], image.shape[1], self._transform)

    def run(self, batch: list[NDArray[np.uint8]], count: int) -> dict[str, NDArray[Any]]:
        """Run the images and release them; black ones stand for those that a fixed batch lacks."""
        batch[count:] = [self._blank] * (len(batch) - count)
        outputs = self._images.run_images(batch[: self._fixed or count], self._transform)
        batch[:] = [self._blank] * len(batch)
        return {name: array[:count] for name, array in outputs.items()}


def make_feed(
    session: Session,
    transform: ImageTransform,
    batch: int,
    fixed_batch: int | None,
    place: Place | None,
    constants: Constants = no_constants,
) -> tuple[Feed[Any], str | None]:
    """Return the requested feed, run once so that the first image does not pay for allocation and tuning.

    Args:
        session: the loaded model.
        transform: how images become its input.
        batch: images per inference.
        fixed_batch: how many images the model takes, at least `batch`; None for a model that takes any number.
        constants: returns the inputs other than the images for a batch of so many; the device makes none.
        place: "device" or "host"; None for the device where the session offers that and takes the transform.

    Returns:
        The feed, and a note if the device refused the transform and the processor takes its place.

    Raises:
        UsageProblem: the device was asked for and the session does not offer it, or the model cannot run the batch.
        DeviceFailure: the device failed.
    """
    note = None
    if place == "device" or (place is None and isinstance(session, ImageSession)):
        device = DeviceFeed(session, transform, batch, fixed_batch)
        try:
            device.run(device.new_batch(), batch)
        except UsageProblem as refusal:
            if place == "device":
                raise
            note = f"Images are letterboxed on the processor because the device cannot do it: {refusal}"
        else:
            return device, None
    host = HostFeed(session, transform, batch, fixed_batch, constants)
    host.run(host.new_batch(), batch)
    return host, note
