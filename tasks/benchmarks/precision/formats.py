"""The embedded language model in every format on ort-cpu: perplexity, top-1 agreement, divergence and size.

Run in the repository, with a text to find ranges on that is not the one that is scored (here WikiText-2's `valid`):

    python tasks/benchmarks/precision/formats.py CALIBRATION.txt

It writes formats.json and formats.md to docs/benchmarks/precision.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trt_workbench.core.documents import write_json
from trt_workbench.core.files import anything
from trt_workbench.core.hashing import hash_file
from trt_workbench.llm.run import LlmEvaluation, LlmRequest
from trt_workbench.llm.settings import BackendChoice
from trt_workbench.model.low_precision.evidence import Evidence
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.settings import MADE, CalibrationSettings, PlacementSettings

ROOT = Path(__file__).resolve().parents[3]
RECORDS = ROOT / "docs" / "benchmarks" / "precision"
MODEL = ROOT / "models" / "tiny-lm"
TOKENS = 8192
PLACEMENTS = {"head left alone": PlacementSettings(keep=("/model/lm_head/MatMul",)), "everything": PlacementSettings()}
NOT_THE_HEAD = ("fp16", "bf16")


def main(text: Path) -> None:
    """Score every format and write the record."""
    rows: list[dict[str, Any]] = []
    for name, placement in PLACEMENTS.items():
        rows += _scores(text, name, placement)
    document = {
        "schema_version": 1,
        "command": "python tasks/benchmarks/precision/formats.py CALIBRATION.txt",
        "model": "models/tiny-lm",
        "text_sha256": hash_file(MODEL / "held-out.txt"),
        "calibration_sha256": hash_file(text),
        "tokens": TOKENS,
        "versions": {one: version(one) for one in ("onnx", "onnxruntime", "numpy", "torch")},
        "python": platform.python_version(),
        "rows": rows,
    }
    write_json(RECORDS / "formats.json", document, over=anything)
    table = "\n".join(map(_line, rows))
    (RECORDS / "formats.md").write_text(PAGE.format(table=table, tokens=TOKENS), encoding="utf-8")


def _scores(calibration: Path, name: str, placement: PlacementSettings) -> list[dict[str, Any]]:
    made: dict[str, tuple[Path, Evidence]] = {}
    with tempfile.TemporaryDirectory() as folder:

        def candidate(graph: Path, to: str) -> Path:
            output = Path(folder) / f"{graph.stem}.{to}.onnx"
            data = CalibrationSettings(calibration=str(calibration), tokenizer=MODEL)
            chosen = PlacementSettings() if to in NOT_THE_HEAD else placement
            if name == "everything":
                chosen = PlacementSettings(keep_sensitive=False)
            found = make_candidate(Model.open(graph), to, output, calibration=data, placement=chosen)
            made[to] = output, found.evidence
            return output

        formats = [to for to in MADE if not (name == "everything" and to in NOT_THE_HEAD)]
        backends = tuple(BackendChoice("ort-cpu", one) for one in ("fp32", *formats))
        text = MODEL / "held-out.txt"
        request = LlmRequest(model=MODEL, text=text, backends=backends, limit=TOKENS, candidate=candidate)
        with LlmEvaluation(request, print) as evaluation:
            metrics = evaluation.run(Path(folder)).metrics
        return [
            {
                "format": row["precision"],
                "placement": name if row["precision"] in made and row["precision"] not in NOT_THE_HEAD else "",
                "label": row["precision_ran"]["label"],
                "perplexity": row["perplexity"],
                "relative_difference": row["relative_difference"],
                "top1_agreement": row["top1_agreement"],
                "kl_divergence_nats": row["kl_divergence"],
                "size_bytes": made[row["precision"]][0].stat().st_size if row["precision"] in made else None,
                "low_macs": made[row["precision"]][1].low_macs if row["precision"] in made else None,
            }
            for row in metrics["backends"]
            if row["backend"] == "ort-cpu" and (name != "everything" or row["precision"] != "fp32")
        ]


def _line(row: dict[str, Any]) -> str:
    size = f"{row['size_bytes'] / 1e6:.1f}" if row["size_bytes"] else "6.8"
    share = "-" if row["low_macs"] is None else f"{row['low_macs']:.0%}"
    return (
        f"| {row['format']} | {row['placement'] or '-'} | {row['label']} | {row['perplexity']:.3f} | "
        f"{row['relative_difference']:+.2%} | {row['top1_agreement']:.3f} | {row['kl_divergence_nats']:.2g} | "
        f"{share} | {size} |"
    )


PAGE = """# The embedded language model in every format

`python tasks/benchmarks/precision/formats.py CALIBRATION.txt`, on two CPU cores: the scores of `eval-llm` over {tokens}
tokens of `models/tiny-lm/held-out.txt` on ort-cpu, against PyTorch in fp32. Ranges of int8 (mse) and fp8 (max) are from
128 windows of WikiText-2's `valid`, the other formats need none. All values: [formats.json](formats.json)
([commits](../README.md#commits)).

The head is the product that makes the logits. `trtw quantize` leaves it alone in mxfp8, nvfp4 and int4-weights, unless
configured otherwise, and takes it in int8 and fp8.

| format | placement | ran in | perplexity | change | top-1 | KL, nats | arithmetic low | file, MB |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
{table}

- 16 bits cost next to nothing: fp16 changes the first choice at one token in 500, bf16 at one in 65.
- int8, fp8 and mxfp8 cost less than 1 %, fp8-e5m2 1 to 2.3 %. Of these int8 by `mse` loses least perplexity with the
  head left alone.
- Four bits cost 5 %, and 8 to 9 % with the head: it is a fifth of the arithmetic that is low, and makes 38 % of NVFP4's
  loss and 43 % of the loss by weights in int4. So it is left alone.
- int4-weights, in blocks of 128 inputs or whole channels, cost as much as NVFP4, whose activations have four bits, too.

"(simulated)" formats were computed in fp32 with exactly the formats' values
([low-precision formats](../../reference/low-precision-formats.md)); nothing of this ran on a GPU.
"""

if __name__ == "__main__":
    main(Path(sys.argv[1]))
