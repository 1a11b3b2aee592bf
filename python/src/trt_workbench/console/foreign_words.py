"""Words that people bring from other tools, and what they are called here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_DATA = ("--data", "--inputs", "--input", "--text")
_RANGES = ("--shape NAME:1x3x640x640", "--profile NAME:MIN/OPT/MAX", "--dim")
_TOLERANCE = "verify derives its limits from the precision; `trtw infer-engine --expect DIR` takes {0}."
_TRTEXEC, _POLYGRAPHY = "trtexec", "Polygraphy"
_ULTRALYTICS, _LM_EVAL = "ultralytics", "lm-eval"
_OTHERS, _NEMO, _BEFORE = "other commands", "NeMo", "earlier releases"

_PLAN = ("--plan m.plan", "`trtw build-engine m.onnx --plan m.plan` writes an engine.")
_BUILDS = ("`trtw build-engine` only builds an engine, and verifies it.",)
_TIMED = ("`trtw infer-engine` takes --iterations and --duration.",)
_SAVED = ("--save", "`trtw infer-engine --save` keeps the outputs.")
_KEPT = ("The results are always kept, in the run directory.",)
_ELSEWHERE = ("quantize --to", "sensitivity --to", "eval-llm --backends ort-cpu:bf16")
Says = tuple[str, ...]
"""What to say instead, the first that the command has: `--precision fp16`, or of one command `quantize --to fp16`.

