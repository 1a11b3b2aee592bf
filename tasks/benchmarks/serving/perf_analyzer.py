"""The same server under `bench --backend v2` and under Triton's perf_analyzer, by concurrency, one after the other.

    python tasks/benchmarks/serving/perf_analyzer.py DIR --output records.jsonl --perf-analyzer perf_analyzer

Triton's server is that of `tests/tritonserver.py` (`TRTW_TRITON_PYTHON`). Its Python backend serves a model that sleeps
100 ms a request, one request at a time, so that what is right is known. A line is a concurrency: what either of them
says, and how busy the machine was. Run it again, in another folder, for another round.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from tests.slurm_cluster import TRTW
from tests.tritonserver import tritonserver
from tests.unit.backends.small_models import linear

LEVELS = (1, 2, 4, 8)
NAME = "sleeping"
SLEEP_S = 0.1
_MODEL = f"""
import time
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from trt_workbench_serving.steps import OnnxModel


class TritonPythonModel:
    def initialize(self, args):
        self._model = OnnxModel(Path(args["model_repository"]) / args["model_version"] / "model.onnx")

    def execute(self, requests):
        answers = []
        for request in requests:
            time.sleep({SLEEP_S})
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            (found,) = self._model([{{"x": x}}])
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", found["y"])]))
        return answers
"""


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--perf-analyzer", default="perf_analyzer", help="its command")
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    folder.mkdir(parents=True)
    repository, model = folder / "repository", linear(folder / f"{NAME}.onnx")
    _trtw("export-triton", model, "-o", repository, "--python", "--no-batching", "--no-warmup")
    (repository / NAME / "1" / "model.py").write_text(_MODEL, encoding="utf-8")
    with tritonserver(repository, folder) as server, asked.output.open("a", encoding="utf-8") as output:
        for level in LEVELS:  # in turns, so that what disturbs the machine disturbs both
            theirs = _perf_analyzer(shlex.split(asked.perf_analyzer), server.http, level, folder)
            ours = _bench(server.http, model, level, folder / f"bench-{level}")
            line = {"concurrency": level, "load_average": os.getloadavg()[0], "perf_analyzer": theirs, "bench": ours}
            output.write(json.dumps(line) + "\n")
            output.flush()


def _trtw(*words: object) -> None:
    subprocess.run([*TRTW, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def _perf_analyzer(command: list[str], url: str, level: int, folder: Path) -> dict[str, Any]:
    table = folder / "perf.csv"
    table.unlink(missing_ok=True)
    words = ["-m", NAME, "-u", url.removeprefix("http://"), "--concurrency-range", str(level), "-f", str(table)]
    ended = subprocess.run(
        [*command, *words, "--measurement-interval", "5000", "--max-trials", "9"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if not table.exists():  # it reports nothing where its windows differ
        return {"exit_code": ended.returncode, "said": ended.stderr.strip().splitlines()[-1]}
    with table.open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    found = {"infer_per_s": float(row["Inferences/Second"]), "exit_code": ended.returncode}
    return {**found, **{f"p{rank}_ms": float(row[f"p{rank} latency"]) / 1e3 for rank in (50, 90, 99)}}


def _bench(url: str, file: Path, level: int, run: Path) -> dict[str, Any]:
    config = run.with_suffix(".yaml")
    config.write_text(
        "repetitions: 3\nmeasure: {warmup_ms: 500, duration_s: 5}\n"
        f"models: {{{NAME}: {{path: {file}}}}}\n"
        f"runtimes: [{{backend: v2, concurrency: {level}}}]\nscenarios: {{requests: {{kind: arrays, batch: 1}}}}\n",
        encoding="utf-8",
    )
    _trtw("bench", config, "--url", url, "--output", run)
    records = [json.loads(line) for line in (run / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    middle = sorted(records, key=lambda one: float(one["items_per_s"]))[len(records) // 2]
    latency = middle["latency_ms"]
    return {
        "infer_per_s": middle["items_per_s"], "repetitions": len(records),
        **{f"p{rank}_ms": latency[f"p{rank}"] for rank in (50, 90, 99)},
    }  # fmt: skip


if __name__ == "__main__":
    main()
