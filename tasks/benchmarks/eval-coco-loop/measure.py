"""Measure eval-coco's loop against a sequential one, its memory by the number of images, and its start-up time.

Every measurement is a process of its own; the variants take turns, in an order that changes from round to round, so
that a disturbance of the machine meets all of them. Writes one JSON document with every measurement and the medians.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
RECORDS = HERE.parents[2] / "docs" / "benchmarks" / HERE.name / "records.json"
EVAL_COCO = [sys.executable, "-c", "from trt_workbench.evaluate.cli import main; main()"]
SEQUENTIAL = [sys.executable, str(HERE / "sequential.py")]
PACKAGES = ("numpy", "opencv-python-headless", "onnxruntime", "pycocotools", "typer")
HELP = {
    "eval_coco_help": ["eval-coco", "--help"],
    "import_typer": [sys.executable, "-c", "import typer"],
}


class Dataset(NamedTuple):
    """Images and their annotations."""

    images: Path
    annotations: Path

    def arguments(self, model: Path) -> list[str]:
        """Return the arguments that both programs take."""
        given = {"--model": model, "--data": self.images, "--annotations": self.annotations}
        return [str(part) for pair in given.items() for part in pair]


def run(command: list[str]) -> tuple[str, dict[str, float]]:
    """Run a command; return its stdout, and its duration, peak resident memory and the machine's load before it."""
    load = os.getloadavg()[0]
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # Popen must not wait for it again
        seconds = time.perf_counter() - start
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        out.seek(0)
        text = out.read()
    return text, {"process_s": seconds, "peak_rss_bytes": usage.ru_maxrss * 1024.0, "load_before": load}


def evaluate(command: list[str]) -> dict[str, Any]:
    """Run an evaluation; return its speed and AP with what `run` measures."""
    text, usage = run(command)
    document = json.loads(text)
    return {key: document[key] for key in ("images", "wall_s", "images_per_s", "AP")} | usage


def repeated(dataset: Dataset, times: int, folder: Path) -> Dataset:
    """Return the dataset with every image `times` times, by links and new ids."""
    document = json.loads(dataset.annotations.read_text())
    made = Dataset(folder / f"images-{times}", folder / f"annotations-{times}.json")
    made.images.mkdir()
    images, annotations = [], []
    image_step = 1 + max(image["id"] for image in document["images"])
    annotation_step = 1 + max(annotation["id"] for annotation in document["annotations"])
    for copy in range(times):
        for image in document["images"]:
            name = f"{copy}-{Path(image['file_name']).name}"
            (made.images / name).symlink_to((dataset.images / image["file_name"]).resolve())
            images.append({**image, "id": image["id"] + copy * image_step, "file_name": name})
        for annotation in document["annotations"]:
            ids = {
                "id": annotation["id"] + copy * annotation_step,
                "image_id": annotation["image_id"] + copy * image_step,
            }
            annotations.append({**annotation, **ids})
    made.annotations.write_text(json.dumps({**document, "images": images, "annotations": annotations}))
    return made


def measure_speed(model: Path, dataset: Dataset, output: Path, rounds: int) -> list[dict[str, Any]]:
    """Measure eval-coco and the sequential loop with two settings of the session, `rounds` times in turn."""
    given = dataset.arguments(model)
    commands = {
        "eval_coco": [*EVAL_COCO, *given, "--json", "--no-report", "--output", str(output / "run")],
        "sequential": [*SEQUENTIAL, *given],
        "sequential_intra_op_2": [*SEQUENTIAL, *given, "--intra-op", "2"],
    }
    order, records = list(commands), []
    shuffle = random.Random(0).shuffle
    for number in range(rounds):
        shuffle(order)
        for name in order:
            records.append({"what": name, "round": number, **evaluate(commands[name])})
            note(f"round {number}: {name} {records[-1]['images_per_s']:.1f} images/s")
    return records


def measure_memory(model: Path, datasets: list[Dataset], output: Path) -> list[dict[str, Any]]:
    """Measure eval-coco's peak memory on ever more images."""
    records = []
    for number in range(2):
        for dataset in datasets:
            command = [*EVAL_COCO, *dataset.arguments(model), "--json", "--no-report", "--output", str(output / "run")]
            records.append({"what": "memory", "round": number, **evaluate(command)})
            note(f"{records[-1]['images']} images: {records[-1]['peak_rss_bytes'] / 2**20:.1f} MiB")
    return records


def measure_help(rounds: int) -> list[dict[str, Any]]:
    """Measure how long `eval-coco --help` takes, and `import typer` alone."""
    records = []
    for number in range(rounds):
        for name, command in HELP.items():
            found = [str(Path(sys.executable).parent / command[0]), *command[1:]] if "/" not in command[0] else command
            records.append({"what": name, "round": number, **run(found)[1]})
    return records


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians, and per round the ratio to the faster one of the two sequential loops."""

    def values(what: str, key: str) -> list[float]:
        return [record[key] for record in records if record["what"] == what]

    speeds = {name: values(name, "images_per_s") for name in ("eval_coco", "sequential", "sequential_intra_op_2")}
    ratios = [own / max(others) for own, *others in zip(*speeds.values(), strict=True)]
    images = sorted({record["images"] for record in records if record["what"] == "memory"})
    memory = {
        count: statistics.median(
            record["peak_rss_bytes"] for record in records if record["what"] == "memory" and record["images"] == count
        )
        for count in images
    }
    seconds = {name: statistics.median(values(name, "process_s")) for name in HELP}
    return {
        "images_per_s_median": {name: statistics.median(found) for name, found in speeds.items()},
        "speedup": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        "process_s_median": {name: statistics.median(values(name, "process_s")) for name in speeds},
        "AP": {name: values(name, "AP")[0] for name in speeds},
        "peak_rss_bytes_median": memory,
        "help_s_median": seconds,
        "help_ratio": seconds["eval_coco_help"] / seconds["import_typer"],
    }


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return {
        "cpu": next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        "processors": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def note(text: str) -> None:
    """Tell the person who waits."""
    sys.stderr.write(text + "\n")


def main() -> None:
    """Measure and write the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="YOLOX-Nano, exported raw, 416x416")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--annotations", type=Path, required=True)
    parser.add_argument("--records", type=Path, default=RECORDS, help="the file to write")
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = Dataset(asked.images, asked.annotations)
        records = measure_help(2 * asked.rounds)
        records += measure_speed(asked.model, small, folder, asked.rounds)
        records += measure_memory(asked.model, [repeated(small, times, folder) for times in (1, 2, 4, 8)], folder)
    document = {
        "schema_version": 1,
        "started_at": started,
        "machine": machine(),
        "summary": summarise(records),
        "records": records,
    }
    asked.records.write_text(json.dumps(document, indent=1) + "\n")
    note(json.dumps(document["summary"], indent=2))


if __name__ == "__main__":
    main()
