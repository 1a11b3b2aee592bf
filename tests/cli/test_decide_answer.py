"""The answer of `trtw decide` in its halves: accuracy, speed with its command, limits, and what to ship."""

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import json_of, stderr_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held

import trt_workbench.api as tw
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import duration, latency, memory
from trt_workbench.vision.scenes import dataset as embedded

pytestmark = pytest.mark.usefixtures("forked_python", "blank_pictures")
GENERATOR = np.random.default_rng(7)
WEIGHTS = np.linalg.qr(GENERATOR.standard_normal((16, 16)))[0].astype(np.float32)
LIMITS = ("--max-latency", "2ms", "--max-loss", 1, "--max-memory", "2GiB")
SCORE = "def error(outputs, target):\n    return abs(outputs['y'] - target).mean()\nerror.better = 'lower'\n"


@pytest.fixture(scope="module", autouse=True)
def _few_scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRTW_TMP", str(tmp_path_factory.mktemp("out")))
        patch.setattr(embedded, "HELD_OUT_IMAGES", 8)
        patch.setattr(embedded, "_CALIBRATION_IMAGES", 8)
        yield


def made(folder: Path, rows: int = 400) -> Path:
    """A model with its score, and samples of one name in two folders."""
    text = "g (float[n,16] x) => (float[n,16] y) { a = MatMul(x, w) y = Relu(a) }"
    for name in ("val", "train"):
        (folder / name).mkdir(parents=True)
        x = GENERATOR.standard_normal((rows, 16)).astype(np.float32)
        truth = (x @ WEIGHTS).clip(0) + GENERATOR.uniform(0.05, 0.15, x.shape).astype(np.float32)
        np.savez(folder / name / "samples.npz", x=x, truth=truth)
    (folder / "score.py").write_text(SCORE)
    return write_onnx(folder / "m.onnx", text, {"w": WEIGHTS})


def asked(folder: Path, *more: object) -> tuple[object, ...]:
    data, calibration = (folder / name / "samples.npz" for name in ("val", "train"))
    return (
        "decide", folder / "m.onnx", "--data", data, "--calibration", calibration, "--score",
        f"{folder}/score.py:error", "--limit", 400, "--no-search", "--backends", "ort-cpu", *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A decision on a CPU by a function, whose weights fit fp16 and whose latencies are of fp32 alone."""
    folder = tmp_path_factory.mktemp("answered")
    made(folder)
    words = asked(folder, "--precisions", "fp32,fp16,nvfp4", "--max-loss", 0.002, "--repetitions", 2)
    return folder, json_of(*words, "--output", folder / "run")


@pytest.mark.long
def test_may_i_ship_fp16_is_answered_on_a_cpu(answered: tuple[Path, Any]) -> None:
    folder, found = answered
    fp16, nvfp4 = found["accuracy"]
    assert (fp16["precision"], fp16["keeps"], fp16["simulated"]) == ("fp16", "yes", True)
    assert fp16["loss"] <= fp16["loss_high"] <= 0.002
    assert (nvfp4["precision"], nvfp4["keeps"]) == ("nvfp4", "no")
    assert nvfp4["loss_low"] > 0.002
    assert [row["verdict"] for row in found["rows"]] == ["accepted", "accepted", "regression"]
    assert (found["recommendation"]["precision"], found["recommendation"]["backend"]) == ("fp16", None)
    assert found["passed"]
    assert not found["speed"]["measured"]
    held(found["recommendation"]["sentence"], found["speed"]["sentence"])
    page = (folder / "run" / "report.html").read_text()
    assert page.index("Ship fp16 if it is faster on your GPU") < page.index("fp16: yes, error loses") < 20_000
    assert f"<pre>{found['speed']['command']}</pre>" in page


@pytest.mark.long
def test_the_command_for_the_card_is_taken_where_the_files_are(
    answered: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of one name are apart by their folders; nothing of this machine is in it."""
    folder, found = answered
    command = found["speed"]["command"]
    held(command)
    for place in ("m.onnx", "score.py", "val/samples.npz", "train/samples.npz"):
        there = tmp_path / folder.name / place if command.count(f"{folder.name}/{place}") else tmp_path / place
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / place, there)
    monkeypatch.chdir(tmp_path)
    again = json_of(*shlex.split(command)[1:], "--backends", "ort-cpu", "--repetitions", 0, "--output", "run")
    for name in ("model_sha256", "max_loss", "figure", "samples"):
        assert again[name] == found[name]
    assert [row["precision"] for row in again["rows"]] == ["fp32", "fp16"]
    assert again["rows"][1]["score"]["loss"] == found["rows"][1]["score"]["loss"]


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("shapes-classifier", "--limit", 8, "--threads", 1, "--budget", "10m", "--expect", "top1=0.9"),
        ("--limit", 4, "--keep", "AP,f1@0.3", "--seed", 3, *LIMITS),
    ],
)
def test_commands_for_the_card_about_embedded_models_are_taken(words: tuple[object, ...], tmp_path: Path) -> None:
    common = ("--precisions", "fp32,fp16", "--repetitions", 0, "--backends", "ort-cpu")
    first = trtw("decide", *words, *common, "--json", "--output", tmp_path / "run")
    command = json.loads(first.stdout)["speed"]["command"]
    assert command is not None, first.output
    held(command)
    again = trtw(*shlex.split(command)[1:], *common[2:], "--json", "--output", tmp_path / "again")
    assert again.exit_code == first.exit_code, again.output
    assert json.loads(again.stdout)["speed"]["command"] == command


