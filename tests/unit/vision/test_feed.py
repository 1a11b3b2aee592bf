"""Feeds over ONNX Runtime: a model that returns the mean of every channel."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import (
    DetectingSession,
    FoundBoxes,
    FoundOnDevice,
    Head,
    ImageTransform,
)
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem
from trt_workbench.vision.families import DecodeSettings, recognise
from trt_workbench.vision.feed import DeviceFeed, HostFeed, Place, Wanted, make_feed
from trt_workbench.vision.letterbox import preprocess

TRANSFORM = ImageTransform(16, 24)


class ImageDouble:
    """What a session with preprocessing on its device offers, here computed on the processor."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.calls, self.refusal = inner, [], None
        self.inputs, self.outputs, self.concurrency = inner.inputs, inner.outputs, inner.concurrency

    def run(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return self.inner.run(inputs)

    def run_images(self, images: Sequence[NDArray[np.uint8]], transform: ImageTransform) -> dict[str, NDArray[Any]]:
        self.calls.append(len(images))
        if self.refusal:
            raise self.refusal
        return self.run({self.inputs[0].name: np.stack([preprocess(image, transform)[0] for image in images])})


@pytest.fixture(params=[None, 3], ids=["any-batch", "batch-3"])
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    batch = request.param or "N"
    text = f"mean (float[{batch},3,16,24] images) => (float[{batch},3,1,1] mean) {{ mean = GlobalAveragePool(images) }}"
    write_onnx(tmp_path / "m.onnx", text)
    with OrtCpuBackend().load(tmp_path / "m.onnx") as loaded:
        yield loaded


def pictures(count: int) -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(count)
    return [rng.integers(0, 256, (9 + 4 * index, 31 - index, 3), dtype=np.uint8) for index in range(count)]


def test_a_device_that_is_asked_for_must_be_offered(session: Any) -> None:
    with refused(UsageProblem):
        make_feed(session, TRANSFORM, 2, session.inputs[0].shape[0], "device")


def test_a_transform_that_the_device_refuses_goes_to_the_processor_and_is_told(session: Any) -> None:
    double = ImageDouble(session)
    double.refusal = UsageProblem("no rounding down here")
    feed, note = make_feed(double, TRANSFORM, 1, session.inputs[0].shape[0], None)
    assert feed.place == "host"
    assert "no rounding down here" in str(note)
    with refused(UsageProblem):
        make_feed(double, TRANSFORM, 1, session.inputs[0].shape[0], "device")


def test_images_are_let_go_after_their_run(session: Any) -> None:
    feed = DeviceFeed(ImageDouble(session), TRANSFORM, 2, session.inputs[0].shape[0])
    batch = feed.new_batch()
    feed.fill(batch, 0, pictures(1)[0])
    feed.run(batch, 1)
    assert all(image is feed._blank for image in batch)


def test_a_batch_beyond_the_memory_is_refused(session: Any) -> None:
    with refused(UsageProblem):
        HostFeed(session, TRANSFORM, 2**40, None)


ROWS = np.array([[1, 2, 9, 12, 0.5, 0], [3, 3, 8, 9, 0.75, 1]], np.float32)
FAMILY = recognise(
    [TensorSpec("images", "float32", (None, 3, 16, 24))],
    [TensorSpec("rows", "float32", (None, 2, 6))],
    {},
    Preparation(family="yolov10"),
)


class RowsDouble:
    """A detector on a device: every image has two boxes, that of the better score first."""

    concurrency = 1
    inputs = (TensorSpec("images", "float32", (None, 3, 16, 24)),)

    def __init__(self) -> None:
        self.calls, self.refusal = list[bool](), None
        self.rows, self.wrong = ROWS, 0

    def run_images(self, images: Sequence[NDArray[np.uint8]], _transform: ImageTransform) -> dict[str, NDArray[Any]]:
        return {"rows": np.stack([self.rows] * len(images))}

    def find_boxes(
        self, images: Sequence[NDArray[np.uint8]], transform: ImageTransform, _head: Head, *, with_outputs: bool
    ) -> FoundOnDevice:
        if self.refusal:
            raise self.refusal
        self.calls.append(with_outputs)
        outputs = self.run_images(images, transform)
        if not np.isfinite(self.rows).all():
            return FoundOnDevice(None, outputs)
        best = self.rows[::-1]
        one = best[:, :4], best[:, 4], best[:, 5].astype(np.int64) + self.wrong
        return FoundOnDevice([FoundBoxes(*one)] * len(images), outputs if with_outputs else {})


def finding(session: Any, place: Place | None = None) -> tuple[Any, str | None]:
    return make_feed(session, TRANSFORM, 2, None, None, wanted=Wanted(FAMILY, DecodeSettings(), place))


def ran(feed: Any, count: int = 2) -> Any:
    batch = feed.new_batch()
    for slot, image in enumerate(pictures(count)):
        feed.fill(batch, slot, image)
    return feed.run(batch, count)


def test_boxes_are_found_on_the_device_and_compared_once() -> None:
    double = RowsDouble()
    assert isinstance(double, DetectingSession)
    feed, note = finding(double)
    assert (feed.place, feed.boxes_place, note) == ("device", "device", None)
    assert double.calls == [False] * 2  # the device warms up
    for turn in range(3):
        found = ran(feed, 1 + turn % 2)
        assert double.calls[-1] is (turn == 0)
        assert len(found.boxes(FAMILY, DecodeSettings())) == 1 + turn % 2
        assert found.boxes(FAMILY, DecodeSettings())[0].labels.tolist() == [1, 0]
    assert finding(double, "host")[0].boxes_place == "host"
    assert finding(double, "device")[0].boxes_place == "device"


def test_boxes_that_differ_from_the_processors_are_an_error() -> None:
    double = RowsDouble()
    feed, _ = finding(double)
    double.wrong = 1
    with refused(CheckFailed):
        ran(feed)


def test_what_the_device_does_not_judge_is_left_to_the_processor() -> None:
    double = RowsDouble()
    feed, _ = finding(double)
    double.rows = np.where(ROWS == 9, np.nan, ROWS).astype(np.float32)
    with pytest.raises(CheckFailed, match="NaN or infinite"):
        ran(feed).boxes(FAMILY, DecodeSettings())
    double.rows = ROWS
    assert ran(feed).found is not None
    assert double.calls[-1]  # only this one could be compared


@pytest.mark.parametrize("refusal", [UsageProblem("no rows here"), ComponentMissing("no kernels here")])
def test_a_device_that_cannot_find_boxes_leaves_them_to_the_processor_and_it_is_told(refusal: Exception) -> None:
    double = RowsDouble()
    double.refusal = refusal
    feed, note = finding(double)
    assert (feed.place, feed.boxes_place) == ("device", "host")
    assert str(refusal) in str(note)
    with pytest.raises(type(refusal), match=str(refusal)):
        finding(double, "device")


def test_boxes_on_the_device_need_one_that_finds_them(session: Any) -> None:
    fixed = session.inputs[0].shape[0]
    wanted = Wanted(FAMILY, DecodeSettings(), "device")
    with refused(UsageProblem):  # images are letterboxed on the processor
        make_feed(session, TRANSFORM, 2, fixed, "host", wanted=wanted)
    double = RowsDouble()
    double.rows = ROWS[:, :5]
    with refused(UsageProblem):  # no head of the family
        finding(double, "device")
    assert finding(double)[0].boxes_place == "host"


def test_inputs_other_than_the_images_are_given_to_the_device() -> None:
    given = list[Any]()

    class Sized(RowsDouble):
        def run_images(self, images: Any, transform: Any, more: Any = None) -> dict[str, NDArray[Any]]:
            given.append(more)
            return super().run_images(images, transform)

        def find_boxes(self, *arguments: Any, more: Any, **named: Any) -> FoundOnDevice:
            given.append(more)
            return super().find_boxes(*arguments, **named)

    def constants(count: int) -> dict[str, NDArray[Any]]:
        return {"sizes": np.full((count, 2), 7)}

    feed, _ = make_feed(Sized(), TRANSFORM, 2, None, None, constants, Wanted(FAMILY, DecodeSettings()))
    assert feed.boxes_place == "device"
    assert len(given) > 1
    assert all(one is None or one["sizes"].tolist() == [[7, 7]] * 2 for one in given)
    assert given[0] is not None
