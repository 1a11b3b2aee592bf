import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.texts import refused

from trt_workbench.backends.base import Session, TensorSpec
from trt_workbench.backends.images import ImageTransform
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench.vision.detections import DetectionStore, DetectionTable
from trt_workbench.vision.families import DecodeSettings, Family
from trt_workbench.vision.families.base import Detections as Boxes
from trt_workbench.vision.families.base import DetectorFacts
from trt_workbench.vision.feed import Place, make_feed
from trt_workbench.vision.letterbox import preprocess
from trt_workbench.vision.loop import EvaluationLoop, LoopSettings

SIZE = 16
TRANSFORM = ImageTransform(SIZE, SIZE, scale=1.0)
IMAGES = 23


class MeanSession(Session):
    """Returns the mean grey level of every image, after a delay that differs from call to call."""

    inputs = (TensorSpec("images", "float32", (None, 3, SIZE, SIZE)),)
    outputs = (TensorSpec("mean", "float32", (None, 1, 1)),)
    metadata: ClassVar[dict[str, str]] = {}
    provenance: ClassVar[dict[str, Any]] = {}

    def __init__(self, concurrency: int = 2, fixed: int | None = None) -> None:
        self.concurrency = concurrency
        self.inputs = (TensorSpec("images", "float32", (fixed, 3, SIZE, SIZE)),)
        self.batches: list[int] = []
        self.in_flight = self.most_in_flight = 0
        self.before: Callable[[int], None] = lambda call: time.sleep(0.004 if call % 3 == 0 else 0)
        self._lock = threading.Lock()

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        with self._lock:
            call = len(self.batches)
            self.batches.append(len(inputs["images"]))
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.before(call)
        with self._lock:
            self.in_flight -= 1
        return {"mean": inputs["images"].mean(axis=(1, 2, 3), keepdims=True)[..., 0].astype(np.float32)}

    def _close(self) -> None:
        pass


@dataclass(frozen=True)
class MeanFamily(Family):
    """One box an image, whose right edge is the mean grey level."""

    name = "mean"
    default_iou = None
    clips_boxes = True
    shape_text = "[N, 1, 1]"

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> "MeanFamily":
        return cls(output, 1, facts)

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Boxes:
        box = np.array([[0, 0, image[0, 0] / 255 * SIZE, SIZE]], np.float32)
        return Boxes(box, np.array([0.5 + conf], np.float32), np.zeros(1, np.int64))


FAMILY = MeanFamily(
    TensorSpec("mean", "float32", (None, 1, 1)), 1, DetectorFacts((SIZE, SIZE), True, "nchw", "float32", None)
)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    found = []
    for index in range(IMAGES):
        found.append(tmp_path / f"{index}.png")
        # Squares of several sizes; the grey level tells which image it is.
        side = SIZE * (1 + index % 3)
        cv2.imwrite(str(found[-1]), np.full((side, side, 3), 10 * index, np.uint8))
    return found


class ImageMeanSession(MeanSession):
    """The same, and it takes decoded images."""

    def run_images(self, images: Sequence[NDArray[np.uint8]], transform: ImageTransform) -> dict[str, NDArray[Any]]:
        return self.run({"images": np.stack([preprocess(image, transform)[0] for image in images])})


def make(
    session: Session,
    paths: list[Path],
    batch: int = 1,
    fixed: int | None = None,
    workers: int = 3,
    place: Place | None = None,
) -> tuple[EvaluationLoop, DetectionStore]:
    store = DetectionStore(np.arange(len(paths)), np.array([1], np.int64))
    feed, _ = make_feed(session, TRANSFORM, batch, fixed, place)
    return EvaluationLoop(feed, FAMILY, DecodeSettings(), paths, store, LoopSettings(batch, workers)), store


def widths(found: DetectionTable) -> dict[int, float]:
    return dict(zip(found.image_ids.tolist(), found.boxes[:, 2].tolist(), strict=True))


def expected(images: int = IMAGES) -> dict[int, float]:
    """The box's width in source pixels: grey level times the image's side."""
    return {index: pytest.approx(10 * index / 255 * SIZE * (1 + index % 3), rel=1e-5) for index in range(images)}


def slow(_call: int) -> None:
    time.sleep(0.05)


def no_threads_left() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith(("load-", "infer-", "decode-"))]


