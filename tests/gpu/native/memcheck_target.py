"""A short run of everything that the native core does, for `compute-sanitizer --tool memcheck python …`.

    python memcheck_target.py [FOLDER]

Exits with 0 where every answer is right; the sanitizer adds what it finds. FOLDER keeps the engines: run it once
without the sanitizer, under which building takes long.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import trt_nets as nets

import trt_workbench_native as native


def check_runner(plan: bytes) -> None:
    engine = native.Engine(plan)
    for options in (
        native.RunnerOptions(slots=2),
        native.RunnerOptions(graph_includes_transfers=False),
        native.RunnerOptions(cuda_graph=False, timing=False, spin=False),
    ):
        with native.Runner(engine, options) as runner:
            for rows in (4, 4, 4, 30, 30, 30, 4, 4, 4):
                x = nets.integers(rows, nets.WIDTH, seed=rows)
                np.testing.assert_array_equal(runner.run({"x": x})["y"], nets.linear_answer(x))
            y = runner.run({"x": x[:, ::-1]}, device_outputs=True)["y"]
            np.testing.assert_array_equal(y.numpy(), nets.linear_answer(x[:, ::-1]))
            for _ in range(3):
                y = runner.run({"x": x}, at={"y": -1})["y"]
                np.testing.assert_array_equal(y, nets.linear_answer(x)[:, -1])


def check_threads(plan: bytes) -> None:
    runner = native.Runner(native.Engine(plan), native.RunnerOptions(slots=3))
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for rows in (1, 5, 5, 5, 20, 1):
                x = nets.integers(rows, nets.WIDTH, seed=seed)
                np.testing.assert_array_equal(runner.submit({"x": x}).result()["y"], nets.linear_answer(x))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def check_large(plan: bytes) -> None:
    """Arrays that several threads copy, and one just below."""
    with native.Runner(native.Engine(plan)) as runner:
        for size in ((9 << 17) - 1, 9 << 17, 3_000_001):
            x = nets.integers(size, seed=size)
            np.testing.assert_array_equal(runner.run({"x": x})["y"], np.maximum(x, 0))


def check_state(plan: bytes) -> None:
    with native.Runner(native.Engine(plan), native.RunnerOptions(state={"h_next": "h"})) as runner:
        h = np.zeros((1, 8), np.float32)
        for seed in range(6):
            x = nets.integers(1, 8, seed=seed)
            h = h / 2 + x
            np.testing.assert_array_equal(runner.run({"x": x})["y"], h + 1)


def check_streams(plan: bytes) -> None:
    state = [native.StreamState("h", "h_next", input_axis=1), native.StreamState("k", "k_next")]
    with native.StreamPool(native.Engine(plan), state=state, batch_axes={"x": 0, "y": 0}, capacity=5) as pool:
        streams = [pool.open() for _ in range(5)]
        scale = np.ones(1, np.float32)
        for count in (1, 1, 3, 3, 3, 5, 5, 5):
            x = nets.integers(count, 4, seed=count)
            held = [pool.save(stream)["h"][0, 0, 0] for stream in streams[:count]]
            y = pool.push(streams[:count], {"x": x, "scale": scale})["y"]
            np.testing.assert_array_equal(y, x + np.array(held)[:, np.newaxis])
        pool.restore(streams[0], pool.save(streams[1]))
        pool.close(streams[2])


def check_nonzero(plan: bytes) -> None:
    with native.Runner(native.Engine(plan)) as runner:
        for seed in range(3):
            x = nets.integers(4, 8, seed=seed)
            np.testing.assert_array_equal(runner.run({"x": x})["where"], np.array(np.nonzero(x)))


def check_images(plan: bytes) -> None:
    spec = native.LetterboxSpec(32, 48)
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (*size, 3), np.uint8) for size in ((1, 1), (31, 77), (480, 641))]
    expected = np.stack([native.letterbox_cpu(image, spec) for image in images])
    np.testing.assert_array_equal(native.Letterbox(spec)(images).numpy(), expected)
    with native.Runner(native.Engine(plan)) as runner:
        for _ in range(3):
            got = runner.run({"images": native.ImageBatch(images, spec)})["y"]
            np.testing.assert_array_equal(got, expected)


def check_heads(plan: bytes) -> None:
    rng = np.random.default_rng(1)
    cells = {"boxes": (0, 0, 9, 1), "objectness": (0, 4, 9, 1), "scores": (0, 5, 9, 1), "strides": [8, 16, 32]}
    heads = {  # of few candidates, of more than are sorted at once, and of cells
        (2, 8, 300): {"boxes": (0, 0, 1, 300), "scores": (0, 1200, 1, 300), "label_major": True, "iou": 0.5},
        (2, 8, 4000): {"boxes": (0, 0, 1, 4000), "scores": (0, 16000, 1, 4000), "form": "centre", "iou": 0.9},
        (2, 336, 9): {"kind": "cells", "iou": 0.65, "form": "centre", **cells},
    }
    for shape, how in heads.items():
        spec = native.HeadSpec(128, 128, max(shape[1:]), 4, max_dets=500, **how)
        outputs = [rng.random(shape, np.float32)]
        for one, other in zip(native.find_boxes_gpu(spec, outputs), native.find_boxes_cpu(spec, outputs), strict=True):
            for ours, theirs in zip(one, other, strict=True):
                np.testing.assert_array_equal(ours, theirs)
    weights = {"boxes": (0, 0, 8, 1), "scores": (0, 4, 8, 1), "labels": (0, 5, 8, 1), "more": (0, 6, 8, 1), "values": 2}
    planes = {"planes": (1, 0, 35, 1), "plane_height": 5, "plane_width": 7}
    spec = native.HeadSpec(50, 300, 40, 0, kind="rows", **weights, **planes)
    items = rng.random((2, 40, 8), np.float32) * np.array([99, 20, 400, 60, 1, 0, 1, -1], np.float32)
    outputs = [items, rng.random((2, 2, 5, 7), np.float32)]
    for one, other in zip(native.find_boxes_gpu(spec, outputs), native.find_boxes_cpu(spec, outputs), strict=True):
        assert one[4].any()
        np.testing.assert_array_equal(one[4], other[4])
    rows = {"kind": "rows", "boxes": (0, 0, 6, 1), "scores": (0, 4, 6, 1), "labels": (0, 5, 6, 1)}
    spec, x = native.HeadSpec(32, 48, 768, 0, **rows), np.full((2, 3, 32, 48), 0.0, np.float32)
    with native.Detector(native.Engine(plan), spec) as detector:
        for value in (0, 0.5, 0, 0):
            x[...] = value
            assert [one is None for one in detector.run({"images": x})[0]] == [value == 0.5] * 2


def check_bench(plan: bytes) -> None:
    engine, inputs = native.Engine(plan), {"x": nets.integers(4, nets.WIDTH)}
    for options in ({"streams": 2}, {"transfers": False}, {"cuda_graph": False, "spin": False}):
        short = native.BenchOptions(iterations=5, duration_s=0, warmup_ms=0, **options)
        assert len(native.bench(engine, inputs, short)) >= 5
    with native.Runner(engine) as runner:
        assert len(runner.measure(inputs, short)) >= 5
    assert native.profile_layers(engine, inputs, iterations=2)


def main(folder: Path) -> int:
    """Build what the folder does not hold, run, compare."""
    native.load_tensorrt()

    def plan(name: str, *arguments: Any) -> bytes:
        file = folder / f"{name}.kept"
        if not file.is_file():
            file.write_bytes(nets.build(native, folder, name, *arguments))
        return file.read_bytes()

    dynamic = plan("dynamic", nets.linear("n"), nets.TWO_PROFILES, None, nets.SHARING)
    check_runner(dynamic)
    check_threads(dynamic)
    check_bench(dynamic)
    check_large(plan("elementwise", nets.elementwise(), [{"x": ((1,), (1024,), (1 << 22,))}]))
    check_state(plan("recurrent", nets.recurrent()))
    check_streams(plan("streaming", nets.streaming(1, 0), nets.streaming_profiles(1), None, nets.SHARING))
    check_nonzero(plan("nonzero", nets.nonzero()))
    pictures = plan("pictures", nets.pictures(), [{"images": ((1, 3, 32, 48), (2, 3, 32, 48), (8, 3, 32, 48))}])
    check_images(pictures)
    check_heads(pictures)
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as name:
        sys.exit(main(Path(name)))
