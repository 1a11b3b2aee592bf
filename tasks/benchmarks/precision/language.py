"""Perplexity and top-1 agreement of a language model's graph as int8, by method.

Usage: language.py MODEL_FOLDER LOGITS.onnx TEXT OUT.jsonl

The first 8192 tokens of the text are scored in windows of 128; the windows after them calibrate.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.torch.llm_tokenizer import load_tokenizer
from trt_workbench.model.llm_directory import examine_llm_directory
from trt_workbench.model.low_precision.kinds import Method
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import calibrate
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings

WINDOW, SCORED, BATCH = 128, 8192, 16


def score(path: Path, rows: NDArray[np.int64]) -> tuple[float, NDArray[np.int64]]:
    """Return the perplexity and the likeliest token at every position, int64 [windows, tokens]."""
    losses, likeliest = [], []
    with OrtCpuBackend().load(path) as session:
        for part in np.split(rows, len(rows) // BATCH):
            logits = session.run({"input_ids": part, "attention_mask": np.ones_like(part)})["logits"].astype(np.float64)
            logits -= logits.max(-1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
            losses.append(-np.take_along_axis(logits[:, :-1], part[:, 1:, None], -1).ravel())
            likeliest.append(logits.argmax(-1))
    return float(np.exp(np.concatenate(losses).mean())), np.concatenate(likeliest)


def main() -> None:
    """Measure and append one line a candidate."""
    folder, model, text, out = map(Path, sys.argv[1:])
    ids = load_tokenizer(examine_llm_directory(folder)).encode(text.read_text(encoding="utf-8")).ids
    rows = ids[:SCORED].reshape(-1, WINDOW)
    lines = []
    with tempfile.TemporaryDirectory() as name:
        rest = ids[SCORED:]
        rest = rest[: len(rest) // WINDOW * WINDOW].reshape(-1, WINDOW)
        data = Path(name) / "calibration.npz"
        np.savez(data, input_ids=rest, attention_mask=np.ones_like(rest))
        perplexity, expected = score(model, rows)
        lines.append({"to": "fp32", "perplexity": perplexity, "tokens": int(rows.size)})
        for kind in (str(data), "random"):
            found = calibrate(Model.open(model), CalibrationSettings(calibration=kind))
            methods: tuple[Method, ...] = get_args(Method) if kind != "random" else ("mse",)
            for method in methods:
                placement = PlacementSettings(method=method)
                made = make_candidate(
                    Model.open(model), "int8", Path(name) / "m.onnx", calibration=found, placement=placement
                )
                perplexity, likeliest = score(made.path, rows)
                same = float((likeliest == expected).mean())
                samples = found.evidence.samples
                how = {"to": "int8", "method": method, "calibration": found.evidence.kind, "samples": samples}
                lines.append({**how, "perplexity": perplexity, "top1": same, "low_macs": made.evidence.low_macs})
    out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
