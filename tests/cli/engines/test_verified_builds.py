"""`build-engine --verify`: the verdict in the manifest, kept by the engine's hash, and a wrong engine's exit code."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.engines.common import write_model
from tests.in_app import json_of, stderr_of, stdout_of, trtw
from tests.onnx_text import write_onnx

from trt_workbench.core.documents import json_values
from trt_workbench.core.verification import Verification
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.engine.verdicts import kept_verdict


@pytest.fixture
def dynamic(tmp_path: Path) -> Path:
    return write_model(tmp_path / "dynamic.onnx", "N")


@pytest.fixture(autouse=True)
def _workers_find_the_double(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines are wrong from batch 2 on."""
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "2")


def verdict(plan: Path) -> Verification:
    found = kept_verdict(read_manifest(plan))
    assert found
    return found


def build(model: Path, *words: object, code: int = 0) -> Any:
    return json_of("build-engine", model, "--max-batch", 4, *words, code=code)


def test_an_engine_comes_with_its_verdict_shapes_and_hashes(dynamic: Path, tmp_path: Path) -> None:
    plan = tmp_path / "d.plan"
    document = build(dynamic, "-o", plan)
    found = verdict(plan)
    assert (found.verdict, found.mode, found.reference, found.shapes_left) == ("right", "quick", "ort-cpu", 0)
    assert [one.shapes["x"] for one in found.shapes] == [(1, 3), (2, 3), (3, 3), (4, 3)]
    assert len({one.inputs_sha256 for one in found.shapes}) == 4
    assert found.engine_sha256 == document["manifest"]["engine"]["sha256"]
    assert found.model_sha256 == document["manifest"]["model"]["sha256"]
    assert found.evidence
    assert json.loads((Path(found.evidence) / "verify.json").read_text())["verdict"] == "right"
    assert "right (quick, 4 of 4 shapes compared with ort-cpu" in " ".join(
        trtw("inspect", plan, "--manifest-only").stdout.replace("│", " ").split()
    )


@pytest.mark.long
@pytest.mark.usefixtures("faulty")
def test_the_place_is_found_from_the_plan_as_the_message_says(dynamic: Path, tmp_path: Path) -> None:
    plan, run = tmp_path / "d.plan", tmp_path / "run"
    build(dynamic, "-o", plan, code=1)
    result = trtw("verify", plan, "--model", dynamic, "--quick", "--bisect", "--output", run)
    assert result.exit_code == 1, result.output
    found = json.loads((run / "bisect" / "bisect.json").read_text())
    assert found["complete"]
    assert len(found["nodes"]) == 1  # every output of the double is wrong
    assert (run / "bisect" / "minimal.onnx").is_file()


@pytest.mark.usefixtures("faulty")
def test_a_wrong_engine_has_exit_code_1_is_kept_and_says_so(dynamic: Path, tmp_path: Path) -> None:
    plan = tmp_path / "d.plan"
    text = " ".join(stderr_of("build-engine", dynamic, "--max-batch", 4, "-o", plan, code=1).split())
    assert "The engine is wrong: N=2, output total, random inputs: row 1 of 2 is wrong, the others right" in text
    assert f"trtw {shlex.join(['verify', str(plan), '--model', str(dynamic), '--bisect'])}" in text
    assert f"trtw {shlex.join(['verify', str(plan), '--model', str(dynamic), '--fix'])}" in text
    assert plan.is_file()
    found = verdict(plan)
    assert found.verdict == "wrong"
    assert found.evidence
    assert (Path(found.evidence) / "report.html").is_file()
    assert (Path(found.evidence) / "failures" / "001" / "found" / "total.npy").is_file()


@pytest.mark.long
@pytest.mark.parametrize("words", [(), ("--verify", "fix")])
def test_an_engine_that_kills_the_device_is_wrong(
    words: tuple[str, ...], dynamic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "crash")
    monkeypatch.setattr("trt_workbench.verify.workarounds.ways", lambda *_: iter(()))
    plan = tmp_path / "d.plan"
    result = trtw("build-engine", dynamic, "--max-batch", 4, "-o", plan, *words)
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "No workaround fixes it" in said if words else "it crashed: The GPU failed." in said
    found = verdict(plan)
    assert found.verdict == "wrong"
    assert "it crashed: The GPU failed." in found.reason
    assert (Path(str(found.evidence)) / "failures" / "001" / "inputs" / "x.npy").is_file()


