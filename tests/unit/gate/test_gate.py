"""A gate calls the commands, judges by the limits of its file, and says the result in several formats."""

import itertools
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import json_of, stderr_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held, refused

from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.bench import bench
from trt_workbench.bench.config import RepetitionSettings
from trt_workbench.console.called import Finished, call_command
from trt_workbench.console.keywords import YAML, as_keywords, keywords
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem, WorkbenchError
from trt_workbench.evaluate import eval_coco
from trt_workbench.gate import run as gate_run
from trt_workbench.gate.cli import gate as gate_command
from trt_workbench.gate.config import load_gate, margin
from trt_workbench.gate.document import GateCheck, GateDocument, answer, junit, markdown, read
from trt_workbench.gate.run import CheckResult, _require_usable
from trt_workbench.report.verdict import tone
from trt_workbench.verify import verify
from trt_workbench.vision.scenes.scenes import write_dataset

pytestmark = pytest.mark.usefixtures("blank_pictures")

TWICE = "twice (float[batch, 2] x) => (float[batch, 2] y) { y = Add(x, x) }"


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_onnx(tmp_path_factory.mktemp("model") / "twice.onnx", TWICE)


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of eval-coco, and its settings as a gate's file has them."""
    root = tmp_path_factory.mktemp("scenes")
    words = {"data": root / "val", "annotations": write_dataset(root, "val", 4, 5), "backend": "ort-cpu"}
    given = [word for name, value in words.items() for word in (f"--{name}", value)]
    json_of("eval-coco", "shapes-yolov10", *given, "--output", root / "run", "--no-report")
    return root / "run", "".join(f"  {name}: {value}\n" for name, value in words.items()) + "  report: false\n"


def write_gate(tmp_path: Path, text: str) -> Path:
    (tmp_path / "gate.yaml").write_text(text)
    return tmp_path / "gate.yaml"


def gate(tmp_path: Path, text: str, code: int = 0) -> Any:
    return json_of("gate", write_gate(tmp_path, text), "--output", tmp_path / "run", code=code)


def test_a_score_is_judged_by_its_limit_and_its_baseline(scores: tuple[Path, str], tmp_path: Path) -> None:
    run, settings = scores
    text = f"model: shapes-yolov10\nscore:\n{settings}  at_least: {{AP: 0.2}}\n  baseline: {run}\n"
    (check,) = gate(tmp_path, text)["checks"]
    assert (check["name"], check["passed"], check["exit_code"]) == ("score", True, 0)
    assert "loss 0.0000 against the baseline's" in check["text"]
    assert re.match(
        r"AP 0\.\d{4} on 4 images, 95 % interval 0\.\d{4} to [01]\.\d{4}, 0\.\d{4} above at_least 0\.2; loss ",
        check["text"],
    )
    assert (
        "(paired by image, 95 % interval \N{MINUS SIGN}0.1339 to 0.1339; not certain), within max_loss 0.005"
        in check["text"]
    )  # of four images
    better = (run / "metrics.json").read_text().replace('"AP": 0.', '"AP": 0.9', 1)
    (tmp_path / "better.json").write_text(better)
    text = text.replace(str(run), str(tmp_path / "better.json")).replace("0.2", "0.99")
    (check,) = gate(tmp_path, text, code=1)["checks"]
    assert check["text"].startswith("AP 0.")
    assert "below at_least 0.99" in check["text"]
    assert check["text"].endswith(", more than max_loss 0.005")
    assert "unpaired, without an interval: the baseline has no predictions.json" in check["text"]


