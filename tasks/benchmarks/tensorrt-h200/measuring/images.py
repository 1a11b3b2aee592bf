"""From an image in host memory to boxes: preprocessing on the device beside preprocessing on the host.

The device takes the image from ordinary memory and, where a camera or decoder writes there, from page-locked memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from measuring.cases import IMAGE_ENGINES, IMAGE_SIZES
from measuring.engines import plan_path
from measuring.records import Budget, Recorder, read_records, say, summary

_CALLS, _WARMUP_CALLS = 200, 30
_LOAD_S, _ROUND_S = 5.0, 8.0


def run_images(recorder: Recorder, plans: Path, count: int, budget: Budget) -> int:
    """Measure `count` rounds of every way by turns, for every engine and image size; return rounds missing."""
    missing = 0
    for name in IMAGE_ENGINES:
        plan = plan_path(plans, name)
        done = {(tuple(r["size"]), r["round"]) for r in read_records(recorder.folder, "images") if r["engine"] == name}
        left = [(size, number) for number in range(count) for size in IMAGE_SIZES if (size, number) not in done]
        measured = 0
        if left and plan.is_file() and budget.allows(_LOAD_S + _ROUND_S):
            measured = _rounds(recorder, plan, name, left, budget)
        missing += len(left) - measured
    return missing


def _rounds(recorder: Recorder, plan: Path, name: str, left: list[tuple[tuple[int, int], int]], budget: Budget) -> int:
    """Measure what the budget allows of `left`; return how much that was."""
    import cv2

    from trt_workbench.backends.base import SessionOptions
    from trt_workbench.backends.preparation import Preparation
    from trt_workbench.backends.registry import get_backend
    from trt_workbench.engine import native
    from trt_workbench.vision.families import DecodeSettings, recognise
    from trt_workbench.vision.letterbox import find_geometry, preprocess

    with get_backend("trt").load(plan, SessionOptions()) as session:
        family = recognise(session.inputs, session.outputs, session.metadata, Preparation(family="yolov10"))
        transform, settings = family.transform(), DecodeSettings(conf=0.25)
        tensor = np.empty((1, *transform.shape), transform.dtype)

        def boxes(outputs: dict[str, Any], geometry: Any) -> Any:
            found = family.decode(outputs, settings)[0]
            return family.restore(found, geometry).boxes

        def on_host(image: Any) -> Any:
            _, geometry = preprocess(image, transform, tensor[0])
            return boxes(session.run({session.inputs[0].name: tensor}), geometry)

        def on_device(image: Any) -> Any:
            outputs = session.run_images([image], transform)  # type: ignore[attr-defined]
            return boxes(outputs, find_geometry(image.shape[0], image.shape[1], transform))

        ways = {"host": on_host, "host_one_thread": on_host, "device": on_device, "device_page_locked": on_device}
        threads = cv2.getNumThreads()
        engine_ms = _engine_ms(session.loaded.engine, session.inputs[0].name, tensor)  # type: ignore[attr-defined]
        for measured, (size, number) in enumerate(left):
            if not budget.allows(_ROUND_S):
                return measured
            ordinary = scene(*size)
            page_locked = native.require("pinned_empty")(ordinary.shape)
            page_locked[:] = ordinary
            image_of = {way: page_locked if way == "device_page_locked" else ordinary for way in ways}
            found = {}
            for way in list(ways)[:: 1 if number % 2 == 0 else -1]:
                cv2.setNumThreads(1 if way == "host_one_thread" else threads)
                found[way] = _time(ways[way], image_of[way])
            cv2.setNumThreads(threads)
            facts = {
                "engine": name,
                "size": list(size),
                "round": number,
                "input": [transform.height, transform.width],
                "opencv_threads": threads,
                "engine_ms": engine_ms,
                "summary_ms": {way: summary(ms) for way, ms in found.items()},
                "boxes": {way: len(run(image_of[way])) for way, run in ways.items()},
            }
            recorder.add("images", facts, found)
            say(f"{name} {size} round {number}: " + ", ".join(f"{w} {np.median(ms):.3f} ms" for w, ms in found.items()))
    return len(left)


def scene(height: int, width: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return a smooth random uint8 image [height, width, 3]: what is in it does not change the work."""
    import cv2

    coarse = np.random.default_rng(seed).integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
    image: np.ndarray[Any, Any] = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.ascontiguousarray(image)


def _engine_ms(engine: Any, name: str, tensor: np.ndarray[Any, Any]) -> float:
    """Median of the engine's compute alone: what no preprocessing can save."""
    from trt_workbench.engine import native

    tensor.fill(0)
    options = native.require("BenchOptions")(duration_s=0.5, warmup_ms=200.0, transfers=False)
    return float(np.median(native.require("bench")(engine, {name: tensor}, options).compute_ms))


def _time(run: Callable[[Any], Any], image: Any) -> np.ndarray[Any, Any]:
    for _ in range(_WARMUP_CALLS):
        run(image)
    taken = []
    for _ in range(_CALLS):
        start = time.perf_counter_ns()
        run(image)
        taken.append(time.perf_counter_ns() - start)
    return np.asarray(taken) / 1e6
