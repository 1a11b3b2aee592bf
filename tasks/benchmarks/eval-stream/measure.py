"""Make the records of docs/benchmarks/eval-stream; run it in the repository's root.

Needs PyTorch and ONNX Runtime on a CPU, and about ten minutes on two cores. Of the long runs the records of single
chunks (6 and 17 MB) become errors.npz: by lane, the largest relative L2 of each chunk's tensors.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
RECORDS = Path("docs/benchmarks/eval-stream")
RECURRENT = Path("tmp/recurrent")
ENCODER = "models/streaming-encoder/streaming-encoder.onnx --contract models/streaming-encoder/contract.json"
CELL = f"{RECURRENT}/recurrent.onnx --contract {RECURRENT}/recurrent.contract.json"
PRECISIONS = "--precision fp32,fp16,bf16"
RUNS = {
    "encoder-torch": f"{ENCODER} --backend torch {PRECISIONS} --faults",
    "encoder-ort": f"{ENCODER} --backend ort-cpu --reference torch --faults",
    "encoder-hour": f"{ENCODER} --backend ort-cpu --reference torch --chunks 6429 --mode closed-loop",
    "recurrent": f"{CELL} --backend torch {PRECISIONS} --mode closed-loop --chunks 10000",
}
WHOLE = ("encoder-ort",)


def keep(run: Path, folder: Path, *, whole: bool) -> None:
    """Copy what is kept of a run directory."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = json.loads((run / "env.json").read_text())
    environment["command_line"][0] = Path(environment["command_line"][0]).name
    (folder / "env.json").write_text(json.dumps(environment, indent=2) + "\n")
    for name in ("metrics.json", "run.json", *(["records.jsonl"] if whole else [])):
        shutil.copyfile(run / name, folder / name)
    if not whole:
        errors: dict[str, list[float]] = {}
        with (run / "records.jsonl").open() as lines:
            for record in map(json.loads, lines):
                found = [np.inf if one["rel_l2"] is None else one["rel_l2"] for one in record["tensors"].values()]
                errors.setdefault(record["lane"], []).append(max(found))
        np.savez_compressed(folder / "errors.npz", **{name: np.float32(values) for name, values in errors.items()})


def main() -> None:
    """Run everything, one after the other, with one thread each: PyTorch's threads spin where cores are shared."""
    subprocess.run([sys.executable, HERE / "recurrent.py", RECURRENT], check=True)
    for name, words in RUNS.items():
        run = Path("tmp/eval-stream-records", name)
        command = ["trtw", "eval-stream", *words.split(), "--output", str(run)]
        # exit code 1 is a finding, and recorded
        done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
        if done.returncode not in (0, 1):
            sys.exit(done.returncode)
        keep(run, RECORDS / name, whole=name in WHOLE)


if __name__ == "__main__":
    main()
