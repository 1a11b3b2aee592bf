"""int8-mixed of a decision: found by search on what is not scored, kept, and left to the rule where that cannot be."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.quantize.planted import PLANTED, planted_data, planted_model

from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.subject import Subject, subject_of
from trt_workbench.model.opened import Model
from trt_workbench.quantize.document import SearchDocument
from trt_workbench.quantize.making import Candidates
from trt_workbench.quantize.mixed import INT8_MIXED, MixedSearch
from trt_workbench.quantize.settings import CalibrationSettings, SearchSettings

BOUND = 0.001


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))


def make(folder: Path, search: MixedSearch | None, calibration: CalibrationSettings) -> Any:
    return Candidates(Model.open(planted_model(folder / "m.onnx")), calibration, search=search).make(INT8_MIXED)


def mixed(seconds: float = 600, bound: float = BOUND) -> MixedSearch:
    return MixedSearch(SearchSettings(score="cosine", keep_score=bound), seconds, lambda _: None, lambda *_: None)


def test_the_search_makes_it_once_and_says_on_which_data(tmp_path: Path) -> None:
    calibration = planted_data(tmp_path)
    searches = [mixed(), mixed()]
    made = [make(tmp_path, search, calibration) for search in searches]
    assert made[0] == made[1]
    assert made[0].evidence.kept == {PLANTED: "chosen by the score"}
    assert searches[0].document == searches[1].document
    (words,) = searches[1].words
    assert "1 of 4 groups kept in fp32" in words
    assert "On 12 samples of the calibration data that are not scored here the loss of cosine is" in words
    assert "allowed is 0.001" in words
    # by the rule the last one stays, as it makes an output
    assert make(tmp_path, None, calibration).evidence.kept == {"last": "it makes an output"}


@pytest.mark.parametrize(
    ("samples", "seconds", "bound", "words"),
    [
        (24, 0.0, BOUND, "was stopped after 0 s"),
        (12, 600, BOUND, "6 in the half that is used"),
        (24, 600, 0.0, "keeps cosine within 0 on 12 samples"),
    ],
)
def test_what_is_known_to_lose_most_where_the_search_finds_nothing(
    tmp_path: Path, samples: int, seconds: float, bound: float, words: str
) -> None:
    search = mixed(seconds, bound)
    made = make(tmp_path, search, planted_data(tmp_path, samples))
    assert made.evidence.kept == {"last": "it makes an output"}
    assert made.evidence.search is None
    assert words in " ".join(search.words)
    assert " ".join(search.words).endswith(". It keeps in fp32 the groups that are known to lose most.")
    # only a search that ended has a curve to be shown
    assert isinstance(search.document, SearchDocument) == (bound == 0)


def subject(folder: Path, calibration: CalibrationSettings, **changes: Any) -> Subject:
    np.save(folder / "scored.npy", np.random.default_rng(9).standard_normal((8, 4, 6, 6)).astype(np.float32))
    asked = DecideSettings(data=folder / "scored.npy", max_loss=0.25, **changes)
    return subject_of(planted_model(folder / "m.onnx"), asked, calibration, lambda _: None)


def test_the_search_has_the_bound_and_the_score_of_the_decision(tmp_path: Path) -> None:
    found = subject(tmp_path, planted_data(tmp_path), score="top1")
    assert found.search == SearchSettings(score="top1", keep_score=0.25)
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
