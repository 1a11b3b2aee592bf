"""What one call of each kind of scenario is: the work of a point as a loaded session executes it.

A worker imports what its own kind needs alone: every repetition may begin in a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.measure.inputs import onnx_inputs, random_image, random_inputs, with_limits
from trt_workbench.backends.measure.loop import measure_calls
from trt_workbench.backends.measuring import MeasuringSession, Samples, SamplingLimits
from trt_workbench.backends.preparation import Preparation
from trt_workbench.backends.registry import require_backend
from trt_workbench.bench.matrix import DEFAULT_IMGSZ, LLM_KINDS, STREAM, Point, Work
from trt_workbench.bench.options import Ranges, array_shapes, session_options

if TYPE_CHECKING:
    from trt_workbench.vision import Feed, Geometry, Ran


class Scenario(Protocol):
    """Work that is ready to be measured."""

    items: int
    """How much one call does: arrays, images, tokens or chunks."""

    shapes: Mapping[str, Sequence[int]] | None
    """Of the inputs of a call, by name; None for language models and streams, whose calls differ."""

    def once(self) -> None:
        """Do the work once."""

    def measure(self, limits: SamplingLimits) -> Samples:
        """Do it repeatedly."""


class Arrays:
    """Raw input arrays to raw output arrays."""

    def __init__(self, session: Session, model: Path, work: Work, seed: int) -> None:
        """Draw the inputs. Raises UsageProblem if the shapes are not possible."""
        tensors = onnx_inputs(model)
        shapes = array_shapes(session.inputs, tensors, work)
        self.items = work.batch
        self._session = session
        self.shapes: Mapping[str, Sequence[int]] | None = shapes
        self._inputs: Mapping[str, NDArray[Any]] = random_inputs(with_limits(session.inputs, tensors), shapes, seed)

    def once(self) -> None:
        """Run the model once."""
        self._session.run(self._inputs)

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Return the model's outputs of one call."""
        return self._session.run(self._inputs)

    def measure(self, limits: SamplingLimits) -> Samples:
        """Let the session measure itself if it can, one call at a time, else time its calls."""
        if isinstance(self._session, MeasuringSession) and self._session.concurrency == 1:
            return self._session.measure(self._inputs, limits)
        return measure_calls(self.once, limits, self._session.concurrency)


class ImageToBoxes:
    """Decoded images in host memory to boxes: letterbox, model, post-processing.

    A session that can letterbox, or find boxes, on its device does so; the processor does what others cannot.
    """

    def __init__(self, session: Session, work: Work, preparation: Preparation, seed: int) -> None:
        """Recognise the family and draw the images. Raises UsageProblem if the model is no detector."""
        from trt_workbench.vision import SCORE_THRESHOLD, DecodeSettings, Wanted, make_feed, recognise

        height, width = work.imgsz or DEFAULT_IMGSZ
        self.items = work.batch
        self._family = recognise(session.inputs, session.outputs, session.metadata, preparation)
        transform, image = self._family.preparation(), session.inputs[0]
        self._images = [random_image(height, width, seed + index) for index in range(work.batch)]
        # a detector that is shipped shows boxes it is sure of; only evaluation needs the tail below
        self._decoding = DecodeSettings(conf=SCORE_THRESHOLD)
        self._concurrency = session.concurrency
        self._feed_of = partial(make_feed, session, transform, work.batch, image.shape[0], None, self._family.constants)
        self._feed: Feed[Any] = self._feed_of(Wanted(self._family, self._decoding))[0]
        size = image.shape[0] or work.batch
        shapes = {name: array.shape for name, array in self._family.constants(size).items()}
        self.shapes: Mapping[str, Sequence[int]] | None = {image.name: (size, *transform.shape), **shapes}

    def once(self) -> None:
        """Turn the images into boxes once."""
        ran, geometries = self._infer(self._feed)
        for found, geometry in zip(ran.boxes(self._family, self._decoding), geometries, strict=True):
            self._family.restore(found, geometry)

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Return the model's outputs of one call, before they are made into boxes."""
        feed, _ = self._feed_of()  # whose outputs leave the device
        return {**self._infer(feed)[0].outputs}

    def _infer(self, feed: Feed[Any]) -> tuple[Ran, list[Geometry]]:
        batch = feed.new_batch()  # not kept: calls of other threads may be in flight
        geometries = [feed.fill(batch, slot, image) for slot, image in enumerate(self._images)]
        return feed.run(batch, self.items), geometries

    def measure(self, limits: SamplingLimits) -> Samples:
        """Time whole calls."""
        return measure_calls(self.once, limits, self._concurrency)


def load_model(
    point: Point, model: Path, ranges: Ranges, graphs: Path | None = None, contract: Path | None = None
) -> Any:
    """Load the model of a point: a Session, or for a language model, perhaps with `graphs`, what its scenarios run.

    Shapes of a streaming model are those of its contract.

    Raises:
        WorkbenchError: the model cannot be loaded, as the backend says.
    """
    if point.work.kind in LLM_KINDS:
        from trt_workbench.bench.llm import open_llm

        return open_llm(point, model, graphs)
    return require_backend(point.backend).load(model, session_options(point, model, ranges, contract))


def make_scenario(
    session: Any, model: Path, preparation: Preparation, work: Work, seed: int, contract: Path | None = None
) -> Scenario:
    """Return the work of a point, ready to run on what `load_model` returned.

    Raises:
        UsageProblem: the model cannot do this work.
    """
    kinds: dict[str, Callable[[], Scenario]] = {
        "arrays": lambda: Arrays(session, model, work, seed),
        "image-to-boxes": lambda: ImageToBoxes(session, work, preparation, seed),
    }
    if work.kind in LLM_KINDS:
        from trt_workbench.bench.llm import LlmWork

        return LlmWork(session, model, work, seed)
    if work.kind == STREAM and contract is not None:
        from trt_workbench.bench.streams import StreamWork

        return StreamWork(session, model, contract, work, seed)
    return kinds[work.kind]()