def test_a_baseline_of_another_machine_is_paired_by_image(scores: tuple[Path, str], tmp_path: Path) -> None:
    """Its data were in other folders there, and it found half of them."""
    run, settings = scores
    (tmp_path / "base").mkdir()
    metrics = json.loads((run / "metrics.json").read_text())
    metrics["dataset"] |= {"images": "/there/val", "annotations": "/there/val.json"}
    head, *found, tail = (run / "predictions.json").read_text().splitlines()
    (tmp_path / "base" / "metrics.json").write_text(json.dumps(metrics))
    half = "\n".join(found[: len(found) // 2]).rstrip(",")
    (tmp_path / "base" / "predictions.json").write_text(f"{head}\n{half}\n{tail}\n")
    text = f"model: shapes-yolov10\nscore:\n{settings}  baseline: {tmp_path / 'base'}\n"
    said = gate(tmp_path, text, code=2)["checks"][0]["text"]
    assert "are not of one run" in said
    metrics["AP"] = float(said.split("predictions.json has AP ")[1][:6])
    (tmp_path / "base" / "metrics.json").write_text(json.dumps(metrics))
    said = gate(tmp_path, text)["checks"][0]["text"]
    low, high = map(
        float, re.findall(r"image, 95 % interval (\S+) to (\d\.\d+)", said.replace("\N{MINUS SIGN}", "-"))[0]
    )
    assert low < -0.1 < high  # of four images others may lose


@pytest.mark.parametrize(
    ("limit", "value", "told"),
    [
        ("at_least", 0.5, "0.0000 above at_least 0.5"),
        ("at_most", 0.5, "0.0000 below at_most 0.5"),
        ("at_most", -0.5, "1.0000 below at_most 0.5"),
    ],
)
def test_a_value_at_its_limit_meets_it_and_is_on_the_side_that_does(limit: str, value: float, told: str) -> None:
    assert margin(value, limit, 0.5) == (told, True)


def test_a_score_that_is_a_guess_does_not_pass(scores: tuple[Path, str], tmp_path: Path) -> None:
    (check,) = gate(
        tmp_path, f"model: shapes-yolov10\nscore:\n{scores[1]}  conf: 0.9999\n  at_least: {{AP: 0.0001}}\n", code=1
    )["checks"]
    assert "; AP is as good as guessing (0), so there is nothing to lose" in check["text"]


def test_a_score_of_what_was_left_when_a_device_failed_does_not_pass(
    scores: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(*given: Any, **settings: Any) -> Finished[Any]:
        return replace(call_command(*given, **settings), failure=DeviceFailure("A shard died. The rest is kept."))

    monkeypatch.setattr("trt_workbench.gate.run.call_command", half)
    (check,) = gate(tmp_path, f"model: shapes-yolov10\nscore:\n{scores[1]}  at_least: {{AP: 0.2}}\n", code=4)["checks"]
    assert (check["passed"], check["text"]) == (False, "A shard died. The rest is kept.")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("images", 3, "was scored on other images (3, now 4)"),
        ("annotations_sha256", "0" * 64, "was scored on other annotations"),
        ("AP", None, "score.baseline: AP has no value in this run; these have one: AP50,"),
    ],
)
def test_a_baseline_that_cannot_be_compared_is_refused(
    scores: tuple[Path, str], tmp_path: Path, key: str, value: Any, said: str
) -> None:
    run, settings = scores
    document = json.loads((run / "metrics.json").read_text())
    (document["dataset"] if key == "annotations_sha256" else document)[key] = value
    (tmp_path / "other.json").write_text(json.dumps(document))
    text = f"model: shapes-yolov10\nscore:\n{settings}  baseline: {tmp_path / 'other.json'}\n"
    assert said in gate(tmp_path, text, code=2)["checks"][0]["text"]


@pytest.mark.long
def test_wrong_outputs_and_slow_calls_fail_and_the_rest_is_still_checked(
    twice: Path, tmp_path: Path, outside_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RepetitionSettings, "slice_limits", lambda *_, **__: SamplingLimits(1, 0.01, 2, 100))
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    verify = "verify: {backend: faulty, quick: true, options: {fault: stuck}}"
    found = gate(tmp_path, f"model: {twice}\n{verify}\nlatency: {{backends: ort-cpu, at_most_ms: 0.000001}}\n", code=1)
    assert [(one["name"], one["exit_code"]) for one in found["checks"]] == [("verify", 1), ("latency", 1)]
    assert "twice.onnx is wrong" in found["checks"][0]["text"]
    assert str(tmp_path / "run" / "verify" / "report.html") in found["checks"][0]["text"]
    assert "above at_most_ms 1e-06" in found["checks"][1]["text"]
    assert re.search(r"on ort-cpu: \d+\.\d{3} ms \(\d+ % interval \d+\.\d{3} to ", found["checks"][1]["text"])
    assert found["checks"][1]["report"] == "latency/report.html"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Failed: verify, latency (2 of 2)." in page
    assert 'href="latency/report.html"' in page
    latency = f"latency: {{backends: ort-cpu, baseline: {tmp_path / 'run' / 'latency'}, tolerance: 1000}}"
    (tmp_path / "again.yaml").write_text(f"model: {twice}\n{latency}\n")
    (again,) = json_of("gate", tmp_path / "again.yaml", "--output", tmp_path / "again")["checks"]
    assert again["passed"]
    assert "against the baseline: 1 " in again["text"]


@pytest.mark.long
def test_a_point_that_was_not_measured_is_not_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RepetitionSettings, "slice_limits", lambda *_, **__: SamplingLimits(1, 0.01, 2, 100))
    once = write_onnx(tmp_path / "once.onnx", TWICE.replace("batch", "1"))
    text = f'model: {once}\nlatency: {{backends: ort-cpu, batch: "1,2", at_most_ms: 1000}}\n'
    (check,) = gate(tmp_path, text, code=1)["checks"]
    assert check["text"].startswith("1 of 2 points were not measured")
    assert "once b2 on ort-cpu: The model takes only batches of 1, not 2" in check["text"]


