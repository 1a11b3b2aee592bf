"""What `merge` costs: `python merge.py FOLDER [--shards 1 2 4 … 64] [--images 2000] [--per-image 100]`.

Evaluates a few images in one shard, and makes shards of any size from what that left: detections near the objects of
made-up annotations, and elsewhere. Each merge runs in a process of its own. Prints and appends to FOLDER/records.jsonl
its time and largest memory, and the hash of the scores, which must not depend on the number of shards.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from trt_workbench.core.array_files import save_arrays
from trt_workbench.core.documents import append_lines, write_json
from trt_workbench.core.files import anything
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_files import write_document
from trt_workbench.vision.detections import DetectionTable, write_predictions
from trt_workbench.vision.document import STAGES
from trt_workbench.vision.scenes.scenes import CATEGORY_IDS, CLASSES, write_dataset
from trt_workbench.vision.sharding import FOUND

COMMAND = [sys.executable, "-c", "from trt_workbench.main import main; main()"]
SIDE, OBJECTS = 640, 7


def template_of(folder: Path) -> Path:
    """Return the run directory of a real shard of a few images."""
    annotations = write_dataset(folder / "scenes", "val", 4, 7)
    place = folder / "template"
    words = ["--data", str(folder / "scenes" / "val"), "--annotations", str(annotations), "--backend", "ort-cpu"]
    subprocess.run([*COMMAND, "eval-coco", *words, "--shard", "0/1", "--output", str(place)], check=True)
    return place


def dataset_of(folder: Path, images: int) -> tuple[Path, np.ndarray[Any, Any]]:
    """Write annotations of so many images, whose files are empty: merge does not read them. Also return the boxes."""
    rng = np.random.default_rng(0)
    place = folder / f"images-{images}"
    place.mkdir()
    boxes = np.concatenate([rng.uniform(0, 500, (images, OBJECTS, 2)), rng.uniform(20, 140, (images, OBJECTS, 2))], 2)
    labels = rng.integers(0, len(CLASSES), (images, OBJECTS))
    for image in range(images):
        (place / f"{image}.jpg").touch()
    write_json(
        folder / f"truth-{images}.json",
        {
            "images": [
                {"id": image + 1, "file_name": f"{image}.jpg", "width": SIDE, "height": SIDE} for image in range(images)
            ],
            "categories": [{"id": id_, "name": name} for id_, name in zip(CATEGORY_IDS, CLASSES, strict=True)],
            "annotations": [
                {
                    "id": image * OBJECTS + place + 1,
                    "image_id": image + 1,
                    "category_id": CATEGORY_IDS[labels[image, place]],
                    "bbox": boxes[image, place].tolist(),
                    "area": float(boxes[image, place, 2:].prod()),
                    "iscrowd": 0,
                }
                for image in range(images)
                for place in range(OBJECTS)
            ],
        },
        over=anything,
    )
    return place, np.concatenate([boxes, labels[..., None]], axis=2)


def write_shards(folder: Path, template: Path, truth: np.ndarray[Any, Any], per_image: int, count: int) -> Path:
    """Write the run directories of all shards: what is detected on an image does not depend on their number."""
    images, place = len(truth), folder / "shards"
    shutil.rmtree(place, ignore_errors=True)
    known = json.loads((template / "shard.json").read_text(encoding="utf-8"))
    annotations = folder / f"truth-{images}.json"
    for index in range(count):
        shard, own = Shard(index, count), place / str(index)
        block = shard.block(images)
        own.mkdir(parents=True)
        for name in ("run.json", "env.json"):
            shutil.copy(template / name, own / name)
        tables = [detections(image, truth[image], per_image) for image in block]
        table = DetectionTable.joined(tables)
        write_predictions(own / "predictions.json", table)
        asked = {**known["asked"], "data_sha256": hashlib.sha256(annotations.read_bytes()).hexdigest()}
        whole = {**known["whole"], "images": str(folder / f"images-{images}"), "annotations": str(annotations)}
        whole |= {"detections": len(table), "wall_s": 1.0}
        done, sides = np.arange(block.start, block.stop) + 1, np.full((len(block), 2), SIDE, np.int32)
        rows = {"done": done, "sizes": sides, "stages_ms": np.ones((len(block), len(STAGES)))}
        save_arrays(own / FOUND, {**rows, **{name: value for name, value in vars(table).items() if name != "extra"}})
        facts = {name: known[name] for name in ("command", "unit", "ran")}
        write_document(own, shard, block, **facts, items=images, done=len(block), asked=asked, whole=whole)
    return place


def detections(image: int, truth: np.ndarray[Any, Any], count: int) -> DetectionTable:
    """Return what is detected on an image: its objects, a little moved, and boxes anywhere."""
    rng = np.random.default_rng(image)
    boxes = np.concatenate([rng.uniform(0, 500, (count, 2)), rng.uniform(10, 140, (count, 2))], axis=1)
    labels = rng.integers(0, len(CLASSES), count)
    scores = rng.beta(1, 8, count)
    found = min(count, len(truth))
    boxes[:found] = truth[:found, :4] + rng.normal(0, 6, (found, 4))
    boxes[:, 2:] = np.maximum(boxes[:, 2:], 1)
    labels[:found], scores[:found] = truth[:found, 4], rng.beta(6, 2, found)
    order = np.argsort(-scores, kind="stable")
    ids = np.array(CATEGORY_IDS, np.int64)
    return DetectionTable(
        np.full(count, image + 1, np.int64), ids[labels[order]], boxes[order].astype(np.float32),
        scores[order].astype(np.float32),
    )  # fmt: skip


def merged(place: Path, output: Path) -> dict[str, Any]:
    """Merge the shards in a process of its own; return its time, memory and result."""
    began = time.perf_counter()
    words = [*COMMAND, "merge", str(place), "-o", str(output), "--no-report", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    text = process.stdout.read() if process.stdout else ""
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"merge ended with status {status}")
    metrics = json.loads(text)
    other = ("images_per_s", "wall_s", "latency_ms", "shards", "notes", "directory", "dataset", "model")
    scores = {key: value for key, value in metrics.items() if key not in other}
    return {
        "schema_version": 1,
        "shards": metrics["shards"]["count"],
        "images": metrics["images"],
        "detections": metrics["detections"],
        "merge_s": time.perf_counter() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "memory_mib": used.ru_maxrss / 2**10,
        "AP": metrics["AP"],
        "scores_sha256": hashlib.sha256(json.dumps(scores, sort_keys=True).encode()).hexdigest(),
        "predictions_bytes": (output / "predictions.json").stat().st_size,
    }


def main() -> None:
    """Merge shards of each number."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--per-image", type=int, default=100)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True)
    template = template_of(asked.folder)
    _, truth = dataset_of(asked.folder, asked.images)
    for count in asked.shards:
        place = write_shards(asked.folder, template, truth, asked.per_image, count)
        record = merged(place, asked.folder / "merged")
        sys.stdout.write(f"{json.dumps(record)}\n")
        sys.stdout.flush()
        append_lines(asked.folder / "records.jsonl", [record])


if __name__ == "__main__":
    main()