@pytest.mark.long
def test_a_later_run_with_other_limits_judges_the_same_rows(answered: tuple[Path, Any], tmp_path: Path) -> None:
    folder, found = answered
    words = asked(folder, "--precisions", "fp32,fp16,nvfp4", "--max-loss", 0.002, "--repetitions", 2)
    more = ("--max-latency", "1us", "--max-memory", "100GiB")
    for name in ("run", "far", "close"):
        shutil.copytree(folder / "run", tmp_path / name)
    result = trtw(*words, *more, "--output", tmp_path / "run")
    assert result.exit_code == 1
    assert "Scoring" not in result.stderr
    held(result.stderr.splitlines()[-2])
    other = json.loads((tmp_path / "run" / "decision.json").read_text())
    assert other["rows"][0]["speed"] == found["rows"][0]["speed"]
    assert [row["verdict"] for row in other["rows"]] == ["infeasible", "not shown", "regression"]
    assert other["rows"][0]["limits"] == {"max_latency_ms": "no", "max_memory_bytes": "yes"}
    assert other["rows"][1]["limits"] == {"max_latency_ms": "not shown", "max_memory_bytes": "not shown"}
    assert other["limits"] == {"max_latency_ms": pytest.approx(1e-3), "max_memory_bytes": 100 * 2**30}
    assert not other["passed"]
    far = trtw(*words, "--expect", "error=0.5", "--output", tmp_path / "far")
    assert far.exit_code == 1
    assert "Nothing is decided: error of fp32 on ort-cpu is " in far.stderr
    assert "far from the published 0.5" in far.stderr
    document = json.loads((tmp_path / "far" / "decision.json").read_text())
    assert [row["verdict"] for row in document["rows"]] == ["anomalous", "not shown", "not shown"]
    assert document["accuracy"] == []
    close = found["rows"][0]["score"]["value"]
    trtw(*words, "--expect", f"error={close:.3f}", "--output", tmp_path / "close")
    assert json.loads((tmp_path / "close" / "decision.json").read_text())["passed"]


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("--max-latency", "2"),
        ("--max-latency=-2ms",),
        ("--max-latency", "nanms"),
        ("--max-latency", "0ms"),
        ("--max-memory", "512"),
        ("--max-memory=-1GiB",),
        ("--max-loss", "nan"),
        ("--max-loss", "inf"),
        ("--expect", "AP"),
        ("--expect", "AP=high"),
        ("--expect", "AP=nan"),
        ("--expect", "mAP=0.391"),
        ("--expect", "perplexity=20"),
        ("--expect", "top1=0.7", "--expect", "top1=0.8"),
        ("--expect", "top1=82.3"),
    ],
)
def test_what_is_no_limit_and_no_published_score_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    said = stderr_of("decide", "shapes-classifier", "--limit", 2, *words, "--output", tmp_path / "run")
    held(said.splitlines()[-1])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "given",
    [
        {"max_latency_ms": -1.0},
        {"max_memory_mib": float("nan")},
        {"max_loss": float("nan")},
        {"max_memory_mib": -1.0},
        {"max_memory_mib": 0},
        {"max_latency_ms": float("inf")},
        {"max_latency_ms": 1e300},
        {"budget": -1},
        {"batch": 2**40},
        {"max_loss": float("inf")},
        {"expect": {"top1": float("nan")}},
    ],
)
def test_the_library_refuses_the_same(given: dict[str, Any]) -> None:
    with pytest.raises(UsageProblem) as caught:
        tw.decide("shapes-classifier", limit=2, **given)
    held(str(caught.value))


def test_of_scores_that_compare_with_fp32_none_is_published(tmp_path: Path) -> None:
    made(tmp_path, 40)
    words = asked(tmp_path)
    place = words.index("--score")
    held(stderr_of(*words[:place], *words[place + 2 :], "--expect", "cosine=1", "--output", tmp_path / "run"))


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (latency, "2ms", 2),
        (latency, "500 us", 0.5),
        (latency, "1.5S", 1500),
        (memory, "512MiB", 512),
        (memory, "2gib", 2048),
        (duration, "2h", 7200),
    ],
)
def test_quantities_have_units(read: Any, text: str, value: float) -> None:
    assert read("--limit", text) == pytest.approx(value)


def test_where_no_lower_row_has_a_score_fp32_stays(tmp_path: Path) -> None:
    made(tmp_path, 40)
    result = trtw(*asked(tmp_path, "--precisions", "fp32,nvfp4", "--repetitions", 0, "--budget", "0.001s"),
                  "--output", tmp_path / "run")  # fmt: skip
    assert result.exit_code == 1
    document = json.loads((tmp_path / "run" / "decision.json").read_text())
    assert (document["accuracy"][0]["keeps"], document["speed"]["command"]) == ("not shown", None)
    assert document["recommendation"]["precision"] == "fp32"
    held(result.stderr.splitlines()[-2], document["accuracy"][0]["sentence"])
