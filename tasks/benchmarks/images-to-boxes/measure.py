#!/usr/bin/env python3
"""From an image in host memory to boxes on TensorRT: what the GPU finds, beside what the processor finds in outputs.

    python tasks/benchmarks/images-to-boxes/measure.py [MODEL...] [--precision fp16] [--rounds 5] --output FOLDER

Every way is called by turns, round by round, and its boxes are compared first. `latency` is one call after the other;
`in flight` is the time per image with several calls at once. Both are shown as multiples of the engine's own compute.
With --parts, single calls are measured once more with the device's events around their parts: where the time goes.
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
    parser.add_argument("--parts", action="store_true", help="measure the parts of a call, too")
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
    from trt_workbench.vision.letterbox import preprocess

    height, width = (int(side) for side in chosen.size.split("x"))
    extra = {"max_batch": 1} if model.suffix == ".onnx" else {}
    options = SessionOptions(precision=chosen.precision, concurrency=IN_FLIGHT, extra=extra, note=print)
    with require_backend("trt", model.suffix).load(model, options) as session:
        family = recognise(session.inputs, session.outputs, session.metadata, Preparation(family=chosen.family))
        settings = DecodeSettings(conf=chosen.conf)
        ways = ways_of(session, family, settings)
        ordinary, locked = images_of(height, width)
        compute = compute_ms(session, preprocess(ordinary, family.preparation())[0])
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
        if chosen.parts:
            records += [
                {"model": model.name, "size": chosen.size, **one}
                for one in parts_of(session, family, settings, ordinary, locked, chosen.rounds)
            ]
        return records


def ways_of(session: Any, family: Any, settings: Any) -> dict[str, Call]:
    """Return the ways from an image to its boxes in pixels of the image."""
    from trt_workbench.vision.letterbox import find_geometry, preprocess

    transform = family.preparation()
    head = head_of(session, family, settings)

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


def head_of(session: Any, family: Any, settings: Any) -> Any:
    """Return how the model's outputs become boxes."""
    transform = family.preparation()
    blank = np.zeros((transform.height, transform.width, 3), np.uint8)
    shapes = {name: array.shape for name, array in session.run_images([blank], transform).items()}
    return family.head(shapes, settings)


def images_of(height: int, width: int) -> tuple[Any, Any]:
    """Return one image in ordinary and in page-locked memory."""
    import cv2

    from trt_workbench.engine import native

    coarse = np.random.default_rng(0).integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
    ordinary = np.ascontiguousarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC))
    locked = native.require("pinned_empty")(ordinary.shape)
    locked[:] = ordinary
    return ordinary, locked


def compute_ms(session: Any, tensor: Any) -> float:
    """Return the median of the engine's compute alone, of the same image: a top-k takes less time on zeros."""
    from trt_workbench.backends.measuring import SamplingLimits

    samples = session.measure({session.inputs[0].name: tensor[None]}, SamplingLimits(duration_s=2.0))
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


def parts_of(session: Any, family: Any, settings: Any, ordinary: Any, locked: Any, rounds: int) -> list[dict[str, Any]]:
    """Return the parts of single calls in milliseconds, medians of a round, and print them."""
    from trt_workbench.backends.images import FoundBoxes
    from trt_workbench.backends.trt.session import head_spec
    from trt_workbench.engine import native
    from trt_workbench.vision.letterbox import find_geometry

    engine, name, transform = session.loaded.engine, session.inputs[0].name, family.preparation()
    spec = session._letterbox_spec(transform)
    head = head_spec(head_of(session, family, settings), [tensor.name for tensor in engine.outputs])
    options = native.require("RunnerOptions")(slots=1, timing=True, **session._settings)
    detector = native.require("Detector")(engine, head, options)
    runner = session.new_runner(timing=True)

    def boxes(image: Any) -> Call:
        def call(_: Any) -> Any:
            batch = native.require("ImageBatch")([image], spec)
            (found,), _ = detector.run({name: batch}, outputs=[])
            (detections,) = family.completed([FoundBoxes(*found)])
            return family.restore(detections, find_geometry(*image.shape[:2], transform))

        return call

    tensor = native.require("Letterbox")(spec)([ordinary])
    buffer = runner.input_buffer(name, tensor.shape)
    buffer[...] = tensor.numpy()
    columns: dict[str, tuple[Call, Any]] = {
        "page-locked image": (boxes(locked), detector.timing),
        "ordinary image": (boxes(ordinary), detector.timing),
        "engine alone, input on the GPU": (lambda _: runner.run({name: tensor}, outputs=[]), runner.timing),
        "engine alone, input in the slot's buffer": (lambda _: runner.run({name: buffer}), runner.timing),
    }
    records = [
        {"parts_of": column, "round": number, **parts(*columns[column])}
        for number in range(rounds)
        for column in list(columns)[:: 1 if number % 2 == 0 else -1]
    ]
    rows = [key for key in records[0] if key.endswith("_ms")]
    print(f"{'where the time goes, us':42}" + "".join(f"{row.removesuffix('_ms'):>10}" for row in rows))
    for column in columns:
        medians = (np.median([one[row] for one in records if one["parts_of"] == column]) * 1e3 for row in rows)
        print(f"{column:42}" + "".join(f"{value:>10.1f}" for value in medians))
    if (upload := upload_ms(ordinary.nbytes)) is not None:
        print(f"{f'upload of {ordinary.nbytes} page-locked bytes alone':42}{upload * 1e3:>10.1f}")
        records.append({"parts_of": "upload alone", "bytes": ordinary.nbytes, "input_ms": upload})
    return records


def parts(call: Call, timing: Callable[[], Any]) -> dict[str, float]:
    """Return medians: of the device's parts, by events, of launch and wait around them, and of Python around that."""
    rows = []
    for _ in range(WARM_UP + CALLS):
        start = time.perf_counter()
        call(None)
        whole = (time.perf_counter() - start) * 1e3
        one = timing()
        device = one.h2d_ms + one.compute_ms + one.d2h_ms
        around = (one.end_to_end_ms - device, whole - one.end_to_end_ms)
        rows.append((one.h2d_ms, one.compute_ms, one.d2h_ms, *around, whole))
    names = ("input_ms", "compute_ms", "output_ms", "launch_ms", "python_ms", "whole_ms")
    return dict(zip(names, np.median(rows[WARM_UP:], axis=0).tolist(), strict=True))


def upload_ms(size: int) -> float | None:
    """Return the median of PyTorch's upload of page-locked bytes by the device's events; None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    host, device = torch.zeros(size, dtype=torch.uint8).pin_memory(), torch.empty(size, dtype=torch.uint8).cuda()
    times = []
    for _ in range(WARM_UP + CALLS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        device.copy_(host, non_blocking=True)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return float(np.median(times[WARM_UP:]))


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