@pytest.mark.long
@pytest.mark.usefixtures("faulty")
def test_a_kept_verdict_is_not_found_again(dynamic: Path, tmp_path: Path) -> None:
    build(dynamic, code=1)
    runs = tmp_path / "out" / "verify"
    before = sorted(runs.iterdir())
    assert len(before) == 1
    build(dynamic, code=1)  # from the cache, wrong as before
    build(dynamic, "--verify", "off")
    assert sorted(runs.iterdir()) == before
    build(dynamic, "--verify", "full", code=1)
    assert len([*runs.iterdir()]) == 2


@pytest.mark.long
def test_without_verification_there_is_no_verdict_and_verify_adds_it(
    dynamic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "d.plan"
    assert build(dynamic, "-o", plan, "--verify", "off")["manifest"]["verification"] is None
    assert kept_verdict(read_manifest(plan)) is None
    stdout_of("verify", plan, "--model", dynamic, "--quick", "--output", tmp_path / "run")
    assert (verdict(plan).verdict, verdict(plan).evidence) == ("right", str(tmp_path / "run"))
    # the cached engine is the same one
    assert build(dynamic)["manifest"]["verification"] == json_values(verdict(plan))
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "2")
    assert trtw("verify", plan, "--model", dynamic, "--quick").exit_code == 1
    assert verdict(plan).verdict == "wrong"
    monkeypatch.delenv("TRTW_DOUBLE_FAULT")
    assert trtw("verify", plan, "--reference", "none", "--quick").exit_code == 0
    assert verdict(plan).verdict == "wrong"  # properties alone do not clear it
    assert trtw("verify", plan, "--model", dynamic, "--quick").exit_code == 0
    assert verdict(plan).verdict == "right"


def test_a_verdict_on_another_engine_is_none(dynamic: Path, tmp_path: Path) -> None:
    plan = tmp_path / "d.plan"
    build(dynamic, "-o", plan)
    manifest = plan.with_name("d.plan.json")
    document = json.loads(manifest.read_text())
    document["verification"]["engine_sha256"] = "0" * 64
    manifest.write_text(json.dumps(document))
    assert kept_verdict(read_manifest(plan)) is None
    older = {key: value for key, value in document.items() if key != "verification"} | {"schema_version": 1}
    manifest.write_text(json.dumps(older))
    assert trtw("infer-engine", plan, "--no-bench").exit_code == 0
    assert kept_verdict(read_manifest(plan)) is None
    # a verdict on other bytes than the manifest's own is not kept
    other = tmp_path / "other.plan"
    assert trtw("build-engine", dynamic, "--max-batch", 5, "-o", other, "--verify", "off").exit_code == 0
    plan.write_bytes(other.read_bytes())
    assert trtw("verify", plan, "--model", dynamic, "--quick", "--trust").exit_code == 0
    assert kept_verdict(read_manifest(plan)) is None


def test_what_ort_cpu_cannot_run_is_unverified_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { noise = RandomNormalLike(x) y = Add(x, noise) }"
    model = write_onnx(tmp_path / "random.onnx", text)
    stdout_of("build-engine", model, "-o", tmp_path / "r.plan")
    found = verdict(tmp_path / "r.plan")
    assert found.verdict == "unverified"
    assert "nondeterministic" in found.reason
    broken = ModuleNotFoundError("a library of the verification is broken")

    def fail(*_: object) -> None:
        raise broken

    monkeypatch.setattr("trt_workbench.verify.engine.verify", fail)
    assert trtw("build-engine", write_model(tmp_path / "m.onnx"), "-o", tmp_path / "m.plan").exit_code == 0
    assert verdict(tmp_path / "m.plan").reason == "ModuleNotFoundError: a library of the verification is broken"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--strip-weights",), "built without weights"),
        (("--io-type", "total=fp16"), "inputs and outputs differ from those of the model"),
        (("--io-format", "x=chw32"), "inputs and outputs differ from those of the model"),
        (("--io-format", "total=hwc8"), "inputs and outputs differ from those of the model"),
    ],
)
def test_what_drawn_inputs_prove_nothing_about_is_unverified(
    dynamic: Path, words: tuple[str, ...], reason: str
) -> None:
    found = build(dynamic, *words)["manifest"]["verification"]
    assert found["verdict"] == "unverified"
    assert reason in found["reason"]


