"""INT8 engines beside fp16 and fp32 on a GPU: built, timed and scored by our commands alone.

    python tasks/benchmarks/precision/engines.py quantize --work DIR --output DIR [MODELS]
    python tasks/benchmarks/precision/engines.py build --work DIR --output DIR [MODELS] [--jobs N]
    python tasks/benchmarks/precision/engines.py score --work DIR --output DIR [MODELS] [--jobs N]
    python tasks/benchmarks/precision/engines.py measure --work DIR --output DIR [MODELS]
    python tasks/benchmarks/precision/engines.py report --output DIR

MODELS: [--coco DIR [--yolox FILE] [--yolov10m FILE]], for the detectors that are not in the repository.

Four engines a model: fp32, fp16, int8 by the Q/DQ nodes of `trtw quantize`, and int8 by TensorRT's own calibration
(TensorRT 8 and 10); both may use fp16 beside int8. ResNet-50 and ViT-B/16 have random weights (bench-h200/models.py,
needs torch and timm) and are calibrated with noise: speed alone; so has YOLOv10m (bench-h200/README.md). Detectors are
calibrated on every other image of COCO; YOLOX-Nano is scored on the images between, the embedded one on scenes of
another seed than its calibration. Engines are built and scored `--jobs` at a time, through CUDA's Multi-Process Service
where it runs; then one is measured at a time. What ended well is not done again; `build` makes what `quantize`, which
needs no GPU, has not made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

HERE = Path(__file__).resolve().parent
CLASSIFIERS = ("resnet50-b1", "vit_b_16-b1")
MODELS = ("yolox-nano", "yolov10m", "shapes-yolov10", *CLASSIFIERS)
PRECISIONS = ("fp32", "fp16", "int8-qdq", "int8-calibrated")
_LIBRARIES = [f"--tactic-source=-{name}" for name in ("CUBLAS", "CUBLAS_LT", "CUDNN", "JIT_CONVOLUTIONS")]
_NOISE, _NOISE_SAMPLES, _CALIBRATION_SEED = (3, 224, 224), 32, 17
_LONG = 6000


@dataclass(frozen=True)
class Subject:
    """A model with the words of its commands.

    Attributes:
        name: one of MODELS.
        model: ONNX file in float32.
        calibration: folder or file of calibration data.
        data: words of eval-coco; empty where the weights are random.
    """

    name: str
    model: Path
    calibration: Path
    data: tuple[str, ...] = ()


class Work:
    """Runs commands and keeps a record of each."""

    def __init__(
        self, work: Path, output: Path, keep: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    ) -> None:
        """Make both folders; read the records that are there. `keep` returns what is kept of a command's document."""
        self.work, self.records, self.keep = work, output / "engines.jsonl", keep or kept
        for folder in (work / "plans", work / "logs", output):
            folder.mkdir(parents=True, exist_ok=True)
        self.done = {(one["step"], one["engine"]): one for one in read(self.records) if one["document"] is not None}

    def step(self, step: str, engine: str, words: Sequence[str | Path]) -> dict[str, Any]:
        """Run `trtw WORDS --json` unless its record is there; return the record with the command's JSON document."""
        if found := self.done.get((step, engine)):
            return found
        line = [str(Path(sys.executable).with_name("trtw")), *map(str, words), "--json"]
        began = time.monotonic()
        ended = subprocess.run(line, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - began
        (self.work / "logs" / f"{step}-{engine}.log").write_text(ended.stderr, encoding="utf-8")
        document = json.loads(ended.stdout) if ended.returncode in (0, 1) and ended.stdout.strip() else None
        command = self._told(" ".join(map(str, words)))
        record = {"step": step, "engine": engine, "command": command, "wall_s": round(wall_s, 2)}
        record |= {"exit_code": ended.returncode, "document": self.keep(document) if document else None}
        if ended.returncode:
            record["error"] = self._told(ended.stderr.strip()[-1500:])
        with self.records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.done[step, engine] = record
        sys.stdout.write(f"{step} {engine}: exit code {ended.returncode}, {wall_s:.1f} s\n")
        sys.stdout.flush()
        return record

    def failed(self) -> bool:
        """Return whether a step left no document."""
        return any(one["document"] is None for one in self.done.values())

    def _told(self, text: str) -> str:
        """Return a text with paths relative to the work folder, or else to the repository; `tmp` is commands' own."""
        own = os.environ.get("TRTW_TMP", HERE.parents[2] / "tmp")
        return text.replace(f"{self.work}/", "").replace(f"{own}/", "tmp/").replace(f"{HERE.parents[2]}/", "")


def kept(document: dict[str, Any]) -> dict[str, Any]:
    """Return a command's document without its long tables."""
    flat = {**document, **document.pop("manifest", {})}
    return {key: value for key, value in flat.items() if len(json.dumps(value)) < _LONG}


def together(jobs: int, call: Callable[..., Any], arguments: Iterable[Sequence[Any]]) -> list[Any]:
    """Call with each of the arguments, `jobs` at a time; return the results in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        return [begun.result() for begun in [pool.submit(call, *one) for one in arguments]]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; empty where there is none."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def subjects(options: argparse.Namespace) -> list[Subject]:
    """Return the models that are there, with their data; makes what is missing."""
    from measure import split  # type: ignore[import-not-found]

    from trt_workbench.core.workspace import embedded_model
    from trt_workbench.vision.scenes.dataset import make_embedded_dataset
    from trt_workbench.vision.scenes.scenes import write_dataset

    names, work, found = options.only or MODELS, options.work, []
    folder = work / "coco"
    if options.coco and not (folder / "unseen.json").is_file():
        folder.mkdir(parents=True)
        split(options.coco / "val2017", next(options.coco.glob("annotations/*.json")), folder)
    if "yolox-nano" in names and options.yolox:
        data = ("--data", str(options.coco / "val2017"), "--annotations", str(folder / "unseen.json"))
        found.append(Subject("yolox-nano", options.yolox, folder / "seen", data))
    if "yolov10m" in names and options.yolov10m:
        found.append(Subject("yolov10m", options.yolov10m, folder / "seen"))
    if "shapes-yolov10" in names:
        if not (work / "scenes" / "calibration").is_dir():
            write_dataset(work / "scenes", "calibration", 128, _CALIBRATION_SEED)
        place = make_embedded_dataset()
        data = ("--data", str(place.images), "--annotations", str(place.annotations))
        found.append(Subject("shapes-yolov10", embedded_model(), work / "scenes" / "calibration", data))
    wanted = [name for name in CLASSIFIERS if name in names]
    if missing := [name for name in wanted if not (work / f"{name}.onnx").is_file()]:
        exporter = HERE.parent / "bench-h200" / "models.py"
        subprocess.run([sys.executable, str(exporter), str(work), *missing], check=True)
    return [*found, *(Subject(name, work / f"{name}.onnx", noise(work)) for name in wanted)]


def noise(work: Path) -> Path:
    """Return a file of normal noise, of the shape of a classifier's images."""
    import numpy as np

    path = work / "noise.npy"
    if not path.is_file():
        np.save(path, np.random.default_rng(0).standard_normal((_NOISE_SAMPLES, *_NOISE), np.float32))
    return path


def quantize(work: Work, subject: Subject) -> Path:
    """Write the model with Q/DQ nodes; return its path."""
    made = work.work / f"{subject.name}.int8.onnx"
    # of a classifier the numbers are noise and no image, and the label says so
    data = "random" if subject.name in CLASSIFIERS else str(subject.calibration)
    samples = _NOISE_SAMPLES if subject.name in CLASSIFIERS else 128
    words = ["quantize", subject.model, "--to", "int8", "--calibration", data, "--samples", str(samples), "-o", made]
    if subject.name.startswith("vit"):  # TensorRT 8.6 has no int8 kernel for a step of 16 over three channels
        words += ["--keep", "/patch_embed/proj/Conv"]
    work.step("quantize", subject.name, words)
    return made


def build(work: Work, subject: Subject, precision: str, model: Path, level: int) -> None:
    """Build one engine."""
    words = ["build-engine", model, "-o", work.work / "plans" / f"{subject.name}.{precision}.plan"]
    words += ["--precision", "fp16+int8" if precision.startswith("int8") else precision, *_LIBRARIES]
    words += ["--optimization-level", str(level)]
    if "yolov10" in subject.name:
        words += ["--max-batch", "1"]
    if precision == "int8-calibrated":
        words += ["--calibration", subject.calibration]
    work.step("build", f"{subject.name}.{precision}", words)


def plans(work: Work, subject: Subject) -> dict[str, Path]:
    """Return the engines of a model that were built, by precision."""
    found = {kind: work.work / "plans" / f"{subject.name}.{kind}.plan" for kind in PRECISIONS}
    return {kind: plan for kind, plan in found.items() if plan.is_file()}


def score(work: Work, subject: Subject, precision: str, plan: Path) -> None:
    """Score one engine."""
    run = work.work / "runs" / f"score-{subject.name}.{precision}"
    words = ["eval-coco", plan, *subject.data, "--no-report", "--allow-unverified", "--output", run]
    work.step("score", f"{subject.name}.{precision}", words)


def measure(work: Work, found: Sequence[Subject], seconds: float) -> None:
    """Time every engine that was built, then ask why int8 is as fast as it is."""
    for one in found:
        for kind, plan in plans(work, one).items():
            run = work.work / "runs" / f"time-{one.name}.{kind}"
            words = ["infer-engine", plan, "--bench", "--duration", f"{seconds:g}", "--no-save", "--output", run]
            work.step("time", f"{one.name}.{kind}", words)
    for one in found:
        built = plans(work, one)
        if {"int8-qdq", "fp16"} <= built.keys():
            words = ["profile", built["int8-qdq"], "--against", built["fp16"]]
            work.step("why", one.name, [*words, "--output", work.work / "runs" / f"why-{one.name}"])


def report(output: Path) -> str:
    """Return the table in Markdown."""
    found = {(one["step"], one["engine"]): one for one in read(output / "engines.jsonl")}
    lines = ["| model | engine | compute, ms | of fp16's | MB | AP | built in |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name in MODELS:
        base = _compute(found.get(("time", f"{name}.fp16")))
        for precision in PRECISIONS:
            engine = f"{name}.{precision}"
            built, timed, scored = (found.get((step, engine)) for step in ("build", "time", "score"))
            if not built:
                continue
            ms, ap = _compute(timed), _document(scored).get("AP")
            lines.append(
                f"| {name} | {precision} | {_text(ms, '.4f')} | {_text(ms and base and ms / base, '.2f')} | "
                f"{_text(_size(built), '.1f')} | {_text(ap, '.4f')} | {built['wall_s']:.0f} s |"
            )
    return "\n".join(lines) + "\n"


def _document(record: dict[str, Any] | None) -> dict[str, Any]:
    return (record or {}).get("document") or {}


def _compute(record: dict[str, Any] | None) -> float | None:
    measured = _document(record).get("benchmark")
    return measured["compute_ms"]["p50"] if measured else None


def _size(record: dict[str, Any]) -> float | None:
    engine = _document(record).get("engine")
    return engine["size_bytes"] / 1e6 if engine else None


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def main() -> int:
    """Run the steps that have no good record, and print the table; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("quantize", "build", "score", "measure", "report"))
    parser.add_argument("--output", type=Path, required=True, help="folder of engines.jsonl")
    parser.add_argument("--work", type=Path, help="folder of models and plans")
    parser.add_argument("--yolox", type=Path, help="yolox_nano.onnx")
    parser.add_argument("--yolov10m", type=Path, help="yolov10m.onnx, opset 17, with a dynamic batch")
    parser.add_argument("--coco", type=Path, help="folder with val2017/ and annotations/")
    parser.add_argument("--jobs", type=int, default=1, help="engines built or scored at a time")
    # TensorRT 8.6 builds a detector in fp16 for many minutes at its default, 3, and int8 for minutes at 1
    parser.add_argument("--level", type=int, default=1, help="optimisation level of the builds")
    parser.add_argument("--seconds", type=float, default=2.0, help="of measuring, an engine")
    parser.add_argument("--only", nargs="*", choices=MODELS)
    options = parser.parse_args()
    if (options.yolox or options.yolov10m) and not options.coco:
        parser.error("--yolox and --yolov10m need --coco")
    if options.verb == "report":
        sys.stdout.write(report(options.output))
        return 0
    work, made = Work(options.work, options.output), subjects(options)
    if options.verb == "measure":
        measure(work, made, options.seconds)
    elif options.verb == "score":
        scored = [(work, one, kind, plan) for one in made if one.data for kind, plan in plans(work, one).items()]
        together(options.jobs, score, scored)
    else:
        quantized = dict(zip(made, together(options.jobs, quantize, [(work, one) for one in made]), strict=True))
        asked = PRECISIONS if options.verb == "build" else ()
        builds = [
            (work, one, kind, quantized[one] if kind == "int8-qdq" else one.model, options.level)
            for kind in asked
            for one in made
            if kind != "int8-qdq" or quantized[one].is_file()
        ]
        together(options.jobs, build, builds)
    sys.stdout.write(report(options.output))
    return int(work.failed())


if __name__ == "__main__":
    sys.exit(main())
