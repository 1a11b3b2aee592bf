"""`trtw verify` as a program: exit codes, its page, its run in the overview."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests import faulty_backend
from tests.faulty_backend import FaultyBackend
from tests.unit.onnxtools.test_sanitize_attention import attention
from typer.testing import CliRunner, Result

from trt_workbench.backends import registry
from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.cli.app import app

MODEL = Path(__file__).parents[2] / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._BACKENDS, "faulty", registry._Entry("tests.faulty_backend", "FaultyBackend"))
    monkeypatch.setattr(faulty_backend.FaultySession, "opened", 0)


def trtw(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def verify(output: Path, fault: str, *more: object) -> Result:
    words = ("--backend", "faulty", "--option", f"fault={fault}", "--quick", "--dim", "batch=1:2:2", "--output", output)
    return trtw("verify", MODEL, *words, *more)


def test_a_wrong_engine_has_exit_code_1_a_page_and_the_arrays_of_its_failure(tmp_path: Path) -> None:
    result = verify(tmp_path / "run", "rows after the first")
    assert result.exit_code == 1
    assert "shapes-yolov10.onnx: WRONG on faulty (fp32), 2 shapes beside ort-cpu" in result.stdout
    assert "batch=2, output output0" in result.stderr
    document = json.loads((tmp_path / "run" / "verify.json").read_text())
    assert document["verdict"] == "wrong"
    failure = tmp_path / "run" / "failures" / "001"
    found, expected = (np.load(failure / name / "output0.npy") for name in ("found", "expected"))
    assert np.allclose(found[0], expected[0], atol=1e-3)
    assert not np.allclose(found[1], expected[1], atol=1e-3)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "output0 at batch=2: wrong" in page
    assert "output0 at batch=1: right" in page


def test_the_page_is_made_again_and_the_overview_knows_the_run(tmp_path: Path) -> None:
    assert verify(tmp_path / "run", "rows after the first").exit_code == 1
    page = tmp_path / "run" / "report.html"
    before = page.read_text()
    page.unlink()
    result = trtw("report", tmp_path / "run", "--output", tmp_path / "all")
    assert result.exit_code == 0, result.output
    assert page.read_text() == before
    overview = (tmp_path / "all" / "overview.md").read_text()
    assert "faulty:fp32, shapes-yolov10.onnx at batch=2: wrong" in overview


def test_a_right_one_prints_one_json_document(tmp_path: Path) -> None:
    result = verify(tmp_path / "run", "", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["verdict"] == "right"
    assert document["directory"] == str(tmp_path / "run")


def test_want_of_memory_at_a_shape_has_exit_code_4_and_names_it(tmp_path: Path) -> None:
    words = ("--backend", "faulty", "--option", "fault=out of memory", "--quick", "--dim", "batch=1:2:16")
    result = trtw("verify", MODEL, *words, "--output", tmp_path / "run")
    assert result.exit_code == 4
    assert "is right but for batch=16: Out of memory on the device." in " ".join(result.stderr.split())


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


def test_a_way_around_is_shown_written_and_ends_with_exit_code_0(wrong_at_softmax: Path, tmp_path: Path) -> None:
    words = ("--backend", "faulty", "--quick", "--dim", "N=1:2:2", "--dim", "K=3", "--output", tmp_path / "run")
    result = trtw("verify", wrong_at_softmax, *words, "--fix", "--fix-out", tmp_path / "right.onnx")
    assert result.exit_code == 0, result.output
    assert "attention.onnx: WRONG on faulty" in result.stdout
    assert "Fixed by attention-softmax-spelled" in " ".join(result.stdout.split())
    document = json.loads((tmp_path / "run" / "fix" / "fix.json").read_text())
    assert document["chosen"] == "attention-softmax-spelled"
    assert document["plain_latency_ms"] > 0
    by_name = {row["way"]: row for row in document["tried"]}
    assert by_name["attention-mask-expanded"]["verdict"] == "wrong"
    assert by_name["attention-softmax-spelled"]["relative_latency"] > 0
    assert "attention-mask-in-keys" in document["not_tried"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<b>attention-softmax-spelled</b> makes it right" in page
    again = trtw("verify", tmp_path / "right.onnx", "--model", wrong_at_softmax, *words[:-1], tmp_path / "again")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "run" / "fix" / "attention-fixed.onnx").is_file()


def test_that_no_way_around_helps_is_said(tmp_path: Path) -> None:
    result = verify(tmp_path / "run", "rows after the first", "--fix")
    assert result.exit_code == 1
    assert "No way around makes it right." in " ".join(result.stderr.split())
    assert json.loads((tmp_path / "run" / "fix" / "fix.json").read_text())["chosen"] is None
    refused = verify(tmp_path / "other", "rows after the first", "--fix-out", tmp_path / "m.plan")
    assert refused.exit_code == 2
    assert "takes the name of a model" in " ".join(refused.stderr.split())
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--dim", "batch=3:2:1"), "1 <= low <= best <= high must hold"),
        (("--dim", "batch=x"), "--dim takes NAME=LOW:BEST:HIGH"),
        (("--dim", "size=1"), "no dynamic dimension 'size'"),
        (("--reference", "nothing"), "no backend called 'nothing'"),
        (("--inputs", "absent.npy"), "does not exist: absent.npy"),
        (("--precision", "fp3"), "fp3"),
    ],
)
def test_bad_usage_has_exit_code_2(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    result = trtw("verify", MODEL, "--backend", "ort-cpu", *words, "--output", tmp_path / "run")
    assert result.exit_code == 2, result.output
    assert text in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()
