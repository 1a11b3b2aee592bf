"""What is scored, and whether a row runs what it is called."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx

from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.decide.tried import DraftRow
from trt_workbench.model.opened import Model
from trt_workbench.quantize.figures import METRICS, PLUGGED, metric_for, metric_of
from trt_workbench.quantize.settings import CalibrationSettings
from trt_workbench.quantize.task import Detection, Likeness


def test_a_timed_call_has_the_dimensions_of_a_sample(tmp_path: Path) -> None:
    text = "g (int64[batch,sequence] ids, float[batch,3] x) => (int64[batch,sequence] y) { y = Abs(ids) }"
    model = write_onnx(tmp_path / "m.onnx", text)
    np.savez(tmp_path / "a.npz", ids=np.zeros((9, 17), np.int64), x=np.zeros((9, 3), np.float32))
    task = Likeness(Model.open(model), CalibrationSettings(calibration=str(tmp_path / "a.npz")))
    assert task.sizes() == {"kind": "arrays", "dims": {"sequence": 17}}
    assert Detection(tmp_path, tmp_path, preparation=Preparation(imgsz=(64, 96))).sizes()["imgsz"] == (64, 96)
    assert Detection(tmp_path, tmp_path).sizes() == {"kind": "arrays"}


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
    assert [*METRICS, *PLUGGED] == ["ap", "top1", "cosine", "perplexity", "wer"]
    for kind, one in {**METRICS, **{kind: metric_of(kind) for kind in PLUGGED}}.items():
        assert one.kind == kind
        assert one.name
        assert one.of
        assert callable(one.read)
    own = metric_of("a/b.py:mine", "lower")
    assert (own.name, own.takes_targets, own.is_share, own.elsewhere) == ("mine", True, False, "")
    assert metric_of(None) is METRICS["ap"]


@pytest.mark.parametrize(("usual", "asked"), [("cosine", "ap"), ("wer", "top1"), ("ap", "wer"), ("ap", "a.py:mine")])
def test_a_score_of_other_data_is_refused(usual: str, asked: str) -> None:
    with pytest.raises(UsageProblem, match=f"--score {asked} is of "):
        metric_for(metric_of(usual), asked)
    assert metric_for(metric_of(usual), None) is metric_of(usual)


def test_a_model_without_classes_is_refused_before_it_is_run(tmp_path: Path) -> None:
    model = write_onnx(tmp_path / "m.onnx", "g (float[n,3,4,4] x) => (float[n,3,4,4] y) { y = Relu(x) }")
    np.save(tmp_path / "x.npy", np.zeros((9, 3, 4, 4), np.float32))
    samples = CalibrationSettings(calibration=str(tmp_path / "x.npy"))
    with pytest.raises(UsageProblem, match="top1 needs a first float output of shape"):
        Likeness.checked(Model.open(model), samples, METRICS["top1"])
    assert Likeness.checked(Model.open(model), samples, METRICS["cosine"]).keep == ("cosine",)
