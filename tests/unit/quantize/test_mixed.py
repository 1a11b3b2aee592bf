"""int8 and int8-mixed of a decision: what quantize makes, and what a search finds on what is not scored, and keeps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.quantize.planted import PLANTED, planted_data, planted_model

from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.subject import Subject, subject_of
from trt_workbench.model.low_precision.preparation import DoesNotApply
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.document import SearchDocument
from trt_workbench.quantize.making import Candidates
from trt_workbench.quantize.mixed import INT8_MIXED, MixedSearch
from trt_workbench.quantize.settings import CalibrationSettings, SearchSettings

BOUND = 0.001


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))


def make(
    folder: Path, search: MixedSearch | None, calibration: CalibrationSettings, notes: list[str] | None = None
) -> Any:
    note = (lambda _: None) if notes is None else notes.append
    model = Model.open(planted_model(folder / "m.onnx"))
    return Candidates(model, calibration, search=search, note=note).make(INT8_MIXED)


def mixed(seconds: float = 600, bound: float = BOUND) -> MixedSearch:
    return MixedSearch(SearchSettings(score="cosine", keep_score=bound), seconds, lambda _: None, lambda *_: None)


def test_the_search_makes_it_once_and_says_on_which_data(tmp_path: Path) -> None:
    calibration = planted_data(tmp_path)
    searches = [mixed(), mixed()]
    notes: list[list[str]] = [[], []]
    made = [make(tmp_path, *one) for one in zip(searches, [calibration] * 2, notes, strict=True)]
    assert made[0] == made[1]
    assert made[0].evidence.kept == {PLANTED: "chosen by the score"}
    assert searches[0].document == searches[1].document
    (words,) = notes[1]
    assert "1 of 4 groups kept in fp32" in words
    assert "on calibration data that are not scored here: " in words
    assert "too few samples to prove a loss of at most 0.001" in words


def test_int8_is_what_quantize_makes(tmp_path: Path) -> None:
    """decide quantised everything: YOLOX-Nano had an AP of 0.037 there, and of 0.346 by quantize."""
    model, calibration = Model.open(planted_model(tmp_path / "m.onnx")), planted_data(tmp_path)
    decided = Candidates(model, calibration).make("int8")
    made = make_candidate(model, "int8", tmp_path / "q.onnx", calibration=calibration)
    assert decided.evidence.kept == {"last": "it makes an output"}
    assert decided.path.read_bytes() == made.path.read_bytes()


@pytest.mark.parametrize(
    ("samples", "seconds", "bound", "words"),
    [
        (24, 0.0, BOUND, "its time was used up; the next call goes on"),
        (12, 600, BOUND, "6 in the half that is used"),
        (24, 600, 0.0, "The search found no int8-mixed that is shown to keep cosine better than int8"),
        (0, 0, BOUND, "int8-mixed needs a search. None was asked for"),
    ],
)
def test_there_is_no_int8_mixed_where_the_search_finds_nothing_better(
    tmp_path: Path, samples: int, seconds: float, bound: float, words: str
) -> None:
    search = mixed(seconds, bound) if samples else None
    with pytest.raises(DoesNotApply) as refusal:
        make(tmp_path, search, planted_data(tmp_path, samples or 24))
    assert words in str(refusal.value)
    if search:
        assert isinstance(search.document, SearchDocument) == (samples == 24)


def subject(folder: Path, calibration: CalibrationSettings, **changes: Any) -> Subject:
    np.save(folder / "scored.npy", np.random.default_rng(9).standard_normal((8, 4, 6, 6)).astype(np.float32))
    asked = DecideSettings(data=folder / "scored.npy", max_loss=0.25, **changes)
    return subject_of(planted_model(folder / "m.onnx"), asked, calibration, lambda _: None)


def test_the_search_has_the_bound_and_the_score_of_the_decision(tmp_path: Path) -> None:
    found = subject(tmp_path, planted_data(tmp_path), score="cosine")
    assert found.search == SearchSettings(score="cosine", keep_score=0.25)
    assert not found.task.overlap


@pytest.mark.parametrize("way", ["same file", "copy", "one sample"])
def test_no_search_sees_what_is_scored(tmp_path: Path, way: str) -> None:
    calibration = planted_data(tmp_path)
    subject(tmp_path, calibration)
    scored, path = np.load(tmp_path / "scored.npy"), tmp_path / "other.npy"
    if way == "same file":
        path = tmp_path / "scored.npy"
    else:
        mine = np.load(calibration.calibration or "")
        np.save(path, scored if way == "copy" else np.concatenate([mine, scored[3:4]]))
    found = subject(tmp_path, replace(calibration, calibration=str(path)))
    assert found.task.overlap
    assert found.search is None
    assert "a search must not see" in found.no_search


def test_no_search_where_none_was_asked_for_or_there_is_no_score(tmp_path: Path) -> None:
    calibration = planted_data(tmp_path)
    for changes in ({"search": False}, {"precisions": ("fp32", "int8")}):
        found = subject(tmp_path, calibration, **changes)
        assert (found.search, found.no_search) == (None, "")
    noise = subject(tmp_path, CalibrationSettings("random"))
    assert (noise.search, noise.no_search) == (None, "Noise gives no score.")
