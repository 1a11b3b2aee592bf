"""`trtw verify` as a program: exit codes, its page, its run in the overview."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests import faulty_backend
from tests.attention_model import attention_model
from typer.testing import CliRunner, Result

from trt_workbench.backends import registry
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


def bisect(model: Path, output: Path, fault: str, *more: object) -> Result:
    words = ("--backend", "graph-fault", "--option", f"fault={fault}", "--quick", "--dim", "N=1:2:2", "--bisect")
    return trtw("verify", model, *words, "--output", output, *more)


@pytest.fixture
def attention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    entry = registry._Entry("tests.graph_fault_backend", "GraphFaultBackend")
    monkeypatch.setitem(registry._BACKENDS, "graph-fault", entry)
    return attention_model(tmp_path / "attention.onnx", layers=1)


def test_bisect_names_the_nodes_and_a_later_call_goes_on(attention: Path, tmp_path: Path) -> None:
    result = bisect(attention, tmp_path / "run", "masked attention")
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "Bisected at N=2 in " in text
    assert "wrong by themselves: Add /add_26, Softmax /softmax_27, MatMul /matmul_35" in text
    assert "attention.onnx is wrong" in result.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    assert "/softmax_27" in page
    assert "bisect/reproduce.py" in page

    again = bisect(attention, tmp_path / "run", "masked attention", "--json")
    assert again.exit_code == 1
    found = json.loads(again.stdout)["bisect"]
    assert [node["operator"] for node in found["nodes"]] == ["Add", "Softmax", "MatMul"]
    assert found["trials_repeated"] == found["trials"] > 0
    assert found == json.loads((tmp_path / "run" / "bisect" / "bisect.json").read_text())


def test_bisect_of_a_right_model_says_that_nothing_is_wrong(attention: Path, tmp_path: Path) -> None:
    result = bisect(attention, tmp_path / "run", "")
    assert result.exit_code == 0, result.output
    assert "RIGHT on graph-fault" in result.stdout
    assert "Nothing is wrong, so there was nothing to bisect." in result.stdout
    assert not (tmp_path / "run" / "bisect").exists()


def test_bisect_without_time_says_how_to_go_on(attention: Path, tmp_path: Path) -> None:
    result = bisect(attention, tmp_path / "run", "single", "--bisect-seconds", "0")
    assert result.exit_code == 1
    assert "the time was over before the fault was seen again" in " ".join(result.stdout.split())


def test_want_of_memory_at_a_shape_has_exit_code_4_and_names_it(tmp_path: Path) -> None:
    words = ("--backend", "faulty", "--option", "fault=out of memory", "--quick", "--dim", "batch=1:2:16")
    result = trtw("verify", MODEL, *words, "--output", tmp_path / "run")
    assert result.exit_code == 4
    assert "is right but for batch=16: Out of memory on the device." in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--dim", "batch=3:2:1"), "1 <= low <= best <= high must hold"),
        (("--dim", "batch=x"), "--dim takes NAME=LOW:BEST:HIGH"),
        (("--dim", "size=1"), "no dynamic dimension 'size'"),
        (("--reference", "nothing"), "no backend called 'nothing'"),
        (("--inputs", "absent.npy"), "does not exist: absent.npy"),
        (("--precision", "fp3"), "fp3"),
        (("--bisect", "--reference", "none"), "leave out --reference none"),
    ],
)
def test_bad_usage_has_exit_code_2(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    result = trtw("verify", MODEL, "--backend", "ort-cpu", *words, "--output", tmp_path / "run")
    assert result.exit_code == 2, result.output
    assert text in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()
