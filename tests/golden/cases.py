"""What every command is asked on the embedded models, and the commands whose documents are kept.

A case runs in a folder that all cases share: `models/` is the repository's, `out/NAME` is what the case NAME writes.
"""

import json
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.in_app import trtw

DETECTOR = "models/shapes-yolov10/shapes-yolov10.onnx"
ENCODER = "models/streaming-encoder/streaming-encoder.onnx"
CONTRACT = "models/streaming-encoder/contract.json"
LLM = "models/tiny-lm"
SCENES = "--data scenes --annotations scenes.json --backend ort-cpu"
BATCHES = "--dim batch=1:1:2"
STREAMS = "--dim B=1:1:2 --dim T=17:65:65"
FEW = "--samples 8 --calibration random"

# Each file measured for a moment: what is kept is whether its outputs matched.
BENCH = """
title: Golden record
repetitions: 1
measure: {warmup_ms: 1, duration_s: 0.01, min_iterations: 2, slices: 1}
models:
  detector:
    embedded: shapes-yolov10
    files: {fp16: out/quantize-fp16/made.onnx, int8: out/quantize-int8/made.onnx}
runtimes:
  - {backend: ort-cpu, name: ort-cpu, file: [null, fp16, int8]}
scenarios:
  arrays: {kind: arrays, batch: [2]}
"""


@dataclass(frozen=True)
class Case:
    """One command: its words (`OUT` is the folder that it writes), and what is kept of it."""

    words: str
    torch: bool = False
    table: str | None = None  # keep what is printed, too; the document is then this file under OUT
    files: tuple[str, ...] = ()  # further files under OUT that are kept
    machine: tuple[str, ...] = ()  # fields that depend on the machine here alone
    long: bool = False  # takes more than a second
    jumps: bool = False  # int8, fp16 or boxes of noise: another order of rounding moves every score and count a little

    @property
    def needs(self) -> tuple[str, ...]:
        """The cases that write what this one reads, by the places in its words: a process may run any case first."""
        read = self.words.replace("bench.yaml", BENCH)
        return (*re.findall(r"\bout/([\w-]+)", read), *(("eval-coco",) if re.search(r"\bscenes\b", read) else ()))


