"""The pipelined evaluation loop: images are read, inferred and decoded at the same time, in bounded memory.

Loaders fill a fixed set of batch buffers, inference threads run them and hand the buffers back, decoders turn outputs
into boxes. Batches are made of consecutive images, so that no result depends on the threads' timing.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.images import Pixels
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.shard_workers import DONE, TAKEN
from trt_workbench.vision.channel import Aborted, Channel
from trt_workbench.vision.decode import read_image
from trt_workbench.vision.detections import DetectionStore
from trt_workbench.vision.document import STAGES
from trt_workbench.vision.families import DecodeSettings, Family
from trt_workbench.vision.feed import Feed, Ran
from trt_workbench.vision.letterbox import Geometry
from trt_workbench.vision.plausible import BoxCheck

# columns of `LoopResult.stage_ms`
_LOAD, _PREPROCESS, _INFERENCE, _POSTPROCESS = range(len(STAGES))

_POLL_S = 0.1


@dataclass(frozen=True)
class LoopSettings:
    """How the work is spread.

    Attributes:
        batch: images per inference.
        workers: threads that read and preprocess images; half as many decode outputs.
    """

    batch: int
    workers: int


@dataclass(frozen=True)
class LoopResult:
    """What the loop measured; rows are the images in the order in which they were given.

    Attributes:
        done: bool [N], false for images that an interrupt left out.
        sizes: int32 [N,2], height and width of the decoded image.
        stage_ms: float64 [N,4], wall-clock milliseconds by stage. Inference is the batch's time divided by its images;
            stages of other images run at the same time on the same processors, so these are not added up to the wall.
            Where the device preprocesses or finds the boxes, that is part of inference.
        wall_s: seconds from the first image's start to the last image's boxes.
        interrupted: the user stopped the loop.
    """

    done: NDArray[np.bool_]
    sizes: NDArray[np.int32]
    stage_ms: NDArray[np.float64]
    wall_s: float
    interrupted: bool


class _Finished(NamedTuple):
    """What the model gave for one batch, on its way to the decoders."""

    first: int
    geometries: list[Geometry]
    ran: Ran


@dataclass
class _Buffer:
    """A batch while it is filled: the images' memory is reused, the rest is reset for every batch."""

    images: Any
    first: int = 0
    geometries: list[Geometry | None] = field(default_factory=list)
    unfilled: int = 0


