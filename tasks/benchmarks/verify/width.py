"""How wide fp16's limits are: what verify explains by fp16, compared with what PyTorch's fp16 is really off by.

`python tasks/benchmarks/verify/width.py run FILE` verifies small generated models on backend `torch` in fp16 and
appends a record for each; `table FILE` prints the table.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.healthy_models import check
from tests.random_models import write_model

# No rule was tuned on these. Of 120001 PyTorch gives every output bit for bit.
SEEDS = range(120_000, 120_031)


def run(file: Path) -> None:
    """Verify every model and append its record."""
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            blocks = write_model(seed, Path(folder) / "it.onnx")
            document = check(seed, "torch fp16", Path(folder)).document
        rows = [row for case in document["cases"] for row in case["outputs"] if row["verdict"] != "undecided"]
        pairs = [
            [row["difference"]["rel_l2"], row["limits"]["fp16"]["rel_l2"]]
            for row in rows
            if row["difference"] and row["difference"]["rel_l2"]
        ]
        record = {"seed": seed, "blocks": blocks, "verdict": document["verdict"], "torch_and_limit": pairs}
        with file.open("a", encoding="utf-8") as records:
            records.write(json.dumps(record) + "\n")


def table(file: Path) -> None:
    """Print a row for each model: PyTorch's error and the limit, medians over shapes and inputs, and their ratio."""
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    lines = ["| seed | what it is made of | PyTorch's fp16 | explained by fp16 | times as wide: median (least) |"]
    lines.append("| --: | --- | --: | --: | --: |")
    every: list[float] = []
    for record in (one for one in records if one["torch_and_limit"]):
        ratios = [limit / error for error, limit in record["torch_and_limit"]]
        errors, limits = (median(one) for one in zip(*record["torch_and_limit"], strict=True))
        figures = f"{errors:.1e} | {limits:.1e} | {median(ratios):.1f} ({min(ratios):.1f})"
        lines.append(f"| {record['seed']} | {', '.join(record['blocks'])} | {figures} |")
        every += ratios
    every.sort()
    ends = ", ".join(f"p{share} {every[len(every) * share // 100]:.1f}" for share in (5, 50, 95))
    lines += ["", f"Of {len(every)} outputs of {len(lines) - 2} models: {ends}; least {every[0]:.1f}.", ""]
    sys.stdout.write("\n".join(lines))


if __name__ == "__main__":
    {"run": run, "table": table}[sys.argv[1]](Path(sys.argv[2]))
