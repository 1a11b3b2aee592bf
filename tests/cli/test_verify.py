"""`trtw verify` as a program: exit codes, its page, its run in the overview."""

import errno
import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests import faulty_backend
from tests.attention_model import attention_model
from tests.faulty_backend import FaultyBackend
from tests.fork_server import ForkServer
from tests.in_app import stderr_of, stdout_of, trtw
from tests.in_process_worker import InProcessWorker
from tests.onnx_text import write_onnx
from tests.texts import held
from tests.unit.model.sanitize.test_attention import attention
from tests.waiting import ended
from typer.testing import Result

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.core import workers

pytestmark = pytest.mark.usefixtures("blank_pictures")

DETECTOR = Path(__file__).parents[2] / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]) -> None:
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    monkeypatch.setattr(faulty_backend.FaultySession, "opened", 0)
    monkeypatch.setattr(workers, "WorkerProcess", InProcessWorker)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """images [batch,3,8,8] to output0 [batch,12,4]: boxes by a convolution, the best sorted, as detectors do."""
    graph = """boxes (float[batch,3,8,8] images) => (float[batch,12,4] output0) {
      places = Conv<pads = [1, 1, 1, 1]>(images, weights) rows = Reshape(places, flat)
      scores, boxes = Split<axis = 1>(rows, parts) score = Squeeze(scores, one)
      tops, chosen = TopK<axis = 1>(score, best) by_place = Transpose<perm = [0, 2, 1]>(boxes)
      index = Unsqueeze(chosen, last) indices = Expand(index, wide)
      output0 = GatherElements<axis = 1>(by_place, indices)
    }"""
    integers = {"flat": [0, 5, 64], "parts": [1, 4], "one": [1], "best": [12], "last": [2], "wide": [1, 1, 4]}
    weights = np.random.default_rng(0).standard_normal((5, 3, 3, 3)).astype(np.float32) / 4
    return write_onnx(tmp_path / "boxes.onnx", graph, {"weights": weights, **integers})


def verify(model: Path, output: Path, fault: str, *more: object) -> Result:
    words = ("--backend", "faulty", "--option", f"fault={fault}", "--quick", "--dim", "batch=1:2:2", "--output", output)
    return trtw("verify", model, *words, *more)


def said(result: Result) -> str:
    return " ".join(result.stderr.split())


@pytest.mark.long
def test_a_wrong_engine_has_exit_code_1_a_page_and_the_arrays_of_its_failure(model: Path, tmp_path: Path) -> None:
    result = verify(model, tmp_path / "run", "rows after the first")
    assert result.exit_code == 1
    assert "boxes.onnx: WRONG on faulty (fp32), 2 shapes compared with ort-cpu" in result.stdout
    assert "wrong only at batch=2 (the largest shape), right at 1 other: batch=2, output output0" in said(result)
    document = json.loads((tmp_path / "run" / "verify.json").read_text())
    assert document["verdict"] == "wrong"
    failure = tmp_path / "run" / "failures" / "001"
    found, expected = (np.load(failure / name / "output0.npy") for name in ("found", "expected"))
    assert np.allclose(found[0], expected[0], atol=1e-3)
    assert not np.allclose(found[1], expected[1], atol=1e-3)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "output0 at batch=2: wrong" in page
    assert "output0 at batch=1: right" in page


@pytest.mark.long
def test_the_page_is_made_again_and_the_overview_knows_the_run(model: Path, tmp_path: Path) -> None:
    assert verify(model, tmp_path / "run", "rows after the first").exit_code == 1
    page = tmp_path / "run" / "report.html"
    before = page.read_text()
    page.unlink()
    stdout_of("report", tmp_path / "run", "--output", tmp_path / "all")
    assert page.read_text() == before
    overview = (tmp_path / "all" / "overview.md").read_text()
    assert "| faulty:fp32, boxes.onnx | ✗ wrong | batch=2 |" in overview


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of the compiler's own parts
def test_rows_of_ones_own_are_put_together_on_torch_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from trt_workbench.backends.torch.backend import compiler

    if compiler() is None:
        pytest.skip("torch.compile needs a C++ compiler")
    monkeypatch.chdir(tmp_path)
    weights = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    text = "g (float[batch,8] x) => (float[batch,4] y) { a = MatMul(x, w) y = Relu(a) }"
    write_onnx(tmp_path / "model.onnx", text, {"w": weights})
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "x.npy", np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32))
    asked = ["verify", "model.onnx", "--backend", "torch-compile", "--inputs", "samples/", "--output", "run"]
    printed = stdout_of(*asked, "--quick", "--dim", "batch=1:2:2")
    assert "model.onnx: RIGHT on torch-compile (fp32), 2 shapes compared with ort-cpu" in printed
    document = json.loads((tmp_path / "run" / "verify.json").read_text())
    assert document["inputs"] == ["samples/"]
    rows = [row for case in document["cases"] for row in case["outputs"]]
    assert {row["inputs"] for row in rows} <= {"given", "given, the next rows"}
    assert document["provenance"]["compile"]["fullgraph"]


