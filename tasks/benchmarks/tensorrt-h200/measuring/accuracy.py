"""Accuracy: eval-coco on TensorRT beside eval-coco on the processor."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring.engines import plan_path
from measuring.records import Budget, Recorder, read_records, say

_KEPT = ("AP", "AP50", "AP75", "images", "images_per_s", "detections", "backend", "settings", "latency_ms", "model")
_PREPROCESS = "--preprocess"


def run_accuracy(recorder: Recorder, plans: Path, models: list[Path], coco: Path, budget: Budget) -> int:
    """Evaluate each detector by ONNX Runtime and on TensorRT in fp32 and fp16; return how many runs are missing."""
    detectors = {"yolox-nano": ("yolox_nano.onnx", coco), "shapes": ("shapes-yolov10.onnx", None)}
    done = {record["run"] for record in read_records(recorder.folder, "accuracy")}
    missing = 0
    for detector, (file, dataset) in detectors.items():
        model = next((path for folder in models if (path := folder / file).is_file()), None)
        for run, arguments in _runs(detector, model, plans, dataset).items():
            if run in done:
                continue
            if arguments is None or not budget.allows(90):
                say(f"{run}: {'model or plan is missing' if arguments is None else 'left for later'}")
                missing += 1
                continue
            missing += not _evaluate(recorder, run, detector, arguments)
    return missing


def _runs(detector: str, model: Path | None, plans: Path, dataset: Path | None) -> dict[str, list[str] | None]:
    """Command lines by name; None where a file is missing."""
    # the embedded dataset goes with the embedded model alone, so its plans are given the dataset's files
    data = _coco_files(dataset) if dataset else _embedded_files()
    runs: dict[str, list[str] | None] = {
        f"{detector} ort-cpu": ["--model", str(model), "--backend", "ort-cpu", *data] if model else None
    }
    cuda = ["--model", str(model), "--backend", "ort-cuda", *data]
    runs[f"{detector} ort-cuda fp32 host"] = cuda if model else None
    for precision in ("fp32", "fp16"):
        plan = plan_path(plans, f"{detector}-{precision}")
        line = ["--model", str(plan), "--backend", "trt", "--precision", precision, *data]
        for place in ("device", "host"):
            name = f"{detector} trt {precision} {place}"
            runs[name] = [*line, _PREPROCESS, place] if plan.is_file() else None
    return runs


def _coco_files(dataset: Path) -> list[str]:
    annotations = next(dataset.glob("annotations/*.json"), dataset / "annotations")
    return ["--data", str(dataset / "val2017"), "--annotations", str(annotations)]


def _embedded_files() -> list[str]:
    from trt_workbench.vision.scenes.dataset import make_embedded_dataset

    place = make_embedded_dataset()
    return ["--data", str(place.images), "--annotations", str(place.annotations)]


def _evaluate(recorder: Recorder, run: str, detector: str, arguments: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        line = [*arguments, "--no-report", "--json", "--output", str(Path(folder) / "run")]
        command = [str(Path(sys.executable).with_name("trtw")), "eval-coco", *line]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode != 0:
        say(f"{run}: FAILED {done.returncode} {done.stderr.strip()[-600:]}")
        failure = {"exit_code": done.returncode, "error": done.stderr[-2000:]}
        recorder.add("failure", {"run": run, "arguments": line, **failure})
        return False
    metrics: dict[str, Any] = json.loads(done.stdout)
    kept = {name: metrics[name] for name in _KEPT if name in metrics}
    recorder.add("accuracy", {"run": run, "detector": detector, "command": ["eval-coco", *line], **kept})
    say(f"{run}: AP {metrics['AP']:.5f} AP50 {metrics['AP50']:.5f}, {metrics['images_per_s']:.1f} images/s")
    return True
