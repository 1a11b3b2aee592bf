"""Time and result of `quantize --to int8 --keep-score`: processor seconds, share of int8, losses.

Usage: mixed.py OUT.jsonl LABEL MODEL [OPTION…]

Further options go to `trtw quantize`, such as --calibration and --annotations. LABEL is the release; run two
releases in turn on the same machine to compare. Trials of earlier runs are not used.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Search once, and append one line."""
    out, label, model, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "m.onnx"
        command = ["trtw", "quantize", model, "--to", "int8", "--keep-score", "0.005", "--threads", "1", *options]
        began = time.monotonic()
        done = subprocess.run([*command, "--output", target], check=False)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        evidence = json.loads(target.with_suffix(".search").joinpath("search.json").read_text())["evidence"]
    record = {
        "label": label,
        "model": Path(model).name,
        "exit_code": done.returncode,
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "wall_s": round(time.monotonic() - began, 1),
        "evidence": evidence,
    }
    with Path(out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