@pytest.mark.long
def test_a_time_that_cannot_be_relied_on_says_so(twice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RepetitionSettings, "slice_limits", lambda *_, **__: SamplingLimits(1, 0.01, 2, 100))
    monkeypatch.setattr("trt_workbench.bench.words.point_reasons", lambda _: ["it varied by 85 % between repetitions"])
    text = f"model: {twice}\nlatency: {{backends: ort-cpu, at_most_ms: 1000}}\n"
    (check,) = gate(tmp_path, text)["checks"]
    assert "; unreliable at 1 point: it varied by 85 % between repetitions" in check["text"]
    assert not check["certain"]
    assert answer(read(tmp_path / "run")).verdict == "passed, with doubts"


@pytest.mark.parametrize(
    ("part", "limits"),
    [
        ("score:", "at_least or at_most or baseline"),
        ("score: {at_least: {}, max_loss: 0.1}", "at_least or at_most or baseline"),
        ("score: {score: perplexity, data: a.txt}", "at_least or at_most"),
        ("score: {score: perplexity, data: a.txt, precisions: fp32}", "at_least or at_most"),
        ("latency: {backends: ort-cpu}", "at_most_ms or baseline"),
        ("latency: {backends: ort-cpu, tolerance: 0.1}", "at_most_ms or baseline"),
    ],
)
def test_a_part_that_cannot_fail_is_refused(twice: Path, tmp_path: Path, part: str, limits: str) -> None:
    (tmp_path / "gate.yaml").write_text(f"model: {twice}\nverify: {{backend: ort-cpu}}\n{part}\n")
    result = trtw("gate", tmp_path / "gate.yaml", "--output", tmp_path / "run")
    assert result.exit_code == 2
    assert f"it has no limit, so it cannot fail; give {limits}" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.usefixtures("forked_python")
def test_a_score_of_the_users_is_judged_by_its_limits_and_by_its_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    weights = {"w": generator.standard_normal((8, 8)).astype(np.float32)}
    model = write_onnx(tmp_path / "m.onnx", "m (float[n,8] x) => (float[n,8] y) { y = MatMul(x, w) }", weights)
    x = generator.standard_normal((64, 8)).astype(np.float32)
    truth = x @ weights["w"] + generator.standard_normal((64, 8)) / 10
    np.savez("data.npz", x=x, truth=truth)
    error = np.abs(x @ weights["w"] - truth)
    Path("s.py").write_text(
        "import numpy as np\ndef mine(outputs, target):\n    error = np.abs(outputs['y'] - target)\n"
        "    return {'error': error.mean(), 'near': (error < 0.1).mean()}\n"
        "mine.better = {'error': 'lower', 'near': 'higher'}\n"
    )
    text = f"model: {model}\nscore:\n  score: s.py:mine\n  data: data.npz\n  backends: ort-cpu\n"
    near = f"{(error < 0.1).mean():.4f}"
    (check,) = gate(tmp_path, f"{text}  at_most: {{mine: {error.mean() + 1e-4}}}\n  at_least: {{near: 0.6}}")["checks"]
    assert check["text"] == (
        f"mine {error.mean():.4f} of fp32 on ort-cpu, 0.0001 below at_most {error.mean() + 1e-4:g}; near {near}, "
        f"{float(near) - 0.6:.4f} above at_least 0.6, 64 samples"
    )
    assert check["certain"]
    beyond = f"{text}  at_most: {{mine: {error.mean() - 1e-4}}}\n  at_least: {{near: 0.9}}"
    (check,) = gate(tmp_path, beyond, code=1)["checks"]
    assert f"mine {error.mean():.4f} of fp32 on ort-cpu, 0.0001 above at_most 0.0" in check["text"]
    assert f"near {near}, {0.9 - float(near):.4f} below at_least 0.9" in check["text"]
    lower = f"{text}  precisions: fp32,int8\n  calibration: data.npz\n  max_loss: "
    (check,) = gate(tmp_path, f"{lower}1.0")["checks"]
    loss = re.search(r"of int8 on ort-cpu; loss (0\.\d{4}) \(", check["text"])
    assert loss
    assert float(loss[1]) > 0
    (check,) = gate(tmp_path, f"{lower}{float(loss[1]) / 2}", code=1)["checks"]
    assert f"of int8 on ort-cpu; loss {loss[1]} (" in check["text"]
    assert f", more than max_loss {float(loss[1]) / 2:g}, 64 samples" in check["text"]
    (check,) = gate(tmp_path, f"{text}  at_most: {{mistake: 1}}", code=2)["checks"]
    assert check["text"] == "score.at_most: mistake has no value in this run; these have one: mine, near."


