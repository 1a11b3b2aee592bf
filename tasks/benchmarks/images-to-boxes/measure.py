#!/usr/bin/env python3
"""From an image in host memory to boxes on TensorRT: what the GPU finds, beside what the processor finds in outputs.

    python tasks/benchmarks/images-to-boxes/measure.py [MODEL...] [--precision fp16] [--rounds 5] --output FOLDER

Every way is called by turns, round by round, and its boxes are compared first. `latency` is one call after the other;
`in flight` is the time per image with several calls at once. Both are shown as multiples of the engine's own compute.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CALLS, WARM_UP, IN_FLIGHT = 400, 40, 3
Call = Callable[[Any], Any]


def main() -> None:
    """Measure every model and write records.jsonl and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="ONNX files or plans; the embedded detector by default")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--family", help="of the models, where they do not say it")
    parser.add_argument("--size", default="480x640", help="of the image, height x width")
    parser.add_argument("--conf", type=float, default=0.25)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    from trt_workbench.core.workspace import embedded_model

    with (chosen.output / "records.jsonl").open("a", encoding="utf-8") as records:
        for model in chosen.models or [embedded_model()]:
            for record in measured(Path(model), chosen):
                records.write(json.dumps(record) + "\n")


def measured(model: Path, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a record for every round and way, and print their medians."""
    from trt_workbench.backends.base import SessionOptions
    from trt_workbench.backends.preparation import Preparation
    from trt_workbench.backends.registry import require_backend
    from trt_workbench.vision.families import DecodeSettings, recognise

    height, width = (int(side) for side in chosen.size.split("x"))
    extra = {"max_batch": 1} if model.suffix == ".onnx" else {}
    options = SessionOptions(precision=chosen.precision, concurrency=IN_FLIGHT, extra=extra, note=print)
    with require_backend("trt", model.suffix).load(model, options) as session:
        family = recognise(session.inputs, session.outputs, session.metadata, Preparation(family=chosen.family))
        ways = ways_of(session, family, DecodeSettings(conf=chosen.conf))
        compute = compute_ms(session, family.transform().shape)
        ordinary, locked = images_of(height, width)
        cases = {
            "boxes on the GPU, page-locked image": (ways["device"], locked),
            "boxes on the GPU, ordinary image": (ways["device"], ordinary),
            "outputs to the host, page-locked image": (ways["outputs"], locked),
            "outputs to the host, ordinary image": (ways["outputs"], ordinary),
            "letterbox and boxes on the processor": (ways["host"], ordinary),
        }
        require_same(cases)
        records = []
        for number in range(chosen.rounds):
            for name in list(cases)[:: 1 if number % 2 == 0 else -1]:
                call, image = cases[name]
                record = {"model": model.name, "way": name, "round": number, "size": chosen.size, "compute_ms": compute}
                records.append({**record, "latency_ms": latency(call, image), "in_flight_ms": in_flight(call, image)})
        show(model, compute, list(cases), records)
        return records


def ways_of(session: Any, family: Any, settings: Any) -> dict[str, Call]:
    """Return the ways from an image to its boxes in pixels of the image."""
    from trt_workbench.vision.letterbox import find_geometry, preprocess

    transform = family.preparation()
    blank = np.zeros((transform.height, transform.width, 3), np.uint8)
    shapes = {name: array.shape for name, array in session.run_images([blank], transform).items()}
    head = family.head(shapes, settings)

    def device(image: Any) -> Any:
        found = family.completed(session.find_boxes([image], transform, head, with_outputs=False).boxes)
        return family.restore(found[0], find_geometry(*image.shape[:2], transform))

    def outputs(image: Any) -> Any:
        found = family.decode(session.run_images([image], transform), settings)
        return family.restore(found[0], find_geometry(*image.shape[:2], transform))

    def host(image: Any) -> Any:
        tensor, geometry = preprocess(image, transform)
        return family.restore(family.decode(session.run({session.inputs[0].name: tensor[None]}), settings)[0], geometry)

    return {"device": device, "outputs": outputs, "host": host}


def images_of(height: int, width: int) -> tuple[Any, Any]:
    """Return one image in ordinary and in page-locked memory."""
    import cv2

    from trt_workbench.engine import native

    coarse = np.random.default_rng(0).integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
    ordinary = np.ascontiguousarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC))
    locked = native.require("pinned_empty")(ordinary.shape)
    locked[:] = ordinary
    return ordinary, locked


def compute_ms(session: Any, shape: tuple[int, ...]) -> float:
    """Return the median of the engine's compute alone."""
    from trt_workbench.backends.measuring import SamplingLimits

    tensor = np.zeros((1, *shape), session.inputs[0].dtype)
    samples = session.measure({session.inputs[0].name: tensor}, SamplingLimits(duration_s=2.0))
    return float(np.median(samples.split_ms["compute"]))


def require_same(cases: dict[str, tuple[Call, Any]]) -> None:
    """Exit unless all ways on the device find the same boxes, and what goes with them."""
    first, *others = [call(image) for name, (call, image) in cases.items() if "processor" not in name]
    for other in others:
        extras = [one.extra and one.extra.entries(slice(None)) for one in (first, other)]
        if extras[0] != extras[1] or not all(map(np.array_equal, first[:3], other[:3])):
            raise SystemExit("The ways find different boxes.")


def latency(call: Call, image: Any) -> float:
    """Return the median of single calls in milliseconds."""
    times = []
    for _ in range(WARM_UP + CALLS):
        start = time.perf_counter()
        call(image)
        times.append((time.perf_counter() - start) * 1e3)
    return float(np.median(times[WARM_UP:]))


def in_flight(call: Call, image: Any) -> float:
    """Return the milliseconds per image with several calls at once."""

    def work() -> None:
        for _ in range(CALLS):
            call(image)

    threads = [threading.Thread(target=work) for _ in range(IN_FLIGHT)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - start) * 1e3 / (CALLS * IN_FLIGHT)


def show(model: Path, compute: float, ways: list[str], records: list[dict[str, Any]]) -> None:
    """Print the medians of the rounds with their range."""
    print(f"{model.name}: compute {compute * 1e3:.1f} us")
    print(f"{'':42}{'latency us':>24}{'x compute':>11}{f'{IN_FLIGHT} in flight us':>24}{'x compute':>11}")
    for way in ways:
        line = f"{way:42}"
        for key in ("latency_ms", "in_flight_ms"):
            values = [record[key] for record in records if record["way"] == way]
            text = f"{np.median(values) * 1e3:.1f} ({min(values) * 1e3:.1f} to {max(values) * 1e3:.1f})"
            line += f"{text:>24}{np.median(values) / compute:>11.2f}"
        print(line)


if __name__ == "__main__":
    main()
