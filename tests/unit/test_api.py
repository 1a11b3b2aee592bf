"""The package as a library: what its functions take, return and raise, and that its page and types are current."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import json_of
from tests.onnx_text import write_onnx
from tests.texts import held, refused

import trt_workbench.api as tw
from trt_workbench.api_commands import TAKES
from trt_workbench.console import progress
from trt_workbench.console.keywords import YAML, as_keywords, keywords, worded
from trt_workbench.core.workspace import embedded_model
from trt_workbench.decide import run as decide_run
from trt_workbench.vision.scenes import dataset as embedded
from trt_workbench.vision.scenes.scenes import write_dataset
from trt_workbench.vision.settings import PredictSettings

ROOT = Path(__file__).parents[2]
TWICE = "twice (float[batch, 2] x) => (float[batch, 2] y) { y = Add(x, x) }"
_CONSUMER = """
from typing import Any

import numpy as np
import torch

import trt_workbench.api as tw

with tw.load("m.onnx", backend="trt", precision="fp16", conf=0.3, classes=["person"]) as model:
    one: tw.FoundObjects = model("street.jpg")
    several: list[tw.FoundObjects] = model(["a.jpg", np.zeros((4, 4, 3), np.uint8)])
    tensors = model.run({"x": torch.zeros(3)})
ap: float | None = tw.evaluate("m.onnx", data="coco/", limit=3).document["AP"]
def mine(outputs: dict[str, Any], target: Any) -> float:
    return 0.5