def test_an_input_of_another_float_type_with_the_channels_last_is_verified(tmp_path: Path) -> None:
    text = "g (float[N,3,4,6] x) => (float[N,3,4,6] y) { y = Relu(x) }"
    model, plan = write_onnx(tmp_path / "m.onnx", text), tmp_path / "m.plan"
    document = build(model, "-o", plan, "--precision", "fp16", "--io-type", "x=fp16", "--io-format", "x=hwc8")
    assert document["manifest"]["options"]["io_formats"] == {"x": ["hwc8"]}
    assert document["manifest"]["inputs"][0]["dtype"] == "float16"
    assert verdict(plan).verdict.startswith("right")
    (x, _) = json_of("inspect", plan)["engine"]["tensors"]
    assert (x["dtype"], x["format"]) == ("float16", "hwc8")
    assert "format of x" in trtw("inspect", plan).stdout


@pytest.mark.long
@pytest.mark.usefixtures("faulty")
def test_a_way_around_is_built_where_an_engine_is_wrong(dynamic: Path, tmp_path: Path) -> None:
    plan = tmp_path / "d.plan"
    document = build(dynamic, "-o", plan, "--verify", "fix")
    manifest = read_manifest(plan)
    assert manifest.way_around.rows == 1  # the fault is in larger batches
    assert document["manifest"]["way_around"]["name"] == manifest.way_around.name
    assert verdict(plan).verdict == "right"
    assert [one.shapes["x"][0] for one in verdict(plan).shapes] == [1, 2, 3, 4]
    # the engine itself stays wrong
    build(dynamic, code=1)


def test_a_dry_run_verifies_nothing(dynamic: Path, tmp_path: Path) -> None:
    assert trtw("build-engine", dynamic, "--max-batch", 4, "--dry-run", "--verify", "full").exit_code == 0
    assert not (tmp_path / "out" / "verify").exists()


@pytest.mark.parametrize(("asked", "granted"), [("tf32", "tf32"), ("fp16+tf32", "fp16"), ("fp32", "fp32")])
def test_an_engine_is_granted_the_precision_that_it_was_asked_for(dynamic: Path, asked: str, granted: str) -> None:
    found = build(dynamic, "--precision", asked)["manifest"]["verification"]
    assert (found["precision"], found["verdict"]) == (granted, f"right within {granted}".removesuffix(" within fp32"))


def test_other_weights_lose_the_verdict(dynamic: Path, tmp_path: Path) -> None:
    plan, refitted = tmp_path / "d.plan", tmp_path / "new.plan"
    build(dynamic, "-o", plan, "--refit", "full")
    assert kept_verdict(read_manifest(plan)) is not None
    assert trtw("refit-engine", plan, dynamic, "-o", refitted).exit_code == 0
    manifest = read_manifest(refitted)
    assert manifest.verification is None


def test_a_score_of_samples_is_of_a_verified_engine(tmp_path: Path) -> None:
    """It builds for the batch and says in the page and in the document how the engine was verified."""
    model, rng = write_model(tmp_path / "m.onnx", "n"), np.random.default_rng(4)
    x, y = (rng.random((20, 3), np.float32) + 1 for _ in range(2))
    truth = (x + y) * rng.uniform(0.9, 1.1, x.shape)
    np.savez(tmp_path / "data.npz", x=x, y=y, truth=truth)
    body = "def near(outputs, target):\n    return abs(outputs['total'] - target).mean()\n\n\nnear.better = 'lower'\n"
    (tmp_path / "s.py").write_text(body)
    words = ("--data", tmp_path / "data.npz", "--score", tmp_path / "s.py:near", "--backend", "trt", "--batch", 5)
    found = json_of("eval-vision", model, *words, "--output", tmp_path / "run")
    assert found["score"]["value"] == pytest.approx(np.abs(x + y - truth).mean(), rel=1e-5)
    assert (found["verification"]["verdict"], found["settings"]["batch"]) == ("right", 5)
    assert "Engine verified" in (tmp_path / "run/report.html").read_text()