def test_a_model_that_is_compared_with_itself_has_nothing_to_compare(twice: Path, tmp_path: Path) -> None:
    found = gate(tmp_path, f"model: {twice}\nverify: {{backend: ort-cpu, quick: true}}\n")
    (check,) = found["checks"]
    assert (found["passed"], check["judged"]) == (True, False)
    document = read(tmp_path / "run")
    assert (answer(document).verdict, tone(answer(document).verdict)) == ("nothing to compare", "plain")
    assert document.headline == "Nothing to compare: verify."
    assert "| nothing to compare |" in markdown(document)


def test_a_size_that_the_model_refuses_fails_the_gate(tmp_path: Path) -> None:
    split = """g (float[N,3] x) => (float[N,3] y) {
        a, b = Split<axis = 0>(x, sizes) c = Neg(b) y = Concat<axis = 0>(a, c) }"""
    model = write_onnx(tmp_path / "split.onnx", split, {"sizes": [2, 2]})
    (check,) = gate(tmp_path, f"model: {model}\nverify: {{backend: ort-cpu}}\n", code=1)["checks"]
    assert "the model itself refuses its free dimension N" in check["text"]


def test_a_check_that_cannot_be_made_has_the_exit_code_of_its_kind(twice: Path, tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(f"model: {twice}\nverify: {{backend: ort-trt}}\n")
    result = trtw("gate", tmp_path / "gate.yaml", "--output", tmp_path / "run")
    assert result.exit_code == 3
    assert "FAILED  verify: Backend ort-trt is not available" in result.stdout
    assert ET.parse(tmp_path / "run" / "junit.xml").getroot().get("errors") == "1"


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("score: {atleast: {AP: 0.3}}", "score: There is no setting 'atleast'; did you mean at_least?"),
        ("latency: {at-most-ms: 5}", "latency: There is no setting 'at-most-ms'; did you mean at_most_ms?"),
        ("verify: {quik: true}", "verify: There is no setting 'quik'; did you mean quick?"),
        ("verify: {dim: ['batch=1:2:4']}", "verify: There is no setting 'dim'; it is called ranges."),
        ("latency: {dim: 1}", "latency: There is no setting 'dim'; it is called dims."),
        ("score: {data: coco, at_least: {AP: 1}}", "score: The path of data does not exist: coco"),
        ("score: {data: ., annotations: a.json, at_least: {AP: 1}}", "score: The path of annotations does not exist"),
        ("score: {score: cosine, data: x.npy, at_least: {cosine: 1}}", "score: The path of data does not exist: x.npy"),
        ("score: {baseline: none}", "score: The path of baseline does not exist: none"),
        (
            "score: {at_least: {mAP50: 0.3}}",
            "score: at_least: there is no figure 'mAP50' of this model; did you mean",
        ),
        ("score: {score: 's.py:f', data: x.npy, at_least: {f: 1}, baseline: .}", "score: baseline is of eval-coco"),
        (
            "score: {score: cosine, at_least: {cosine: 1}, precisions: fp16}",
            "score: precisions: with `score` a loss is against fp32; add it.",
        ),
        (
            "score: {score: top2, data: x.npy, at_least: {top2: 1}}",
            "score: score: there is no score 'top2'; did you mean top1?",
        ),
        ("score: {score: cosine, dta: x.npy, at_least: {cosine: 1}}", "score: There is no setting 'dta'; did you mean"),
        ("score: {family: yolo8}", "score: There is no detector family called 'yolo8' (from `family`); did you mean"),
        ("score: {backend: ort_cpu}", "score: There is no backend called 'ort_cpu'; did you mean ort-cpu or ort-cuda?"),
        ("score: {batch: many}", "score: The setting batch must be a whole number"),
        ("latency: {backends: 'ort-cpu,tensorrt'}", "latency: There is no backend called 'tensorrt'; there are: trt"),
        ("latency: {batch: '1;8'}", "latency: batch takes positive sizes"),
        ("verify: {precision: fp99, backend: torch}", "verify: Backend torch runs "),
        ("score: {precision: fp99}", "score: There is no precision 'fp99'; "),
        ("latency: {precisions: 'fp32,fp99', backends: ort-cpu}", "latency: There is no precision 'fp99'; "),
        ("latency: {dims: ['sequence=8']}", "latency: The model has no dynamic dimension sequence; its inputs: x "),
        ("latency: {only: ['nosuch']}", "latency: No point matches only: 'nosuch'"),
        ("score: {baseline: .}", "score: "),
        ("latency: {baseline: .}", "latency: The folder is no finished run directory: run.json cannot be read"),
    ],
)
def test_what_would_end_a_check_is_refused_before_anything_runs(
    twice: Path, tmp_path: Path, part: str, said: str
) -> None:
    (tmp_path / "gate.yaml").write_text(f"model: {twice}\n{part}\n")
    assert said in stderr_of("gate", tmp_path / "gate.yaml", "--output", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("part", "command"), [("verify", verify), ("score", eval_coco), ("latency", bench)])