@pytest.mark.parametrize(("batch", "fixed"), [(1, None), (4, None), (50, None), (1, 1), (4, 4), (3, 4), (50, 64)])
@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("kind", [MeanSession, ImageMeanSession])
def test_every_image_gets_its_own_boxes(
    paths: list[Path], batch: int, fixed: int | None, concurrency: int, kind: type[MeanSession]
) -> None:
    session = kind(concurrency, fixed)
    loop, store = make(session, paths, batch, fixed)
    result = loop.run()
    assert widths(store.collect()) == expected()
    assert result.done.all()
    assert not result.interrupted
    assert result.sizes.tolist() == [[SIZE * (1 + index % 3)] * 2 for index in range(IMAGES)]
    assert (result.stage_ms > 0).all()
    assert result.wall_s > 0
    assert session.most_in_flight <= concurrency
    assert no_threads_left()
    runs = session.batches[1:]  # without the warm-up
    if fixed is None:
        assert sum(runs) == IMAGES
    else:
        assert set(runs) == {fixed}
    assert len(runs) == -(-IMAGES // batch)


def test_inferences_overlap(paths: list[Path]) -> None:
    session = MeanSession(2)
    meeting = threading.Barrier(2)
    # Calls 1 and 2 wait for one another: it ends only if they are in flight at once.
    session.before = lambda call: meeting.wait(20) and None if call in (1, 2) else None
    make(session, paths)[0].run()
    assert session.most_in_flight == 2


def test_readers_wait_for_a_slow_model(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    gate = threading.Event()
    session = MeanSession(1)
    session.before = lambda call: None if call == 0 else (gate.wait(20) and None)  # 0 is the run before the loop
    original = cv2.imdecode
    monkeypatch.setattr(cv2, "imdecode", lambda data, flags: (read.append(Path()), original(data, flags))[1])
    loop, _ = make(session, paths, workers=2)

    def open_gate(done: int, total: int) -> None:
        # Two buffers for the inference thread and one for each reader.
        assert (done, total) == (0, IMAGES) or gate.is_set()
        assert len(read) <= 4 or gate.is_set()
        if len(read) == 4:
            gate.set()

    assert loop.run(open_gate).done.all()
    assert len(read) == IMAGES


def test_a_corrupt_image_ends_the_loop_once(paths: list[Path]) -> None:
    paths[11].write_bytes(b"not an image")
    loop, _ = make(MeanSession(), paths, batch=4)
    with refused(UsageProblem):
        loop.run()
    assert no_threads_left()


@pytest.mark.parametrize("error", [DeviceFailure("out of memory"), ValueError("a defect")])
def test_a_failing_model_ends_the_loop(paths: list[Path], error: Exception) -> None:
    session = MeanSession()

    def fail(call: int) -> None:
        if call > 5:
            raise error

    session.before = fail
    loop, _ = make(session, paths)
    with pytest.raises(type(error)) as caught:
        loop.run()
    assert caught.value is error
    assert no_threads_left()


def test_outputs_of_another_batch_are_refused(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    session = MeanSession()
    original = session._infer
    monkeypatch.setattr(session, "_infer", lambda inputs: {"mean": original(inputs)["mean"][:1]})
    loop, _ = make(session, paths, batch=4)
    with refused(UsageProblem):
        loop.run()


def test_an_interrupt_keeps_what_was_done(paths: list[Path]) -> None:
    session = MeanSession(1)
    session.before = slow
    loop, store = make(session, paths, batch=2)

    def interrupt(done: int, total: int) -> None:
        if 0 < done < total and not loop._stop:
            raise KeyboardInterrupt

    result = loop.run(interrupt)
    assert result.interrupted
    count = int(result.done.sum())
    assert 2 <= count < IMAGES
    # Batches are begun in order, and those under way are finished.
    assert result.done[:count].all()
    assert widths(store.collect()) == {key: value for key, value in expected().items() if key < count}
    assert no_threads_left()


def test_a_second_interrupt_ends_at_once(paths: list[Path]) -> None:
    session = MeanSession(1)
    session.before = slow
    loop, _ = make(session, paths)

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run(interrupt)
    assert no_threads_left()


def test_an_interrupt_before_any_image_is_done(paths: list[Path]) -> None:
    session = MeanSession(1)
    loop, _ = make(session, paths)
    loop._stop = True
    with pytest.raises(KeyboardInterrupt):
        loop.run()


def test_opencv_gets_its_threads_back(paths: list[Path]) -> None:
    before = cv2.getNumThreads()
    inside: list[int] = []
    loop, _ = make(MeanSession(), paths)
    loop.run(lambda *_: inside.append(cv2.getNumThreads()))
    assert set(inside) == {1}
    assert cv2.getNumThreads() == before


def test_progress_ends_at_the_total(paths: list[Path]) -> None:
    seen: list[tuple[int, int]] = []
    make(MeanSession(), paths)[0].run(lambda done, total: seen.append((done, total)))
    assert seen[-1] == (IMAGES, IMAGES)
    assert seen == sorted(seen)