class EvaluationLoop:
    """Runs a detector over image files once. `run` may be called once."""

    def __init__(
        self,
        feed: Feed[Any],
        family: Family,
        decoding: DecodeSettings,
        paths: Sequence[Path],
        store: DetectionStore,
        settings: LoopSettings,
        read: Callable[[Path], Pixels] = read_image,
        journal: NDArray[np.uint8] | None = None,
    ) -> None:
        """Make the buffers and threads.

        Args:
            feed: the model; `feed.concurrency` inferences are kept in flight.
            family: how its outputs become boxes.
            decoding: thresholds.
            paths: image files.
            store: receives the boxes of image i, in source pixels, under index i.
            settings: how the work is spread.
            read: makes pixels of a file.
            journal: uint8 [N], zeros: takes which images are begun and done.
        """
        self._read = read
        self._feed, self._family, self._decoding = feed, family, decoding
        self._paths, self._store, self._settings = paths, store, settings
        self._check = BoxCheck(family)
        self._journal = np.zeros(len(paths), np.uint8) if journal is None else journal
        self._sizes = np.zeros((len(paths), 2), np.int32)
        self._ms = np.zeros((len(paths), len(STAGES)), np.float64)
        self._lock = threading.Lock()
        self._tickets = threading.Lock()
        self._next = 0
        # The buffer that loaders are given places in, and the next place.
        self._filling: tuple[_Buffer, int] | None = None
        self._stop = False
        self._error: BaseException | None = None
        self._ended = threading.Event()
        # Each inference thread has one buffer running and one waiting; the loaders fill the rest.
        count = 2 * feed.concurrency + math.ceil(settings.workers / settings.batch)
        self._free: Channel[_Buffer] = Channel(count)
        self._ready: Channel[_Buffer] = Channel(count)
        self._finished: Channel[_Finished] = Channel(feed.concurrency)
        for _ in range(count):
            self._free.put(_Buffer(feed.new_batch()))
        self._stages: list[tuple[str, Callable[[], None], int, Callable[[], None]]] = [
            ("load", self._load, settings.workers, self._ready.close),
            ("infer", self._infer, feed.concurrency, self._finished.close),
            ("decode", self._decode, math.ceil(settings.workers / 2), self._ended.set),
        ]
        self._running = {name: count for name, _, count, _ in self._stages}

    def run(self, on_progress: Callable[[int, int], None] | None = None) -> LoopResult:
        """Evaluate all images. Ctrl-C lets the batches under way finish and ends the loop; a second one raises.

        Args:
            on_progress: called about ten times a second, from this thread, with the images done and their total.

        Raises:
            UsageProblem: an image is missing or corrupt, or the model's outputs or boxes do not fit the family.
            CheckFailed: the model returned NaN or infinite values.
            DeviceFailure: the device failed.
            KeyboardInterrupt: interrupted twice, or before any image was done.
        """
        with _opencv_threads(1):
            threads = [
                threading.Thread(target=self._guard, args=stage, name=f"{stage[0]}-{number}", daemon=True)
                for stage in self._stages
                for number in range(stage[2])
            ]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            try:
                interrupted = self._wait(on_progress)
                wall_s = time.perf_counter() - start
            finally:
                self._abort()
                for thread in threads:
                    thread.join()
        if self._error is not None:
            raise self._error
        done = self._journal == DONE
        if interrupted and not done.any():
            raise KeyboardInterrupt
        self._check.finish()
        return LoopResult(done, self._sizes, self._ms, wall_s, interrupted)

    def _wait(self, on_progress: Callable[[int, int], None] | None) -> bool:
        """Wait for the last thread; return whether the user interrupted."""
        try:
            self._watch(on_progress)
        except KeyboardInterrupt:
            self._stop = True
            self._watch(on_progress)
        return self._stop

    def _watch(self, on_progress: Callable[[int, int], None] | None) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(_POLL_S)
            if on_progress:
                on_progress(int(np.count_nonzero(self._journal == DONE)), len(self._journal))

    def _abort(self) -> None:
        for channel in (self._free, self._ready, self._finished):
            channel.abort()

    def _guard(self, name: str, work: Callable[[], None], _count: int, when_all_done: Callable[[], None]) -> None:
        """Run one thread of a stage. The first error of any thread stops all of them."""
        try:
            work()
        except Aborted:
            pass
        except BaseException as error:  # raised again in the thread that called run()
            with self._lock:
                self._error = self._error or error
            self._abort()
        with self._lock:
            self._running[name] -= 1
            last = self._running[name] == 0
        if last:
            when_all_done()

    def _load(self) -> None:
        while (place := self._take_place()) is not None:
            buffer, slot = place
            index = buffer.first + slot
            self._journal[index] = TAKEN
            start = time.perf_counter()
            image = self._read(self._paths[index])
            loaded = time.perf_counter()
            geometry = self._feed.fill(buffer.images, slot, image)
            self._ms[index, _LOAD] = (loaded - start) * 1e3
            self._ms[index, _PREPROCESS] = (time.perf_counter() - loaded) * 1e3
            self._sizes[index] = image.shape[:2]
            buffer.geometries[slot] = geometry
            with self._lock:
                buffer.unfilled -= 1
                full = buffer.unfilled == 0
            if full:
                self._ready.put(buffer)

    def _take_place(self) -> tuple[_Buffer, int] | None:
        """Return the buffer and slot for the next image, or None when there is none left or the user stopped."""
        with self._tickets:
            if self._filling is None:
                if self._stop or self._next == len(self._paths) or (buffer := self._free.get()) is None:
                    return None
                count = min(self._settings.batch, len(self._paths) - self._next)
                buffer.first, buffer.unfilled, buffer.geometries = self._next, count, [None] * count
                self._next += count
                self._filling = (buffer, 0)
            buffer, slot = self._filling
            self._filling = (buffer, slot + 1) if slot + 1 < len(buffer.geometries) else None
            return buffer, slot

    def _infer(self) -> None:
        for buffer in self._ready:
            first, geometries = buffer.first, [geometry for geometry in buffer.geometries if geometry is not None]
            count = len(geometries)
            start = time.perf_counter()
            ran = self._feed.run(buffer.images, count)
            self._ms[first : first + count, _INFERENCE] = (time.perf_counter() - start) * 1e3 / count
            self._free.put(buffer)
            self._finished.put(_Finished(first, geometries, ran))

    def _decode(self) -> None:
        for first, geometries, ran in self._finished:
            start = time.perf_counter()
            found = ran.boxes(self._family, self._decoding)
            if len(found) != len(geometries):
                raise UsageProblem(
                    f"The model returned boxes for {counted(len(found), 'image')} from a batch of {len(geometries)}."
                )
            self._check.add(found, ran.outputs)
            shared_ms = (time.perf_counter() - start) * 1e3 / len(found)
            for index, (detections, geometry) in enumerate(zip(found, geometries, strict=True), start=first):
                start = time.perf_counter()
                self._store.put(index, self._family.restore(detections, geometry))
                self._ms[index, _POSTPROCESS] = shared_ms + (time.perf_counter() - start) * 1e3
                self._journal[index] = DONE


@contextlib.contextmanager
def _opencv_threads(count: int) -> Iterator[None]:
    """Keep OpenCV from starting threads of its own inside the loaders."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(count)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