CASES = {
    "backends": Case("backends", machine=("ok", "reason", "fix")),
    "bench": Case(
        "bench bench.yaml --output OUT",
        files=("records.jsonl",),
        machine=("summary", "unstable"),
        long=True,
    ),
    "check-contract": Case(f"check-contract {CONTRACT} {ENCODER} --output OUT --backend ort-cpu", long=True),
    "check-contract-static": Case(f"check-contract {CONTRACT} {ENCODER} --static --output OUT"),
    "compare": Case("compare out/bench out/bench", machine=("unstable",), long=True),
    "decide": Case(
        "decide --limit 6 --repetitions 0 --samples 8 --precisions fp32,fp16,bf16,int8 --backends ort-cpu --output OUT",
        table="decision.json",
        jumps=True,
        long=True,
    ),
    "doctor": Case("doctor", machine=("ok", "state", "found", "fix")),
    "eval-coco": Case("eval-coco --limit 12 --backend ort-cpu --output OUT"),
    "eval-coco-fp16": Case(
        f"eval-coco out/quantize-fp16/made.onnx {SCENES} --limit 12 --output OUT",
        jumps=True,
        long=True,
    ),
    "eval-coco-int8": Case(
        f"eval-coco out/quantize-int8/made.onnx {SCENES} --limit 12 --output OUT",
        jumps=True,
        long=True,
    ),
    "eval-llm": Case(
        "eval-llm --limit 256 --window 128 --modes perplexity,generate --new-tokens 4 --no-report "
        "--backends torch,ort-cpu,ort-cpu:fp16,ort-cpu:int8 --calibration random --output OUT",
        torch=True,
        jumps=True,
    ),
    "eval-stream": Case(
        "eval-stream --chunks 30 --backend ort-cpu --faults --no-report --output OUT",
        machine=("resident", "drift", "tensor", "chunk", "text", "closed_over_functional"),  # where rounding errs most
        long=True,
    ),
    "eval-speech": Case(
        "eval-speech --utterances 12 --backend ort-cpu --faults --also whole --also 17 --no-report --output OUT",
        long=True,
    ),
    "eval-stream-fp8": Case(
        f"eval-stream out/quantize-fp8/made.onnx --model {ENCODER} --contract {CONTRACT} --chunks 12 --backend ort-cpu "
        "--input code --no-report --output OUT",
        machine=("resident",),
        long=True,
    ),
    "export-llm": Case(f"export-llm {LLM} --graphs logits,cached -o OUT", torch=True),
    "infer-engine": Case(
        f"infer-engine {DETECTOR} --backend ort-cpu --no-bench --input input.npy --expect out/infer-expected/outputs "
        "--check-finite --output OUT",
    ),
    "infer-expected": Case(f"infer-engine {DETECTOR} --backend ort-cpu --no-bench --input input.npy --output OUT"),
    "infer-fp16": Case(
        "infer-engine out/quantize-fp16/made.onnx --backend ort-cpu --no-bench --input input.npy "
        "--expect out/infer-expected/outputs --output OUT",
        jumps=True,
    ),
    "inspect-detector": Case(f"inspect {DETECTOR}", machine=("tensorrt",)),
    "inspect-encoder": Case(f"inspect {ENCODER}", machine=("tensorrt",)),
    "inspect-int8": Case("inspect out/quantize-int8/made.onnx", machine=("tensorrt",)),
    "inspect-llm": Case(f"inspect {LLM}"),
    "inspect-nvfp4": Case("inspect out/quantize-nvfp4/made.onnx", machine=("tensorrt",), long=True),
    "make-contract": Case(f"make-contract {ENCODER} -o OUT/contract.json", files=("contract.json",)),
    "partitions": Case(f"partitions {DETECTOR} --backend ort-cpu --output OUT"),
    "predict": Case(f"predict {DETECTOR} scenes --limit 3 --backend ort-cpu --output OUT"),
    "profile": Case(
        f"profile {DETECTOR} --backend ort-cpu --iterations 1 --warmup 1 --output OUT",
        machine=("summary",),
        long=True,
    ),
    "quantize-bf16": Case(f"quantize {DETECTOR} --to bf16 {FEW} -o OUT/made.onnx"),
    "quantize-fp16": Case(f"quantize {DETECTOR} --to fp16 {FEW} -o OUT/made.onnx"),
    "quantize-fp8": Case(f"quantize {ENCODER} --to fp8 {FEW} -o OUT/made.onnx"),
    "quantize-int4": Case(f"quantize {ENCODER} --to int4-weights {FEW} -o OUT/made.onnx"),
    "quantize-int8": Case(f"quantize {DETECTOR} --to int8 {FEW} -o OUT/made.onnx"),
    "quantize-mxfp8": Case(f"quantize {ENCODER} --to mxfp8 {FEW} -o OUT/made.onnx", long=True),
    "quantize-nvfp4": Case(f"quantize {ENCODER} --to nvfp4 {FEW} -o OUT/made.onnx", long=True),
    "report": Case("report out/eval-coco out/eval-coco-int8 --output OUT", long=True),
    "sanitize-onnx": Case(f"sanitize-onnx {ENCODER} -o OUT/made.onnx --dim B=2 --size T=65"),
    "sensitivity": Case(
        f"sensitivity {ENCODER} --to int8 {FEW} --worst 0 --keep /blocks.1/* --keep /blocks.2/* --output OUT",
        long=True,
    ),
    "verify-detector": Case(
        f"verify {DETECTOR} --backend ort-cpu --quick {BATCHES} --output OUT", table="verify.json", long=True
    ),
    "verify-detector-fp16": Case(
        f"verify out/quantize-fp16/made.onnx --model {DETECTOR} --backend ort-cpu --quick {BATCHES} --output OUT",
        table="verify.json",
        long=True,
    ),
    "verify-detector-torch": Case(
        f"verify {DETECTOR} --backend torch --quick {BATCHES} --output OUT", torch=True, table="verify.json"
    ),
    "verify-encoder": Case(
        f"verify {ENCODER} --backend ort-cpu --quick {STREAMS} --output OUT", table="verify.json", long=True
    ),
    "verify-encoder-torch": Case(
        f"verify {ENCODER} --backend torch --quick {STREAMS} --output OUT", torch=True, table="verify.json"
    ),
    "verify-llm": Case(
        "verify out/export-llm/logits.onnx --backend ort-cpu --quick --dim batch=1:1:2 --dim sequence=1:8:16 "
        "--output OUT",
        torch=True,
        table="verify.json",
    ),
    "verify-llm-torch": Case(
        "verify out/export-llm/logits.onnx --backend torch --quick --dim batch=1:1:2 --dim sequence=1:8:16 "
        "--output OUT",
        torch=True,
        table="verify.json",
    ),
}


@cache
def run(name: str) -> Any:
    """Run a case, after those that it needs, in the folder of all cases; return what is kept of it, unmasked."""
    case, out = CASES[name], Path("out") / name
    for other in case.needs:
        run(other)
    shutil.rmtree(out, ignore_errors=True)  # of a case that failed for another that needs it
    out.mkdir(parents=True)
    words = [str(out) if word == "OUT" else word.replace("OUT/", f"{out}/") for word in case.words.split()]
    if words[-2:] == ["--output", str(out)]:
        out.rmdir()
    result = trtw(*words, *(() if case.table else ("--json",)))
    assert result.exit_code in (0, 1), f"{name}: exit code {result.exit_code}\n{result.stderr}"
    kept: dict[str, Any] = {"command": f"trtw {case.words}", "exit_code": result.exit_code}
    if case.table:
        kept |= {"printed": result.stdout.splitlines(), "document": json.loads((out / case.table).read_text())}
    else:
        kept["document"] = json.loads(result.stdout)
    for file in case.files:
        text = (out / file).read_text()
        if file.endswith(".jsonl"):  # measured in an order of chance
            kept[file] = sorted((json.loads(line) for line in text.splitlines()), key=lambda line: str(line["swept"]))
        else:
            kept[file] = json.loads(text)
    return kept
