"""What is scored, and whether a row runs what it is called."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx

from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workspace import ENCODER, embedded_contract, embedded_model
from trt_workbench.decide.tried import DraftRow
from trt_workbench.model.opened import Model
from trt_workbench.quantize.figures import METRICS, metric_for, metric_of
from trt_workbench.quantize.settings import CalibrationSettings
from trt_workbench.quantize.task import Detection, Likeness, WordsTask
from trt_workbench.stream import Spoken


def test_a_timed_call_has_the_dimensions_of_a_sample(tmp_path: Path) -> None:
    text = "g (int64[batch,sequence] ids, float[batch,3] x) => (int64[batch,sequence] y) { y = Abs(ids) }"
    model = write_onnx(tmp_path / "m.onnx", text)
    np.savez(tmp_path / "a.npz", ids=np.zeros((9, 17), np.int64), x=np.zeros((9, 3), np.float32))
    task = Likeness(Model.open(model), CalibrationSettings(calibration=str(tmp_path / "a.npz")))
    assert task.sizes() == {"kind": "arrays", "dims": {"sequence": 17}}
    assert Detection(tmp_path, tmp_path, preparation=Preparation(imgsz=(64, 96))).sizes()["imgsz"] == (64, 96)
    assert Detection(tmp_path, tmp_path).sizes() == {"kind": "arrays"}


def test_utterances_are_compared_as_a_model_is_fed_them(tmp_path: Path) -> None:
    document = json.loads(embedded_contract().read_text())
    document["chunking"]["normalize"] = "window"
    (tmp_path / "c.json").write_text(json.dumps(document))
    shutil.copy(embedded_contract().with_name("tokens.txt"), tmp_path)
    task = WordsTask(Spoken(tmp_path / "c.json", "code"), limit=2)
    pieces = [one["audio_signal"] for one in task.samples_of(Model.open(embedded_model(ENCODER)))]
    assert len(pieces) > 20
    assert max(abs(float(one.mean())) for one in pieces) < 1e-3
    assert task.sizes() == {"kind": "stream"}


@pytest.mark.parametrize(
    ("precision", "shares", "weights", "misses"),
    [
        ("int8-mixed", {"int8": 0.8, "fp32": 0.2}, {}, False),
        ("fp16", {"fp32": 1.0}, {}, True),
        ("nvfp4", {"nvfp4": 0.7, "fp32": 0.3}, {}, False),
        ("int4-weights", {"fp32": 1.0}, {"int4": 0.9}, False),
        ("fp32", {"fp16": 1.0}, {}, False),
    ],
)
def test_what_a_graph_does_not_compute_in_is_no_candidate_of_it(
    precision: str, shares: dict[str, float], weights: dict[str, float], misses: bool
) -> None:
    ran: dict[str, Any] = {"source": "graph", "shares": shares, "weight_shares": weights}
    assert DraftRow(precision, "ort-cpu", provenance={"precision_ran": ran}).misses is misses
    # an engine whose layers compute in nothing of what was asked for is no candidate either
    engine = {**ran, "source": "engine layers"}
    assert DraftRow(precision, "trt", provenance={"precision_ran": engine}).misses is misses


def test_every_score_is_a_metric_by_its_name() -> None:
    assert list(METRICS) == ["ap", "top1", "cosine", "perplexity", "wer"]
    assert all(one.kind == kind and one.name and one.of and callable(one.read) for kind, one in METRICS.items())
    own = metric_of("a/b.py:mine", "lower")
    assert (own.name, own.takes_targets, own.is_share, own.elsewhere) == ("mine", True, False, "")
    assert metric_of(None) is METRICS["ap"]


@pytest.mark.parametrize(("usual", "asked"), [("cosine", "ap"), ("wer", "top1"), ("ap", "wer"), ("ap", "a.py:mine")])
def test_a_score_of_other_data_is_refused(usual: str, asked: str) -> None:
    with pytest.raises(UsageProblem, match=f"--score {asked} is of "):
        metric_for(METRICS[usual], asked)
    assert metric_for(METRICS[usual], None) is METRICS[usual]


def test_a_model_without_classes_is_refused_before_it_is_run(tmp_path: Path) -> None:
    model = write_onnx(tmp_path / "m.onnx", "g (float[n,3,4,4] x) => (float[n,3,4,4] y) { y = Relu(x) }")
    np.save(tmp_path / "x.npy", np.zeros((9, 3, 4, 4), np.float32))
    samples = CalibrationSettings(calibration=str(tmp_path / "x.npy"))
    with pytest.raises(UsageProblem, match="top1 needs a first float output of shape"):
        Likeness.checked(Model.open(model), samples, METRICS["top1"])
    assert Likeness.checked(Model.open(model), samples, METRICS["cosine"]).keep == ("cosine",)