absrel: float = tw.evaluate("m.onnx", data="val.npz", score=mine).document.score.value
verdict: str = tw.verify("m.onnx", output="run").require()["verdict"]
sentence: str = tw.decide("m.onnx", precisions=["fp16"], max_loss=0.1, score=mine).document.recommendation.sentence
limited = tw.decide("m.onnx", max_latency_ms=2.5, expect={"AP": 0.391}).document
kept: list[str] = [one.keeps for one in limited.accuracy if one.loss_high and one.loss_high < 0.1]
command: str | None = limited.speed.command if limited.speed else None
status: str = tw.bench("smoke", progress=print).document.records[0].status
tw.verify("m.onnx", presicion="fp16")
tw.load("m.onnx", conf="much")
"""
# In place of PyTorch's types, of which reading takes most of the time.
_TORCH = "class Tensor: ...\ndef zeros(*size: int) -> Tensor: ...\n"


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_onnx(tmp_path_factory.mktemp("model") / "twice.onnx", TWICE)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("scenes")
    return root / "val", write_dataset(root, "val", 4, 5)


@pytest.fixture
def few_scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    monkeypatch.setattr(embedded, "HELD_OUT_IMAGES", 4)
    monkeypatch.setattr(embedded, "_CALIBRATION_IMAGES", 4)


def test_the_page_and_the_types_are_current() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tasks/api-reference"), "--check"])
    assert done.returncode == 0, "run `pixi run api-reference`"


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("trt_workbench", {"numpy", "pydantic", "typer", "lazy_loader"}),
        (
            "trt_workbench.api",
            {"torch", "onnxruntime", "tensorrt", "trt_workbench_native", "transformers", "matplotlib"},
        ),
    ],
)
def test_the_import_loads_no_runtime(module: str, without: set[str]) -> None:
    call = [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & without == set()
    assert "trt_workbench" in loaded


@pytest.mark.long
def test_a_program_of_the_user_is_checked_by_its_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mypy = pytest.importorskip("mypy.api", reason="mypy is not in this environment")
    (tmp_path / "torch.pyi").write_text(_TORCH)
    monkeypatch.setenv("MYPYPATH", str(tmp_path))
    program = tmp_path / "program.py"
    program.write_text(_CONSUMER)
    limit = sys.getrecursionlimit()
    text, _, code = mypy.run(["--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}", str(program)])
    sys.setrecursionlimit(limit)  # mypy's is so high that a deep YAML file of a later test ends the process
    assert code == 1
    held(text.replace(str(program), "program.py"))


def test_every_function_and_type_of_the_stub_is_there() -> None:
    stub = (ROOT / "python/src/trt_workbench/api.pyi").read_text(encoding="utf-8")
    names = {*re.findall(r"^def (\w+)", stub, re.MULTILINE), *re.findall(r"import (\w+) as \1$", stub, re.MULTILINE)}
    assert names == {*tw.__all__}
    assert {name for name in names if not callable(getattr(tw, name))} == set()


def test_a_prompt_shows_a_line(twice: Path) -> None:
    """It was an address, and a document of a page."""
    with tw.load(twice, backend="ort-cpu") as model:
        assert repr(model) == "<twice.onnx on ort-cpu: x float32 [?, 2] -> y float32 [?, 2]>"
    done = tw.Finished({"much": list(range(1000))}, Path("run"))
    assert repr(done) == f"Finished(directory={Path('run')!r}, failure=None)"


@pytest.mark.long
def test_a_vision_model_finds_what_predict_finds(scenes: tuple[Path, Path], tmp_path: Path) -> None:
    files = sorted(scenes[0].iterdir())
    json_of(
        "predict", "shapes-segmenter", *files, "--backend", "ort-cpu", "--no-pictures", "--output", tmp_path / "run"
    )
    lines = [json.loads(line) for line in (tmp_path / "run" / "detections.jsonl").read_text().splitlines()]
    with tw.load("shapes-segmenter", backend="ort-cpu") as model:
        found = model(files)
        assert [len(model(file)) for file in files] == [len(one) for one in found]
    assert [box for one in found for box in one.boxes.tolist()] == [line["box"] for line in lines]
    assert [name for one in found for name in one.names] == [line["class_name"] for line in lines]
    for one in found:
        assert one.masks is not None
        assert one.masks.any(axis=(1, 2)).tolist() == [True] * len(one)
        assert (one.keypoints, one.rotated_boxes) == (None, None)


def test_pixels_are_an_image_and_other_arrays_are_refused(scenes: tuple[Path, Path]) -> None:
    from trt_workbench.vision.decode import read_image

    file = min(scenes[0].iterdir())
    with tw.load("shapes-yolov10", backend="ort-cpu") as model:
        one, same = model([file, read_image(file)])
        np.testing.assert_array_equal(one.boxes, same.boxes)
        assert (len(one) > 0, one.masks, model.precision) == (True, None, "fp32")
        assert [len(each) for each in model(one for one in [file])] == [len(one)]  # what can be iterated once
        with refused(tw.UsageProblem):
            model(np.zeros((4, 4, 3), np.float32))  # type: ignore[arg-type]
        for other in (None, 3, b"", [None], [[file]]):
            with pytest.raises(tw.UsageProblem, match="the path of a file or an image of Pillow, not of type"):
                model(other)  # type: ignore[call-overload]


def test_numbers_are_taken_where_an_option_takes_their_text(scenes: tuple[Path, Path]) -> None:
    chosen: dict[str, Any] = {"imgsz": 320, "classes": [0, "square"]}
    with tw.load("shapes-yolov10", backend="ort-cpu", **chosen) as model:
        found = model(scenes[0].iterdir())
    assert {label for one in found for label in one.labels.tolist()} == {0, 1}
    with refused(tw.UsageProblem):
        tw.load("shapes-yolov10", backend="ort-cpu", **{**chosen, "imgsz": 320.5})


def test_arrays_go_in_and_come_out(twice: Path) -> None:
    with tw.load(twice, backend="ort-cpu") as model:
        assert model.run({"x": np.ones((3, 2), np.float32)})["y"].tolist() == [[2, 2]] * 3
        with refused(tw.UsageProblem):
            model("street.jpg")
        assert model.run({"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[2, 2]]  # it is still open
        for wrong in ({"z": np.ones((1, 2), np.float32)}, np.ones((1, 2), np.float32), {"x": [[1], [1, 2]]}):
            with refused(tw.UsageProblem):
                model.run(wrong)
    with refused(tw.UsageProblem):
        model.run({"x": np.ones((1, 2), np.float32)})


@pytest.mark.usefixtures("doubled_core")
def test_an_engine_says_how_it_is_built_for_more_rows(twice: Path) -> None:
    rows = {"x": np.ones((3, 2), np.float32)}
    with tw.load(twice, backend="trt") as model, refused(tw.UsageProblem):
        model.run(rows)
    with tw.load(twice, backend="trt", options={"max_batch": 3}) as model:
        assert model.run(rows)["y"].tolist() == [[2, 2]] * 3


@pytest.mark.parametrize("backend", ["ort-cpu", "torch"])
def test_tensors_go_in_and_come_out(twice: Path, backend: str) -> None:
    torch = pytest.importorskip("torch")
    with tw.load(twice, backend=backend) as model:
        found = model.run({"x": torch.ones((3, 2), requires_grad=True)})["y"]
        assert (found.dtype, found.tolist()) == (torch.float32, [[2, 2]] * 3)
        with pytest.raises(tw.UsageProblem, match="x is bfloat16"):
            model.run({"x": torch.ones((3, 2), dtype=torch.bfloat16)})


def test_evaluate_returns_what_eval_coco_writes(scenes: tuple[Path, Path], tmp_path: Path) -> None:
    data = {"data": scenes[0], "annotations": str(scenes[1])}
    done = tw.evaluate("shapes-yolov10", backend="ort-cpu", report=False, output=tmp_path / "one", **data)
    words = ("--data", scenes[0], "--annotations", scenes[1], "--backend", "ort-cpu", "--no-report")
    other = json_of("eval-coco", "shapes-yolov10", *words, "--output", tmp_path / "two")
    assert (done.document["AP"], done.document["images"]) == (other["AP"], 4)
    assert (done.passed, done.directory) == (True, tmp_path / "one")
    assert done.require() is done.document


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_gets_lines_and_stderr_none(
    terminal: bool, scenes: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    lines: list[str] = []
    given: dict[str, Any] = {"backend": "ort-cpu", "report": False, "output": tmp_path / "run"}
    tw.evaluate("shapes-yolov10", data=scenes[0], annotations=scenes[1], progress=lines.append, **given)
    assert all(re.match(r"\[\d+ s\] \S", line) for line in lines)
    assert lines
    assert not re.search(r"^\[\d+ s\]", capfd.readouterr().err, re.M)


def test_the_readmes_lines_run(scenes: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lines,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    (tmp_path / "model.onnx").symlink_to(embedded_model())
    (tmp_path / "images").symlink_to(scenes[0])
    (tmp_path / "instances.json").symlink_to(scenes[1])
    (tmp_path / "street.jpg").symlink_to(min(scenes[0].iterdir()))
    names: dict[str, Any] = {}
    exec(lines, names)
    assert len(names["found"].boxes) == len(names["found"].names) > 0
    assert 0.5 < names["ap"] <= 1


def test_a_wrong_engine_is_a_failure_of_the_result(twice: Path, tmp_path: Path, outside_backend: Any) -> None:
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    done = tw.verify(twice, backend="faulty", options={"fault": "stuck"}, quick=True, output=tmp_path / "run")
    assert (done.document["verdict"], done.passed) == ("wrong", False)
    assert (done.directory / "report.html").is_file()
    assert isinstance(done.failure, tw.CheckFailed)
    with pytest.raises(tw.CheckFailed, match=r"twice\.onnx is wrong"):
        done.require()


@pytest.mark.long
@pytest.mark.usefixtures("few_scenes")
def test_decide_returns_the_decision_and_bench_its_records(twice: Path, tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"precisions": ["fp32", "fp16"], "backends": "ort-cpu", "repetitions": 0, "search": False}
    done = tw.decide(output=tmp_path / "run", **chosen)
    assert [row.label for row in done.document.rows] == ["fp32 on ort-cpu", "fp16 on ort-cpu"]
    assert done.document.recommendation.precision is not None or done.document.recommendation.sentence
    config = tmp_path / "bench.yaml"
    config.write_text(
        f"repetitions: 2\nmodels: {{twice: {{path: {twice}}}}}\nruntimes: [{{backend: ort-cpu}}]\n"
        "measure: {warmup_ms: 1, duration_s: 0.01, min_iterations: 2}\nscenarios: {arrays: {kind: arrays}}\n"
    )
    assert [one.status for one in tw.bench(config, output=tmp_path / "bench").document.records] == ["ok", "ok"]


@pytest.mark.parametrize(
    "given",
    [{"presicion": "fp16"}, {"quick": "perhaps"}, {"device": -1}, {"ranges": ["batch=4:1:2"]}],
)
def test_a_setting_that_is_unknown_or_wrong_is_refused(twice: Path, given: dict[str, Any]) -> None:
    with refused(tw.UsageProblem):
        tw.verify(twice, backend="ort-cpu", **given)


def test_a_precision_that_is_none_is_refused_as_on_the_command_line() -> None:
    with refused(tw.UsageProblem):
        tw.decide(precisions=["fp32", "fp17"])


@pytest.mark.usefixtures("few_scenes")
def test_an_interrupted_run_is_an_interrupt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(decide_run.DecideRun, "_measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tw.decide(precisions=["fp32"], backends=["ort-cpu"], repetitions=0, output=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "partial"


def test_what_is_no_model_is_refused() -> None:
    for wrong in (None, 5, b"m.onnx", []):
        with refused(tw.UsageProblem):
            tw.load(wrong)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*(quantize_per|nested tensor):UserWarning")
def test_tensors_without_plain_numbers_are_refused(twice: Path) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(1, 2)
    with tw.load(twice, backend="ort-cpu") as model:
        for wrong in (
            x.to_sparse(),
            x.to("meta"),
            torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
            torch.nested.nested_tensor([x, x]),
            x.to(torch.complex64).conj(),
            x.to(torch.float8_e4m3fn),
        ):
            with pytest.raises(tw.UsageProblem, match=r"^Input x (is no array: |is complex64)"):
                model.run({"x": wrong})
        assert model.run({"x": torch._neg_view(x)})["y"].tolist() == [[-2.0, -2.0]]


@pytest.mark.parametrize("name", ["load", *TAKES])
def test_every_option_of_a_function_is_named_as_its_keyword(name: str) -> None:
    takes, _ = TAKES.get(name, (PredictSettings, ()))
    flags = {flag: one for one in keywords(takes) for flag in re.findall(r"--[\w-]+", one.flags or dashed(one.name))}
    assert len(flags) > 5
    with as_keywords(takes):
        for flag, one in flags.items():
            for text in (
                f"Pass {flag}.",
                f"{flag} takes x",
                f"({flag})",
                f"{flag}: a",
                f"{flag} 8x8, too",
                f"`{flag}`",
            ):
                said = worded(text)
                assert f"{one.name}=" in said
                assert "--" not in said
            assert worded(f"`trtw x {flag} 1` and {flag}-other") == f"`trtw x {flag} 1` and {flag}-other"
    assert worded("--backend v2") == "--backend v2"


def dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def test_help_names_keywords() -> None:
    for name in ("load", *TAKES):
        shown = getattr(tw, name).__doc__
        assert re.findall(r"(?<!`)--[a-z]\S*", shown) == []
        assert not re.search("repeatable|comma-separated", shown)  # words of a command line


def test_the_value_of_an_option_is_that_of_its_keyword() -> None:
    texts = {
        "pass --url http://localhost:8000.": 'pass url="http://localhost:8000".',
        "--url names a server; use --backend v2.": 'url= names a server; use backend="v2".',
        "Pass --normalize none or --normalize imagenet, as": 'Pass normalize="none" or normalize="imagenet", as',
        "--background last if": 'background="last" if',
        "Try --family yolox or": 'Try family="yolox" or',
        "at --conf 0.5 and": "at conf=0.5 and",
        "--classes FILE.": "classes=FILE.",
        "--allow-unverified: engines": "allow_unverified=True: engines",
        "choose with --output: /a": "choose with output=: /a",
    }
    with as_keywords(TAKES["evaluate"][0]):
        assert {text: worded(text) for text in texts} == texts
    with as_keywords(TAKES["decide"][0]):
        assert worded("--no-search and --max-latency 2ms") == 'search=False and max_latency_ms="2ms"'
    with as_keywords(TAKES["verify"][0], YAML), as_keywords(TAKES["decide"][0]):
        assert worded("--no-search and --backends v2; --data is") == "search: false and backends: v2; `data` is"


@pytest.mark.parametrize(
    "given",
    [
        {"backend": "ort-cpu", "url": "http://localhost:8000"},
        {"split": "val"},
        {"annotations": "a.json"},
        {"data": "nowhere"},
        {"threads": 10**12},
        {"imgsz": print},
    ],
)
def test_mistakes_name_keywords(given: dict[str, Any], tmp_path: Path) -> None:
    with refused(tw.UsageProblem):
        tw.evaluate("shapes-yolov10", output=tmp_path / "run", **given)