def test_a_right_one_prints_one_json_document(tmp_path: Path) -> None:
    result = verify(DETECTOR, tmp_path / "run", "", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["verdict"] == "right"
    assert document["directory"] == str(tmp_path / "run")


def bisect(model: Path, output: Path, fault: str, *more: object) -> Result:
    words = ("--backend", "graph-fault", "--option", f"fault={fault}", "--quick", "--dim", "N=1:2:2", "--bisect")
    return trtw("verify", model, *words, "--output", output, *more)


@pytest.fixture
def masked_attention(tmp_path: Path, outside_backend: Callable[..., None]) -> Path:
    outside_backend("graph-fault", "tests.graph_fault_backend:GraphFaultBackend")
    return attention_model(tmp_path / "attention.onnx", layers=1)


@pytest.mark.long
def test_bisect_names_the_nodes_and_a_later_call_goes_on(masked_attention: Path, tmp_path: Path) -> None:
    result = bisect(masked_attention, tmp_path / "run", "masked attention")
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "Bisected at N=2 in " in text
    assert "smallest wrong part: Add /add_26, Softmax /softmax_27, MatMul /matmul_35" in text
    assert "attention.onnx is wrong" in result.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    assert "/softmax_27" in page
    assert "bisect/reproduce.py" in page

    again = bisect(masked_attention, tmp_path / "run", "masked attention", "--json")
    assert again.exit_code == 1
    found = json.loads(again.stdout)["bisect"]
    assert [node["operator"] for node in found["nodes"]] == ["Add", "Softmax", "MatMul"]
    assert found["trials_repeated"] == found["trials"] > 0
    assert found == json.loads((tmp_path / "run" / "bisect" / "bisect.json").read_text())


def test_bisect_of_a_right_model_says_that_nothing_is_wrong(masked_attention: Path, tmp_path: Path) -> None:
    result = bisect(masked_attention, tmp_path / "run", "")
    assert result.exit_code == 0, result.output
    assert "RIGHT on graph-fault" in result.stdout
    assert "Nothing is wrong: there is nothing to bisect." in result.stdout
    assert not (tmp_path / "run" / "bisect").exists()


@pytest.mark.long
def test_bisect_without_time_says_how_to_go_on(masked_attention: Path, tmp_path: Path) -> None:
    result = bisect(masked_attention, tmp_path / "run", "single", "--bisect-seconds", "0")
    assert result.exit_code == 1
    assert "the time limit was reached before the fault was reproduced" in " ".join(result.stdout.split())


def test_want_of_memory_at_a_shape_has_exit_code_4_and_names_it(model: Path, tmp_path: Path) -> None:
    words = ("--backend", "faulty", "--option", "fault=out of memory", "--quick", "--dim", "batch=1:2:16")
    result = trtw("verify", model, *words, "--output", tmp_path / "run")
    assert result.exit_code == 4
    assert "RIGHT except at 1 shape on faulty" in result.stdout
    assert "is right except at batch=16: Out of memory on the device." in said(result)


@pytest.fixture
def wrong_at_softmax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that the backend gets wrong in rows after the first as long as its graph has a Softmax."""

    def load(self: FaultyBackend, model: Path, options: SessionOptions) -> Session:
        fused = any(node.op_type == "Softmax" for node in onnx.load(model).graph.node)
        chosen = replace(options, extra={"fault": "rows after the first" if fused else ""})
        return plain(self, model, chosen)

    plain = FaultyBackend._load
    monkeypatch.setattr(FaultyBackend, "_load", load)
    onnx.save(attention(), tmp_path / "attention.onnx")
    return tmp_path / "attention.onnx"


@pytest.mark.long
def test_a_way_around_is_shown_written_and_ends_with_exit_code_0(wrong_at_softmax: Path, tmp_path: Path) -> None:
    words = ("--backend", "faulty", "--quick", "--dim", "N=1:2:2", "--dim", "K=3", "--output", tmp_path / "run")
    printed = stdout_of("verify", wrong_at_softmax, *words, "--fix")
    assert "attention.onnx: WRONG on faulty" in printed
    assert "Fixed by attention-softmax-spelled" in " ".join(printed.split())
    document = json.loads((tmp_path / "run" / "fix" / "fix.json").read_text())
    assert document["chosen"] == "attention-softmax-spelled"
    assert document["plain_latency_ms"] > 0
    by_name = {row["way"]: row for row in document["tried"]}
    assert by_name["attention-scores-copied"]["verdict"] == "wrong"
    assert by_name["attention-softmax-spelled"]["relative_latency"] > 0
    assert by_name["attention-shares-copied"]["latency_ms"] is None
    assert document["not_tried"] == []
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<b>attention-softmax-spelled</b> fixes it" in page
    right = tmp_path / "run" / "fix" / "attention-fixed.onnx"
    stdout_of("verify", right, "--model", wrong_at_softmax, *words[:-1], tmp_path / "again")


@pytest.mark.long
def test_that_no_way_around_helps_is_said(model: Path, tmp_path: Path) -> None:
    result = verify(model, tmp_path / "run", "rows after the first", "--fix")
    assert result.exit_code == 1
    assert "No workaround fixes it." in " ".join(result.stderr.split())
    assert json.loads((tmp_path / "run" / "fix" / "fix.json").read_text())["chosen"] is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--dim", "batch=3:2:1"), "1 <= low <= best <= high must hold"),
        (("--dim", "batch=x"), "--dim takes NAME=LOW:BEST:HIGH"),
        (("--dim", "size=1"), "no dynamic dimension 'size'"),
        (("--reference", "nothing"), "no backend called 'nothing'"),
        (("--inputs", "absent.npy"), "does not exist: absent.npy"),
        (("--precision", "fp3"), "fp3"),
        (("--bisect", "--reference", "none"), "remove --reference none"),
    ],
)
def test_bad_usage_has_exit_code_2(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    result = trtw("verify", DETECTOR, "--backend", "ort-cpu", *words, "--output", tmp_path / "run")
    assert result.exit_code == 2, result.output
    assert text in said(result)
    assert not (tmp_path / "run").exists()


def test_what_nothing_decides_is_no_success(tmp_path: Path) -> None:
    """Sines of large angles: rounding alone turns them over."""
    text = "g (float[N,4] x) => (float[N,4] y) { far = Mul(x, much) y = Sin(far) }"
    path = write_onnx(tmp_path / "far.onnx", text, {"much": np.array(1e9, np.float32)})
    result = trtw("verify", path, "--backend", "ort-cpu", "--dim", "N=1:2:2", "--output", tmp_path / "run")
    assert result.exit_code == 1
    told = r"not proven correct: N=1, output y: rounding to fp32 alone changes this output by [\d.]+; pass real inputs"
    assert re.search(rf"far.onnx is {told} \(and 1 more\)\. No output", said(result))  # N=2
    assert "more)" not in result.stdout
    assert "your own inputs (--inputs) may decide it" in said(result)
    assert "far.onnx: UNDECIDED" in result.stdout
    assert "Not proven" in (tmp_path / "run" / "report.html").read_text()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["passed"] is False


@pytest.mark.long
def test_a_run_is_recorded_and_is_the_reference_of_another(model: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert verify(model, first, "", "--record").exit_code == 0
    result = verify(model, second, "rows swapped", "--reference", first)
    assert result.exit_code == 1
    assert "compared with record of ort-cpu" in result.stdout
    assert "rows are mixed up: row 0 holds that of row 1" in said(result)


@pytest.mark.parametrize(
    ("reference", "verdict"), [("ort-cpu", "CONSISTENT"), ("none", "CONSISTENT"), ("torch", "RIGHT")]
)
def test_a_runtime_that_is_compared_with_itself_is_not_called_right(
    tmp_path: Path, reference: str, verdict: str
) -> None:
    if reference == "torch":
        pytest.importorskip("torch")
    path = write_onnx(
        tmp_path / "m.onnx", "g (float[2,4] x) => (float[2,4] y) { y = MatMul(x, w) }", {"w": np.eye(4, dtype="f4")}
    )
    words = ("--backend", "ort-cpu", "--reference", reference, "--quick", "--output", tmp_path / "run")
    result = trtw("verify", path, *words)
    assert result.exit_code == 0, result.output
    printed = " ".join(result.stdout.split())
    assert f"m.onnx: {verdict} on ort-cpu" in printed
    found = json.loads((tmp_path / "run" / "verify.json").read_text())
    assert found["compared_with_itself"] is (reference == "ort-cpu")
    assert ("the same file on the same runtime" in printed) is (reference == "ort-cpu")


@pytest.mark.long(but=1)
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_the_same_command_goes_on_with_a_run_that_was_ended(
    model: Path, tmp_path: Path, fork_server: ForkServer, ending: signal.Signals
) -> None:
    run, one = tmp_path / "run", tmp_path / "one"
    words = ("verify", model, "--backend", "ort-cpu", "--dim", "batch=1:4:300", "--output")
    code, said = ended(fork_server, run, "records.jsonl", ending, *words, run)
    assert code == (-ending if ending == signal.SIGKILL else 130), said
    if ending != signal.SIGKILL:
        assert f"continue with `… --output {run}`" in said
        assert json.loads((run / "run.json").read_text())["status"] == "partial"
        held(stderr_of("report", run))
    again = trtw(*words, run)
    assert again.exit_code == 0, again.output
    assert "Continuing the run in this folder" in again.stderr
    found = json.loads((run / "verify.json").read_text())
    assert trtw(*words, one, "--seed", 0).exit_code == 0
    assert len(json.loads((run / "env.json").read_text())["earlier"]) == 1
    whole = json.loads((one / "verify.json").read_text())
    assert len(found["cases"]) == len(whole["cases"])  # others are drawn
    assert not {path.name for path in run.iterdir()} - {path.name for path in one.iterdir()}
    assert not list(tmp_path.glob(".run.*"))


@pytest.mark.parametrize("change", ["setting", "model"])
def test_a_run_of_something_else_is_not_continued(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    words = ["verify", model, "--backend", "faulty", "--dim", "batch=1:2:6", "--output", tmp_path / "run"]
    with monkeypatch.context() as patch:
        patch.setattr("trt_workbench.verify.run._Run.ways", interrupt)
        assert trtw(*words).exit_code == 130
    if change == "setting":
        words += ["--precision", "tf32"]
    else:
        write_onnx(model, "g (float[batch,4] x) => (float[batch,4] y) { y = Relu(x) }")
    again = trtw(*words)
    assert again.exit_code == 0
    held(re.sub("'[0-9a-f]{12}.*?' (there|here)", r"'HASH' \1", again.stderr))


def spoiled(lines: list[str]) -> str:
    """Return lines of another run, which has more shapes."""
    return "".join(lines * 3)


DAMAGE: list[Callable[[list[str]], str]] = [
    spoiled,
    lambda lines: "".join(line.replace('"sizes_seed"', '"size"') for line in lines),
    lambda lines: "\n".join(["{}"] * len(lines)) + "\n",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_that_would_be_continued_is_named_with_what_to_do(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[list[str]], str]
) -> None:
    run = tmp_path / "run"
    words = ["verify", model, "--backend", "faulty", "--dim", "batch=1:2:6", "--output", run]
    with monkeypatch.context() as patch:
        patch.setattr("trt_workbench.verify.run._Run.ways", interrupt)
        assert trtw(*words).exit_code == 130
    (run / "records.jsonl").write_text(damage((run / "records.jsonl").read_text().splitlines(keepends=True)))
    again = trtw(*words)
    assert again.exit_code == 2, again.output
    assert f"The unfinished run is damaged; remove {run}" in again.stderr


def test_a_run_that_fails_is_kept_and_continued(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["verify", model, "--backend", "faulty", "--dim", "batch=1:2:6", "--output", tmp_path / "run"]
    with monkeypatch.context() as patch:
        patch.setattr("trt_workbench.verify.run._Run.ways", full)
        failed = trtw(*words)
    assert failed.exit_code == 2
    assert "No space left on device; make room" in failed.stderr
    assert f"The measurements are kept: {tmp_path / 'run'}" in failed.stderr
    again = trtw(*words)
    assert again.exit_code == 0
    assert "Continuing the run in this folder" in again.stderr


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_interrupted_before_it_adds_anything_a_run_says_that_what_is_there_is_kept(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["verify", model, "--backend", "faulty", "--dim", "batch=1:2:6", "--output", tmp_path / "run"]
    for place in ("trt_workbench.verify.run._Run.ways", "trt_workbench.verify.run.Opened"):
        with monkeypatch.context() as patch:
            patch.setattr(place, interrupt)
            ended = trtw(*words)
        assert ended.exit_code == 130
    assert f"Interrupted. What the unfinished run has is kept: {tmp_path / 'run'}" in ended.stderr
    assert "nothing was kept" not in ended.stderr
    assert trtw(*words).exit_code == 0


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt
