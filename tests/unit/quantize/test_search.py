"""The search leaves the planted group alone and nothing else, keeps the bound on held-out data, and goes on."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.texts import refused
from tests.unit.quantize.planted import PLANTED, planted_data, planted_model

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core import work
from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.low_precision.evidence import Evidence, digits_for
from trt_workbench.model.opened import Model
from trt_workbench.quantize import sensitivity
from trt_workbench.quantize.data import calibration_data
from trt_workbench.quantize.document import GroupLoss
from trt_workbench.quantize.search import Search, SearchResult, ranked
from trt_workbench.quantize.settings import ArrayMetric, PlacementSettings, SearchSettings

BOUND = 0.001


def search(folder: Path, notes: list[str] | None = None, bound: float = BOUND, score: Any = "cosine") -> Search:
    model = planted_model(folder / "m.onnx")
    settings = SearchSettings(score=score, keep_score=bound)
    said = [] if notes is None else notes
    output, data = folder / "out" / "m.int8.onnx", planted_data(folder)
    return Search(
        Model.open(model), "int8", output, data, PlacementSettings(), settings, said.append, lambda _: lambda *_: None
    )


def plain(found: SearchResult) -> dict[str, Any]:
    document = found.document.model_dump(
        exclude={"candidate": True, "wall_s": True, "sensitivity": {"wall_s", "model"}}
    )
    assert found.document.wall_s > 0
    assert found.document.sensitivity.wall_s > 0
    return document


def test_the_planted_group_is_left_alone_and_the_bound_holds(tmp_path: Path) -> None:
    one = search(tmp_path)
    found = one.run()
    assert found.candidate is not None
    evidence = read_document(tmp_path / "out" / "m.int8.json", Evidence)
    assert evidence.kept == {PLANTED: "chosen by the score"}
    assert evidence.search == found.document.evidence
    chosen = found.document.evidence.chosen
    assert chosen.kept == 1
    began = found.document.evidence.began
    assert (began.kept, began in found.document.evidence.curve) == (1, True)  # the output, as quantize keeps it
    assert began.loss > 0.01
    assert chosen.low_macs > began.low_macs - 0.1
    assert found.document.order[0] == PLANTED
    # by hand, on the half that gave no ranges
    held_out = np.stack([sample["x"] for sample in calibration_data(one.model, one.calibration, 1).read()])
    assert evidence.calibration.samples == len(held_out) == found.document.evidence.samples == 12
    outputs = []
    for path in (one.model.path, found.candidate.path):
        with OrtCpuBackend().load(path, SessionOptions()) as session:
            outputs.append(session.run({"x": held_out})["z"].reshape(12, -1).astype(np.float64))
    product = (outputs[0] * outputs[1]).sum(axis=1)
    cosine = product / np.linalg.norm(outputs[0], axis=1) / np.linalg.norm(outputs[1], axis=1)
    apart = np.linalg.norm(outputs[1] - outputs[0], axis=1) / np.linalg.norm(outputs[0], axis=1)
    like = np.minimum(cosine, 1 - apart**2 / 2)
    assert 1 - like.mean() == pytest.approx(chosen.loss, rel=1e-3)
    assert chosen.loss <= BOUND


def test_a_candidate_that_the_runtime_refuses_is_named_by_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, one = Search._score, search(tmp_path)

    def score(self: Search, scorer: Any, model: Path, *rest: Any) -> Any:
        if model != one.model.path:
            raise UsageProblem(f"ONNX Runtime cannot load the model: {model}")
        return real(self, scorer, model, *rest)

    monkeypatch.setattr(Search, "_score", score)
    with refused(UsageProblem):
        one.run()


@pytest.mark.long
def test_it_is_the_same_again_by_its_seed(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    first, second = (plain(search(folder).run()) for folder in folders)
    assert first == second


def alike(found: Any, expected: Any) -> tuple[float, ...]:
    """Stand in for the agreement of classes, which images do not have."""
    return tuple(
        float(np.abs(one - other).max() < np.abs(other).max() / 2) for one, other in zip(found, expected, strict=True)
    )


@pytest.mark.long
def test_a_search_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = sensitivity.make_candidate

    def counted(*args: Any, **settings: Any) -> Any:
        made.append(len(settings["placement"].keep))
        if made == [1, 3]:
            raise KeyboardInterrupt
        return real(*args, **settings)

    monkeypatch.setattr(sensitivity, "make_candidate", counted)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        search(tmp_path).run()
    assert "What was tried is kept; the same command goes on from there" in interrupt.value.__notes__[0]
    measured = []
    monkeypatch.setattr("trt_workbench.quantize.search.measure_sensitivity", lambda *args, **_: measured.append(args))
    notes: list[str] = []
    found = search(tmp_path, notes).run()
    assert made == [1, 3, 3, 2, 1, 1]  # the first is not made again; the last is the one that is kept
    assert not measured
    assert [point.kept for point in found.document.evidence.curve] == [1, 1, 2, 3]
    assert any(" s left" in note for note in notes)
    again = search(tmp_path).run()
    assert made[6:] == [1]
    assert plain(again) == plain(found)
    monkeypatch.setattr(ArrayMetric, "ready", lambda self, *_: self)  # of images
    monkeypatch.setattr("trt_workbench.quantize.figures._top1", alike)
    search(tmp_path, score="top1").run()
    assert made[7:8] == [1]  # another score is another trial


@pytest.mark.long
@pytest.mark.parametrize("harm", ["loss", "cut", "bytes"])
def test_kept_trials_that_changed_are_made_anew(tmp_path: Path, harm: str) -> None:
    """A loss that was edited in a trial was believed."""
    first = search(tmp_path).run()
    files = sorted(search(tmp_path).trials.iterdir())
    before = [file.read_bytes() for file in files]
    for file in files:
        text = file.read_text()
        edited = re.sub(r'"(loss|noise)": *[-\d.e]+', r'"\1": 0.06', text)
        assert edited != text
        file.write_text({"loss": edited, "cut": text[:-20], "bytes": "\x00" * 9}[harm])
    notes: list[str] = []
    again = search(tmp_path, notes).run()
    assert plain(again) == plain(first)
    assert sum("damaged or changed since it was written; it is created again" in note for note in notes) == len(files)
    if harm == "loss":  # times apart, as they were
        assert len(before) == len(sorted(search(tmp_path).trials.iterdir()))


@pytest.mark.long
def test_other_data_are_other_trials(tmp_path: Path) -> None:
    search(tmp_path).run()
    trials = len(list((tmp_path / "out" / "m.int8.trials").iterdir()))
    other = search(tmp_path)
    np.save(other.calibration.calibration or "", np.load(other.calibration.calibration or "")[::-1])
    other.run()
    assert len(list(other.trials.iterdir())) == 2 * trials


@pytest.mark.long
def test_trials_of_another_processor_or_version_are_other_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search(tmp_path).run()
    trials = len(list((tmp_path / "out" / "m.int8.trials").iterdir()))
    monkeypatch.setattr(work, "cpu_report", lambda: {"model": "another"})
    search(tmp_path).run()
    assert len(list((tmp_path / "out" / "m.int8.trials").iterdir())) == 2 * trials
    monkeypatch.setattr(work, "installed_packages", lambda: {"onnxruntime": "0.1"})
    search(tmp_path).run()
    assert len(list((tmp_path / "out" / "m.int8.trials").iterdir())) == 3 * trials


def test_nothing_is_written_where_nothing_keeps_the_bound(tmp_path: Path) -> None:
    found = search(tmp_path, bound=0.0).run()
    assert found.candidate is None
    assert found.document.evidence.chosen is None
    assert found.document.evidence.curve[-1].kept == 3
    assert not (tmp_path / "out" / "m.int8.onnx").exists()


def test_noise_gives_no_score(tmp_path: Path) -> None:
    one = search(tmp_path)
    one.calibration = type(one.calibration)(calibration="random")
    with refused(UsageProblem):
        one.run()


def test_the_output_is_looked_at_first(tmp_path: Path) -> None:
    one = search(tmp_path)
    one.output = one.model.path
    with refused(UsageProblem):
        one.run()
    assert not one.trials.exists()


def test_groups_are_ranked_by_noise_for_their_cost() -> None:
    groups = [
        GroupLoss(name=name, op_type="Conv", macs_share=share, weights_share=0, noise=noise, sqnr_db=None)
        for name, share, noise in (("large", 0.8, 0.4), ("cheap", 0.1, 0.3), ("quiet", 0.1, 0.0))
    ]
    assert [group.name for group in ranked(groups)] == ["cheap", "large", "quiet"]


@pytest.mark.parametrize(("bound", "digits"), [(0.005, 4), (0.01, 4), (0.0005, 5), (0.00003, 6), (0.0, 6), (1.0, 4)])
def test_losses_are_told_with_digits_that_tell_them_from_the_bound(bound: float, digits: int) -> None:
    """A bound of 0.00003 once stood beside losses of 0.0000, of which some kept it."""
    assert digits_for(bound) == digits


def test_a_small_bound_is_told_from_the_losses(tmp_path: Path) -> None:
    notes: list[str] = []
    search(tmp_path, notes, bound=0.00001).run()
    assert all(re.search(r"loss -?\d\.\d{6} ", note) for note in notes if "kept in fp32" in note)
    assert any("kept in fp32" in note for note in notes)