def test_whatever_is_wrong_is_named_as_a_key_of_the_file(
    twice: Path, tmp_path: Path, part: str, command: Callable[..., Any]
) -> None:
    """Every setting with values that most of them refuse; the reader has typed neither an option nor a keyword."""
    names, said = [one.name for one in keywords(command) if not one.positional], []
    for name, value in itertools.product(names, ("nosuch", -1, 10**12, {"a": 1}, ["nosuch", -1])):
        given = {"data": ".", "at_least": {"AP": 1}} if part == "score" else {}
        limit = {"at_most_ms": 1} if part == "latency" else {}
        text = json.dumps({"model": str(twice), part: {**given, **limit, name: value}})
        with suppress(WorkbenchError), as_keywords(gate_command, YAML):
            try:
                _require_usable(load_gate(write_gate(tmp_path, text)))
            except WorkbenchError as error:
                said.append(str(error))
                raise
    assert len(said) > len(names)
    found = re.compile(rf"(?<![`\w])--[a-z]|\b({'|'.join(names)})=")
    assert [one for one in said if found.search(re.sub("`[^`]*`|such as device=1", "", one))] == []


def test_annotations_are_read_ahead_only_where_verify_comes_first(
    scores: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else eval-coco refuses them at once."""
    reads: list[Path] = []
    original = gate_run.read_dataset
    monkeypatch.setattr(
        gate_run, "read_dataset", lambda *given, **more: reads.append(given[1]) or original(*given, **more)
    )
    text = f"model: shapes-yolov10\nscore:\n{scores[1]}  at_least: {{AP: 0.2}}\n"
    gate(tmp_path, text)
    assert reads == []
    (tmp_path / "empty.json").write_text('{"images": [], "annotations": [], "categories": []}')
    other = re.sub("annotations: .*", f"annotations: {tmp_path / 'empty.json'}", text)
    said = stderr_of(
        "gate", write_gate(tmp_path, f"{other}verify: {{backend: ort-cpu}}\n"), "--output", tmp_path / "no"
    )
    assert said.startswith("error: score: ")
    assert reads == [tmp_path / "empty.json"]
    assert not (tmp_path / "no").exists()


def test_what_ends_a_check_is_named_as_a_key_of_the_file(tmp_path: Path) -> None:
    text = f"model: shapes-yolov10\nscore: {{data: {tmp_path}/val, annotations: {write_dataset(tmp_path, 'val', 2, 5)}"
    next((tmp_path / "val").iterdir()).unlink()
    (check,) = gate(tmp_path, f"{text}, at_least: {{AP: 1}}}}\n", code=2)["checks"]
    assert "allow_missing: true leaves them out" in check["text"]


@pytest.mark.parametrize(
    ("model", "figure", "code"),
    [
        ("yolov10", "top1", 2),
        ("yolov10", "AP50", 0),
        ("yolov10", "AP_rare", 2),
        ("yolov10", "f1", 0),
        ("classifier", "top1", 0),
        ("classifier", "f1", 2),
    ],
)
def test_figures_are_those_of_the_models_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, figure: str, code: int
) -> None:
    monkeypatch.setattr("trt_workbench.gate.run._scored", lambda *_: CheckResult("not run"))
    (tmp_path / "gate.yaml").write_text(f"model: shapes-{model}\nscore: {{at_least: {{{figure}: 0.5}}}}\n")
    result = trtw("gate", tmp_path / "gate.yaml", "--output", tmp_path / "run")
    assert result.exit_code == code
    assert (f"there is no figure {figure!r} of this model" in result.stderr) == (code == 2)


@pytest.mark.parametrize(
    "text",
    [
        "model: m.onnx\n",
        "model: m.onnx\nscore: {max_loss: 2}\n",
        "model: m\nsocre: {}\n",
        # which no score could fail
        "model: m.onnx\nscore: {max_loss: 1, baseline: run}\n",
        "model: m.onnx\nscore: {at_least: {AP: 0}}\n",
        "model: m.onnx\nscore: {at_least: {AP: 0.4, f1: -1}}\n",
    ],
)
def test_a_file_that_checks_nothing_or_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "gate.yaml").write_text(text)
    with refused(UsageProblem):
        load_gate(tmp_path / "gate.yaml")
    assert "gate.yaml" in stderr_of("gate", tmp_path / "gate.yaml")


def test_a_part_without_settings_is_checked(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("model: m.onnx\nverify:\n")
    found = load_gate(tmp_path / "gate.yaml")
    assert found.verify is not None
    assert (found.verify.settings, found.score) == ({}, None)


@pytest.mark.parametrize("address", ["javascript:alert(1)", "//example.org", "../x", "data:text/html,x"])
def test_a_link_of_a_changed_gate_leads_nowhere_else(twice: Path, tmp_path: Path, address: str) -> None:
    (tmp_path / "gate.yaml").write_text(f"model: {twice}\nverify: {{backend: ort-cpu, quick: true}}\n")
    run = tmp_path / "run"
    assert trtw("gate", tmp_path / "gate.yaml", "--output", run).exit_code == 0
    document = json.loads((run / "gate.json").read_text())
    assert document["checks"][0]["report"] == "verify/report.html"
    document["checks"][0]["report"] = address
    (run / "gate.json").write_text(json.dumps(document))
    found = trtw("report", run)
    assert found.exit_code == (2 if address.startswith((".", "/")) else 0)
    assert f'href="{address}' not in (run / "report.html").read_text()


def test_the_result_as_markdown_and_as_junit() -> None:
    passed = GateCheck(name="verify", passed=True, exit_code=0, text="right", report=None, seconds=1.5)
    failed = GateCheck(name="score", passed=False, exit_code=1, text="AP < 0.3 | <b>", report=None, seconds=2)
    broken = GateCheck(name="latency", passed=False, exit_code=3, text="trt is not here", report=None, seconds=0)
    found = GateDocument(model="m.onnx", passed=False, checks=[passed, failed, broken])
    held(markdown(found))
    held(junit(found))
    suite = ET.fromstring(junit(found))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")


@pytest.mark.readers
def test_a_reader_of_junit_finds_the_checks(twice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed says is text from elsewhere: colours and control characters are no XML."""
    junitparser = pytest.importorskip("junitparser")

    def fails(*_: object, **__: object) -> None:
        raise ComponentMissing("\x1b[31mno\x1b[0m \x00 <device> ]]> & \ud800\nhere")

    monkeypatch.setattr("trt_workbench.gate.run._verified", fails)
    (tmp_path / "gate.yaml").write_text(f"model: {twice}\nverify: {{backend: ort-cpu}}\n")
    assert trtw("gate", tmp_path / "gate.yaml", "--output", tmp_path / "run").exit_code == 3
    (suite,) = junitparser.JUnitXml.fromfile(tmp_path / "run" / "junit.xml")
    assert (suite.tests, suite.failures, suite.errors) == (1, 0, 1)
    (case,) = suite
    (error,) = case.result
    assert (case.name, type(error)) == ("verify", junitparser.Error)
    assert error.message == "no \\x00 <device> ]]> & \\ud800 here"
