"""A score of the user's on engines: decided, evaluated, and equal to a loop over the engine's outputs."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.in_app import json_of
from tests.onnx_text import write_onnx

from trt_workbench.backends.ort.cuda import OrtCudaBackend

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600), pytest.mark.usefixtures("tensorrt", "own_output")]
SCORE = """import numpy as np


def abs_rel(outputs, target):
    return np.mean(np.abs(outputs["depth"] - target) / target)


abs_rel.better = "lower"
"""


def test_a_score_of_the_users_decides_about_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(11)
    turn = np.linalg.qr(generator.standard_normal((64, 64)))[0].astype(np.float32)
    text = "g (float[n,64] x) => (float[n,64] depth) { a = MatMul(x, w) r = Relu(a) depth = Add(r, one) }"
    model = write_onnx(tmp_path / "depth.onnx", text, {"w": turn, "one": np.ones(1, np.float32)})
    x = generator.standard_normal((200, 64)).astype(np.float32)
    truth = (1 + (x @ turn).clip(0)) * generator.uniform(0.98, 1.02, x.shape).astype(np.float32)
    np.savez("val.npz", x=x, truth=truth)
    Path("depth.py").write_text(SCORE)
    asked = ("--data", "val.npz", "--score", "depth.py:abs_rel", "--limit", 200)
    backends = ["trt", *(["ort-cuda"] if OrtCudaBackend().availability().ok else []), "ort-cpu"]
    found = json_of(
        "decide", model, *asked, "--precisions", "fp32,fp16", "--backends", ",".join(backends), "--repetitions", 3,
        "--max-loss", 0.01, "--output", "run",
    )  # fmt: skip
    rows = {(row["precision"], row["backend"]): row for row in found["rows"]}
    assert len(rows) == 2 * len(backends)
    by_hand = np.mean(np.abs(1 + (x @ turn).clip(0) - truth) / truth)
    for precision in ("fp32", "fp16"):
        row = rows[precision, "trt"]
        assert row["state"] == "measured", row["reason"]
        assert row["score"]["value"] == pytest.approx(by_hand, rel=0.02)
        assert row["score"]["loss"] == pytest.approx(0, abs=0.001)
        assert row["speed"]["outputs"] == "matched"
    alone = json_of("eval-vision", model, *asked, "--backend", "trt", "--precision", "fp16", "--output", "alone")
    outputs = np.load("alone/score/outputs.npz")["depth"]
    names = json.loads(Path("alone/score/samples.json").read_text())["names"]
    places = [int(name.rpartition(" ")[2]) for name in names]
    each = [np.mean(np.abs(one - truth[place]) / truth[place]) for one, place in zip(outputs, places, strict=True)]
    assert alone["score"]["value"] == pytest.approx(np.mean(each), rel=1e-12)
    assert alone["score"]["value"] == pytest.approx(by_hand, rel=0.02)
    json_of("build-engine", model, "--precision", "fp16", "-o", "depth.plan")
    plan = json_of("eval-vision", "depth.plan", *asked, "--output", "plan")
    assert plan["score"]["value"] == pytest.approx(alone["score"]["value"], rel=0.01)