A sentence fits every command. Each is typed into the commands that say it by tests/cli/test_foreign_words.py.
"""


def _precision(name: str) -> Says:
    return f"--precision {name}", f"--precisions {name}", f"quantize --to {name}", f"sensitivity --to {name}"


OPTIONS: Final[Mapping[str, tuple[str, Says]]] = {
    "--onnx": (_TRTEXEC, ("Give the model as the first argument.",)),
    "--loadEngine": (_TRTEXEC, ("Give the plan as the first argument: `trtw infer-engine m.plan`.",)),
    "--saveEngine": (_TRTEXEC, _PLAN),
    "--buildOnly": (_TRTEXEC, _BUILDS),
    "--skipInference": (_TRTEXEC, _BUILDS),
    "--infStreams": (_TRTEXEC, ("--streams",)),
    "--fp16": (_TRTEXEC, _precision("fp16")),
    "--bf16": (_TRTEXEC, _precision("bf16")),
    "--int8": (_TRTEXEC, _precision("int8")),
    "--fp8": (_TRTEXEC, _precision("fp8")),
    "--best": (_TRTEXEC, ("`trtw decide` compares every precision.",)),
    "--noTF32": (_TRTEXEC, ("TF32 is off by default; --precision fp32+tf32 turns it on.",)),
    "--stronglyTyped": (_TRTEXEC, ("--strongly-typed",)),
    "--shapes": (_TRTEXEC, _RANGES),
    "--minShapes": (_TRTEXEC, _RANGES),
    "--optShapes": (_TRTEXEC, _RANGES),
    "--maxShapes": (_TRTEXEC, _RANGES),
    "--loadInputs": (_TRTEXEC, _DATA),
    "--inputIOFormats": (_TRTEXEC, ("--io-type NAME=fp16 --io-format NAME=hwc8",)),
    "--outputIOFormats": (_TRTEXEC, ("--io-type NAME=fp16",)),
    "--memPoolSize": (_TRTEXEC, ("--workspace", "--memory-pool")),
    "--builderOptimizationLevel": (_TRTEXEC, ("--optimization-level",)),
    "--timingCacheFile": (_TRTEXEC, ("--timing-cache",)),
    "--calib": (_TRTEXEC, ("--calibration",)),
    "--staticPlugins": (_TRTEXEC, ("--plugin",)),
    "--useCudaGraph": (_TRTEXEC, ("--cuda-graph",)),
    "--useSpinWait": (_TRTEXEC, ("--spin",)),
    "--warmUp": (_TRTEXEC, ("--warmup",)),
    "--percentile": (_TRTEXEC, ("--percentiles", "--method mse")),
    "--exportTimes": (_TRTEXEC, ("--export-times",)),
    "--dumpProfile": (_TRTEXEC, ("`trtw profile` times every layer.",)),
    "--exportLayerInfo": (_TRTEXEC, ("`trtw inspect m.plan --json` lists the layers.",)),
    "--versionCompatible": (_TRTEXEC, ("--version-compatible",)),
    "--iterations": (_TRTEXEC, _TIMED),
    "--duration": (_TRTEXEC, _TIMED),
    "--avgRuns": (_TRTEXEC, ("Every call is recorded; percentiles are over all of them.",)),
    "--noDataTransfers": (_TRTEXEC, ("`trtw infer-engine --no-transfers` excludes transfers.",)),
    "--dumpOutput": (_TRTEXEC, _SAVED),
    "--exportOutput": (_TRTEXEC, _SAVED),
    "--exportProfile": (_TRTEXEC, ("`trtw profile` times every layer.",)),
    "--explicitBatch": (_TRTEXEC, ("Leave it out: batches are always explicit.",)),
    "--plugins": (_TRTEXEC, ("--plugin",)),
    "--sparsity": (_TRTEXEC, ("--sparse-weights",)),
    "--useDLACore": (_TRTEXEC, ("--dla-core",)),
    "--verbose": (_TRTEXEC, ("--verbosity", "--debug")),
    "--trt": (_POLYGRAPHY, ("--backend trt", "--backends trt")),
    "--onnxrt": (_POLYGRAPHY, ("--reference ort-cpu", "--backend ort-cpu", "--backends ort-cpu")),
    "--trt-min-shapes": (_POLYGRAPHY, _RANGES),
    "--input-shapes": (_POLYGRAPHY, _RANGES),
    "--rtol": (_POLYGRAPHY, (_TOLERANCE.format("--rtol"),)),
    "--atol": (_POLYGRAPHY, (_TOLERANCE.format("--atol"),)),
    "--load-inputs": (_POLYGRAPHY, _DATA),
    "--save-engine": (_POLYGRAPHY, _PLAN),
    "--fold-constants": (_POLYGRAPHY, ("`trtw sanitize-onnx` folds constants.",)),
    "model=": (_ULTRALYTICS, ("Give the model as the first argument.",)),
    "--weights": (_ULTRALYTICS, ("Give the model as the first argument.",)),
    "source=": (_ULTRALYTICS, (*_DATA, "Give images and folders after the model.")),
    "images=": (_ULTRALYTICS, (*_DATA, "Give images and folders after the model.")),
    "data=": (_ULTRALYTICS, (*_DATA, "Give images and folders after the model.")),
    "imgsz=": (_ULTRALYTICS, ("--imgsz",)),
    "--img": (_ULTRALYTICS, ("--imgsz",)),
    "--img-size": (_ULTRALYTICS, ("--imgsz",)),
    "conf=": (_ULTRALYTICS, ("--conf",)),
    "--conf-thres": (_ULTRALYTICS, ("--conf",)),
    "--iou-thres": (_ULTRALYTICS, ("--iou",)),
    "iou=": (_ULTRALYTICS, ("--iou",)),
    "max_det=": (_ULTRALYTICS, ("--max-dets",)),
    "half=": (_ULTRALYTICS, _precision("fp16")),
    "device=": (_ULTRALYTICS, ("--device", "`CUDA_VISIBLE_DEVICES=1` chooses the GPU.")),
    "batch=": (_ULTRALYTICS, ("--batch", "--max-batch")),
    "--batch-size": (_ULTRALYTICS, ("--batch", "--max-batch")),
    "task=": (_ULTRALYTICS, ("The task is read from the model.",)),
    "mode=": (_ULTRALYTICS, ("`trtw -h` lists the commands.",)),
    "save=": (_ULTRALYTICS, _KEPT),
    "save_txt=": (_ULTRALYTICS, _KEPT),
    "name=": (_ULTRALYTICS, ("--output DIR",)),
    "project=": (_ULTRALYTICS, ("--output DIR",)),
    "--save-dir": (_ULTRALYTICS, ("--output DIR",)),
    "--tasks": (_LM_EVAL, ("--text",)),
    "--model": (_LM_EVAL, ("Give the model as the first argument.",)),
    "--model_args": (_LM_EVAL, ("Give the model's folder as the first argument.",)),
    "--batch_size": (_LM_EVAL, ("--batch",)),
    "--output_path": (_LM_EVAL, ("--output DIR",)),
    "--manifest": (_NEMO, ("--data",)),
    "dataset_manifest=": (_NEMO, ("--data",)),
    "--data": (_OTHERS, (*_DATA, "Give images and folders after the model.")),
    "--images": (_BEFORE, ("--data",)),
    "--transcribe": (_BEFORE, ("`trtw eval-speech` transcribes, and takes the manifest with --data.",)),
    "--variants": (_BEFORE, ("decide --option trt:optimization_level=5", "One run takes one set of options.")),
    "--targets": (_BEFORE, ("`trtw check-target m.onnx --gpu rtx5090` compiles a model for cards.",)),
    "--state": (_BEFORE, ("`trtw eval-stream --mode device` keeps states on the device, and so does tw.load.",)),
    "--profiler": (_BEFORE, ("`trtw profile --nsys` records with Nsight Systems.",)),
    "--no-bisect": (_BEFORE, ("--bisect-seconds 0",)),
    "--ensemble": (_BEFORE, ("The backend v2 prepares images and finds boxes on the client.",)),
    "--cuda-graphs": (_BEFORE, ("--cuda-graph", "Triton's config.pbtxt takes it as optimization.cuda.")),
    "--instances": (_BEFORE, ("Triton's config.pbtxt takes it as count of instance_group.",)),
    "--delay-us": (_BEFORE, ("Triton's config.pbtxt takes it as max_queue_delay_microseconds.",)),
    "--no-batching": (_BEFORE, ("Leave dynamic_batching out of Triton's config.pbtxt.",)),
    "--preferred": (_BEFORE, ("Triton's config.pbtxt takes it as preferred_batch_size.",)),
    "--fix-out": (_BEFORE, ("`trtw verify --fix` writes the correct engine or model into the run directory.",)),
    "--score-samples": (_BEFORE, ("A search scores at most 500 samples of the held-out half.",)),
    "--plain-texts": (_BEFORE, ("`trtw eval-speech --normalize` leaves out case and punctuation.",)),
    "--version": (_OTHERS, ("`trtw --version` prints it; a model for Triton is in folder 1, which may be renamed.",)),
    "--opset": (_OTHERS, ("`trtw export-llm --opset 18` writes graphs that eval-llm --graphs takes.",)),
    "--calibration-annotations": (_OTHERS, ("--annotations",)),
    "--precision": (_OTHERS, ("--precisions", *_ELSEWHERE)),
    "--precisions": (_OTHERS, ("--precision", *_ELSEWHERE)),
    "--to": (_OTHERS, ("--precision", "--precisions", *_ELSEWHERE)),
    "--output": (_OTHERS, ("--plan", "This command has no run directory.")),
}
"""By the word as its tool has it: the tool, and what to say here."""
_BY_NAME: Final = {word.strip("-="): found for word, found in OPTIONS.items()}
COMMANDS: Final[Mapping[str, str]] = {
    "run": "verify",
    "convert": "build-engine",
    "surgeon": "sanitize-onnx",
    "trtexec": "build-engine",
    "val": "eval-coco",
    "detect": "predict",
    "yolo": "predict",
    "polygraphy": "verify",
    "segment": "predict",
    "benchmark": "bench",
    "lm_eval": "eval-llm",
    "inspect-engine": "inspect",
}
"""Commands of other tools, and one of before, and ours."""


def advice(command: str, words: Sequence[str], flags: Sequence[str]) -> str | None:
    """Return what to say for each option of another tool, in a sentence or two; None where there is none.

    Args:
        command: that they were typed for.
        words: as they were typed, such as `--minShapes=x:1x3` or `imgsz=640`. An option's value is no such word.
        flags: the options that the command has.
    """
    found: dict[str, str] = {}
    for before, word in zip(["", *words], words, strict=False):
        text, sign, _ = word.partition("=")
        name = text.removeprefix("--")
        is_option = word.startswith("--") and text not in flags
        is_setting = sign and not word.startswith("-") and not before.startswith("-") and not Path(word).exists()
        if name in _BY_NAME and (is_option or is_setting):
            word = text if is_option else f"{name}="
            found[word] = _said(word, *(OPTIONS.get(word) or _BY_NAME[name]), command, {*flags})
        elif is_setting and (own := f"--{name.replace('_', '-')}") in flags:  # classes=0
            found[f"{name}="] = _said(f"{name}=", _ULTRALYTICS, (own,), command, {*flags})
    return " ".join(found.values()) or None


def _said(word: str, tool: str, says: Says, command: str, flags: set[str]) -> str:
    of = f"{word} is an option of {tool}"
    own = [re.sub(f"^{command} (?=--)", "", one) for one in says]
    fits = next((one for one in own if one.split()[0] in flags or one.endswith(".")), None)
    if fits is None:
        return f"{of}; {command} has none like it (other commands: {says[0]})."
    return f"{of}; use {fits} here." if fits.startswith("--") else f"{of}. {fits}"
