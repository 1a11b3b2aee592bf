"""How much faster two GPUs are than one: `python gpus.py FOLDER [--images 10000] [--rounds 3] [--gpus 0 0,1]`.

Makes the images once (scenes of the embedded data set's generator, other seeds), and evaluates the embedded detector on
them with each choice of GPUs in turn. Prints a line a run and keeps it in FOLDER/records.jsonl: images/s of the loop on
all GPUs, seconds of the whole command, and of its parts:

- `start_s`: until the workers are started,
- `open_s`: until all of them begin with images: libraries, model, data set,
- `loop_s`: the images,
- `write_s`: from the last image until the last worker has written its shard and ended,
- `score_s`: merging: reading the shards, scoring with resamples, writing.

A first run of few images builds the engine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from trt_workbench.core.documents import write_json
from trt_workbench.core.files import anything
from trt_workbench.vision.scenes.scenes import write_dataset

PARTS = ("start_s", "open_s", "loop_s", "write_s", "score_s")
SEED, PART = 38_000, 250  # seeds that no model was trained or chosen on; images of a folder
# The command, which notes when its workers begin, are at the first and behind the last image, and end.
TIMED = """
import json, pathlib, sys, time
from trt_workbench.core import spread
from trt_workbench.main import main
noted, run = {}, spread.ShardWorkers.run
def timed(self, requests, on_progress=None):
    noted["begun"] = time.time()
    def progress(done, total):
        noted.setdefault("opened", time.time())
        if done == total:
            noted.setdefault("seen", time.time())
        if on_progress:
            on_progress(done, total)
    run(self, requests, progress)
    noted["ended"] = time.time()
spread.ShardWorkers.run = timed
notes = pathlib.Path(sys.argv.pop(1))
try:
    main()
finally:
    notes.write_text(json.dumps(noted))
"""


def images_of(folder: Path, count: int) -> tuple[Path, Path]:
    """Make the images in folders of `PART`; return their folder and the annotation file of all."""
    annotations = folder / "scenes" / f"instances-{count}.json"
    if not annotations.exists():
        parts = [(folder / "scenes" / str(part), min(PART, count - part * PART)) for part in range(-(-count // PART))]
        with multiprocessing.Pool() as pool:
            documents = pool.starmap(made, [(place, images, SEED + part) for part, (place, images) in enumerate(parts)])
        write_json(annotations, joined(documents), over=anything)
    return folder / "scenes", annotations


def made(place: Path, images: int, seed: int) -> dict[str, Any]:
    """Make one folder of images; return its annotations."""
    found: dict[str, Any] = json.loads(write_dataset(place, "val", images, seed).read_text(encoding="utf-8"))
    return found


def joined(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the annotations of all folders as one file has them."""
    whole: dict[str, Any] = {"images": [], "annotations": [], "categories": documents[0]["categories"]}
    for part, one in enumerate(documents):
        first = len(whole["images"])
        whole["images"] += [
            {**image, "id": image["id"] + first, "file_name": f"{part}/val/{image['file_name']}"}
            for image in one["images"]
        ]
        whole["annotations"] += [
            {**box, "id": len(whole["annotations"]) + place, "image_id": box["image_id"] + first, "segmentation": []}
            for place, box in enumerate(one["annotations"], 1)
        ]
    return whole


def evaluated(words: list[str], gpus: str, output: Path) -> dict[str, Any]:
    """Run eval-coco on some GPUs; return its record."""
    notes, began = output.with_name("notes.json"), time.time()
    options = ["--gpus", gpus, "--no-report", "--json", "--output", str(output)]
    program = [sys.executable, "-c", TIMED, str(notes)]
    done = subprocess.run([*program, "eval-coco", *words, *options], stdout=subprocess.PIPE, text=True, check=False)
    ended = time.time()
    if done.returncode:
        sys.exit(f"eval-coco --gpus {gpus} ended with exit code {done.returncode}")
    metrics, noted = json.loads(done.stdout), json.loads(notes.read_text(encoding="utf-8"))
    return {
        "schema_version": 1,
        "gpus": gpus,
        "images": metrics["images"],
        "detections": metrics["detections"],
        "images_per_s": metrics["images_per_s"],
        "command_s": ended - began,
        "start_s": noted["begun"] - began,
        "open_s": noted["opened"] - noted["begun"],
        "loop_s": metrics["wall_s"],
        "write_s": noted["ended"] - noted["seen"],
        "score_s": ended - noted["ended"],
        "AP": metrics["AP"],
        "predictions_sha256": hashlib.sha256((output / "predictions.json").read_bytes()).hexdigest(),
        "settings": {name: metrics["settings"][name] for name in ("batch", "workers", "concurrency", "precision")},
        "gpu": metrics["provenance"].get("gpu"),
        "tensorrt": metrics["provenance"].get("tensorrt"),
        "processors": len(os.sched_getaffinity(0)),
    }


def main() -> None:
    """Evaluate in turns, and print how the choices compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backend", default="trt")
    parser.add_argument("--gpus", nargs="+", default=["0", "0,1"])
    parser.add_argument("--more", nargs="*", default=[], help="further options of eval-coco, such as workers=8")
    asked = parser.parse_args()
    began = time.perf_counter()
    images, annotations = images_of(asked.folder, asked.images)
    sys.stdout.write(f"{asked.images:,} images after {time.perf_counter() - began:.0f} s\n")
    words = ["--data", str(images), "--annotations", str(annotations), "--backend", asked.backend]
    words += [part for one in asked.more for part in (f"--{one.partition('=')[0]}", one.partition("=")[2])]
    evaluated([*words, "--limit", "64"], asked.gpus[0], asked.folder / "first")
    records: list[dict[str, Any]] = []
    for number in range(asked.rounds):
        for gpus in asked.gpus:
            record = {**evaluated(words, gpus, asked.folder / "run"), "round": number}
            records.append(record)
            sys.stdout.write(f"{json.dumps(record)}\n")
            sys.stdout.flush()
            with (asked.folder / "records.jsonl").open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(record)}\n")
    for gpus in asked.gpus:
        own = [one for one in records if one["gpus"] == gpus]
        shown = ", ".join(f"{name} {statistics.median(one[name] for one in own):.2f}" for name in (*PARTS, "command_s"))
        sys.stdout.write(f"GPUs {gpus}, medians: {shown}\n")
    first, *others = asked.gpus
    for gpus in others:
        for name, better in (("images_per_s", 1), ("command_s", -1)):
            pairs = zip(*([one[name] for one in records if one["gpus"] == each] for each in (first, gpus)), strict=True)
            ratios = [(mine / base) ** better for base, mine in pairs]
            shown = ", ".join(f"{ratio:.3f}" for ratio in ratios)
            sys.stdout.write(f"GPUs {gpus} against {first}, {name}: {statistics.median(ratios):.3f} times ({shown})\n")
    alike = len({record["predictions_sha256"] for record in records}) == 1
    sys.stdout.write(f"detections of all runs are {'equal' if alike else 'not equal'}, bit for bit\n")


if __name__ == "__main__":
    main()
