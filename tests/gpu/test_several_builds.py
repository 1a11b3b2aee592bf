"""Several builds of one small model on a real GPU: an empty timing cache each, a spread, and one that is kept."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.engine.manifest import read_manifest

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("tensorrt", "own_output")]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Three convolutions with relu on images [1, 3, 64, 64], for which there are many kernels."""
    rng = np.random.default_rng(3)
    sizes = {"w0": (32, 3, 3, 3), "w1": (32, 32, 3, 3), "w2": (16, 32, 1, 1)}
    weights = {name: rng.standard_normal(shape, np.float32) / 10 for name, shape in sizes.items()}
    nodes = """
      a = Conv <pads = [1, 1, 1, 1]> (images, w0) b = Relu(a)
      c = Conv <pads = [1, 1, 1, 1]> (b, w1) d = Relu(c)
      e = Conv(d, w2) y = GlobalAveragePool(e)
    """
    graph = f"g (float[1,3,64,64] images) => (float[1,16,1,1] y) {{ {nodes} }}"
    return write_onnx(tmp_path / "model.onnx", graph, weights)


def trtw(*words: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_three_builds_and_the_median_is_kept(model: Path, tmp_path: Path) -> None:
    found = trtw("build-engine", model, "--precision", "fp16", "--builds", 3, "-o", tmp_path / "kept.plan")
    several = found["several"]["builds"]
    assert [one["number"] for one in several["builds"]] == [1, 2, 3]
    assert all(one["latency_ms"] > 0 and one["verdict"].startswith("right") for one in several["builds"])
    assert all(one["relative_l2"] < 1e-2 for one in several["builds"])
    order = sorted(several["builds"], key=lambda one: one["latency_ms"])
    assert several["kept"] == order[1]["number"]
    manifest = read_manifest(tmp_path / "kept.plan")
    assert manifest
    assert manifest.several
    assert manifest.several.kept == several["kept"]
    assert manifest.engine.sha256 == order[1]["engine_sha256"]
    assert found["several"]["note"] == ""  # the inspector says tactics and formats
    assert not list((tmp_path / "out").glob("timing-caches/*.timing"))
    assert not trtw("build-engine", model, "--precision", "fp16")["built"]


def test_the_inspector_names_a_tactic_for_layers(model: Path) -> None:
    plan = Path(trtw("build-engine", model, "--build-number", 1, "--verify", "off")["plan"])
    layers = json.loads(plan.with_name(f"{plan.name}.layers.json").read_text())["layers"]
    assert layers
    assert all(one["tactic"] for one in layers.values())
    assert any(one["formats"] for one in layers.values())


def test_bench_measures_each_build(model: Path, tmp_path: Path) -> None:
    config = tmp_path / "bench.yaml"
    config.write_text(
        f"repetitions: 3\nmeasure: {{duration_s: 0.1}}\nmodels: {{m: {{path: {model}}}}}\n"
        "runtimes: [{backend: trt, precision: fp16}]\nscenarios: {s: {kind: arrays}}\n",
        encoding="utf-8",
    )
    group = trtw("bench", config, "--builds", 3, "--output", tmp_path / "run")["builds"][0]
    builds = group["builds"]["builds"]
    assert [one["number"] for one in builds] == [1, 2, 3]
    assert all(one["latency_ms"] > 0 and one["verdict"].startswith("right") for one in builds)
    assert group["builds"]["kept"] in (1, 2, 3)
    assert group["note"] == ""
    assert (len({one["engine_sha256"] for one in builds}) > 1) or not group["layers"]
