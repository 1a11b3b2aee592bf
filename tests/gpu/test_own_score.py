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
    # convolutions, as of a product of matrices of one row TensorRT 8.6 leaves fp32
    wide, deep = (generator.standard_normal((512, rows, 1, 1)).astype(np.float32) / 23 for rows in (64, 512))
    text = (
        "g (float[n,64,16,16] x) => (float[n,512,16,16] depth) "
        "{ a = Conv(x, wide) b = Relu(a) c = Conv(b, deep) d = Relu(c) depth = Add(d, one) }"
    )
    model = write_onnx(tmp_path / "depth.onnx", text, {"wide": wide, "deep": deep, "one": np.ones(1, np.float32)})
    x = generator.standard_normal((60, 64, 16, 16)).astype(np.float32)
    exact = x
    for weights in (wide[..., 0, 0], deep[..., 0, 0]):
        exact = np.einsum("oi,nihw->nohw", weights, exact, optimize=True).clip(0)
    exact = exact + 1
    truth = exact * generator.uniform(0.98, 1.02, exact.shape).astype(np.float32)
    np.savez("val.npz", x=x, truth=truth)
    Path("depth.py").write_text(SCORE)
    asked = ("--data", "val.npz", "--score", "depth.py:abs_rel", "--limit", 60)
    backends = ["trt", *(["ort-cuda"] if OrtCudaBackend().availability().ok else []), "ort-cpu"]
    found = json_of(
        "decide", model, *asked, "--precisions", "fp32,fp16", "--backends", ",".join(backends), "--repetitions", 3,
        "--max-loss", 0.01, "--output", "run",
    )  # fmt: skip
    rows = {(row["precision"], row["backend"]): row for row in found["rows"]}
    assert len(rows) == 2 * len(backends)
    by_hand = np.mean(np.abs(exact - truth) / truth)
    for precision in ("fp32", "fp16"):
        row = rows[precision, "trt"]
        if precision == "fp16" and row["reason"] == "trt computes it in fp32, not fp16":
            continue  # what TensorRT chose, and decide has no figures under another label
        assert row["state"] == "measured", row["reason"]
        assert row["score"]["value"] == pytest.approx(by_hand, rel=0.02)
        assert row["score"]["loss"] == pytest.approx(0, abs=0.001)
        assert row["speed"]["outputs"] == "matched"
    alone = json_of("eval-vision", model, *asked, "--backend", "trt", "--precision", "fp16", "--output", "alone")
    outputs = np.load("alone/score/outputs.npz")["depth"]
    names = json.loads(Path("alone/score/samples.json").read_text())["names"]
    places = [int(name.rpartition(" ")[2]) for name in names]
    pairs = zip(outputs, truth[places], strict=True)
    each = [float(np.mean(np.abs(one - target) / target)) for one, target in pairs]
    assert alone["score"]["value"] == pytest.approx(np.mean(each), rel=1e-12)
    assert alone["score"]["value"] == pytest.approx(by_hand, rel=0.02)
    json_of("build-engine", model, "--precision", "fp16", "-o", "depth.plan")
    plan = json_of("eval-vision", "depth.plan", *asked, "--output", "plan")
    assert plan["score"]["value"] == pytest.approx(alone["score"]["value"], rel=0.01)
