"""`--gpus` on two GPUs: the detections of one, from a shard on each."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.core.gpu import visible_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("tensorrt", "own_output")]


def test_two_gpus_find_what_one_finds(tmp_path: Path) -> None:
    if (count := len(visible_gpus())) < 2:
        pytest.skip(f"needs 2 GPUs; this process sees {count}")
    fixed = ("--backend", "trt", "--option", "optimization_level=0", "--limit", "64", "--no-report")
    for gpus in ("0", "0,1"):
        words = ["eval-coco", *fixed, "--gpus", gpus, "--output", str(tmp_path / gpus)]
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    one, two = (tmp_path / gpus for gpus in ("0", "0,1"))
    assert (one / "predictions.json").read_bytes() == (two / "predictions.json").read_bytes()
    assert json.loads((two / "metrics.json").read_text())["shards"]["count"] == 2
    assert not (tmp_path / "0,1-shards").exists()
