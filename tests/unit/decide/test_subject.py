"""Which models a decision can be made about."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.decide.test_overlap import pictures

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workspace import embedded_model
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.subject import subject_of
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.held_out import labels_of
from trt_workbench.quantize.settings import CalibrationSettings, SearchSettings
from trt_workbench.quantize.task import Detection
from trt_workbench.vision.scenes import dataset
from trt_workbench.vision.scenes.dataset import write_crops


@pytest.mark.parametrize("to", ["int8", "fp16"])
def test_a_model_in_a_low_precision_is_no_baseline(tmp_path: Path, to: str) -> None:
    text = "g (float[n,8] x) => (float[n,8] y) { y = MatMul(x, w) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    low = tmp_path / "low.onnx"
    make_candidate(Model.open(path), to, low, calibration=CalibrationSettings(calibration="random"))  # type: ignore[arg-type]
    np.save(tmp_path / "a.npy", np.ones((8, 8), np.float32))
    with refused(UsageProblem):
        subject_of(low, DecideSettings(data=tmp_path / "a.npy"), CalibrationSettings(), lambda _: None)


def test_a_detector_is_searched_on_calibration_images_that_have_annotations(tmp_path: Path) -> None:
    scored, other, annotations = pictures(tmp_path)
    calibration = CalibrationSettings(calibration=str(other))
    asked = DecideSettings(data=scored, annotations=annotations, max_loss=0.01)
    without = subject_of(embedded_model(), asked, calibration, lambda _: None)
    assert without.search is None
    assert "--calibration-annotations" in without.no_search
    asked = replace(asked, calibration_annotations=annotations)
    found = subject_of(embedded_model(), asked, calibration, lambda _: None)
    assert found.search == SearchSettings(annotations=annotations, keep_score=0.01)
    with refused(UsageProblem):
        subject_of(embedded_model(), asked, CalibrationSettings(), lambda _: None)


def test_an_embedded_classifier_is_scored_on_its_own_objects_and_searched_on_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path))
    monkeypatch.setattr(dataset, "write_crops", lambda folder, _, seed: write_crops(folder, 4, seed))
    model = embedded_model("shapes-classifier")
    found = subject_of(model, DecideSettings(), CalibrationSettings(), lambda _: None)
    assert isinstance(found.task, Detection)
    assert found.search
    assert not found.task.overlap
    assert found.task.images != found.search.annotations


def test_a_data_set_is_scored_by_its_split_and_searched_on_another(tmp_path: Path) -> None:
    scored, other, _ = pictures(tmp_path)
    for folder in (scored, other):
        (folder / "0.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    described = tmp_path / "data.yaml"
    described.write_text("test: scored\ntrain: other\nnames: [a]\n")
    asked = DecideSettings(data=described, split="test", calibration_annotations=described)
    notes: list[str] = []
    found = subject_of(embedded_model(), asked, CalibrationSettings(calibration=str(other)), notes.append)
    assert isinstance(found.task, Detection)
    assert (found.task.annotations, found.task.split, found.task.overlap) == (described, "test", False)
    assert notes == [f"Data: {described}, split test"]
    assert len(list(found.task.samples_of(Model.open(embedded_model())))) == 3
    assert found.search is not None
    labels = labels_of(found.search, found.calibration)
    assert (labels.folder, labels.split) == (other, "train")
    asked = replace(asked, calibration_annotations=None)
    subject_of(embedded_model(), asked, CalibrationSettings(), notes.append)  # ranges of what is scored
    assert f"--calibration {described} finds ranges on its split train" in notes[-1]
    with refused(UsageProblem):
        subject_of(embedded_model(), DecideSettings(data=scored, split="test"), CalibrationSettings(), notes.append)


def test_ranges_are_found_on_the_images_that_a_data_set_names(tmp_path: Path) -> None:
    """Links are followed there, and texts that lie about are no samples."""
    scored, _, _ = pictures(tmp_path)
    (scored / "0.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "images").symlink_to(scored)
    (folder / "README.txt").touch()
    (folder / "data.yaml").write_text("val: images\nnames: [a]\n")
    found = subject_of(embedded_model(), DecideSettings(data=folder), CalibrationSettings(), lambda _: None)
    assert Path(found.calibration.calibration or "").resolve() == scored
    assert found.task.overlap


@pytest.mark.parametrize(("data", "overlap"), [(None, True), ("./a.npy", True), ("b.npy", False)])
def test_ranges_found_on_what_is_scored_are_an_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str | None, *, overlap: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_onnx(tmp_path / "m.onnx", "g (float[n,8] x) => (float[n,8] y) { y = Relu(x) }")
    for value, name in enumerate(("a.npy", "b.npy")):
        np.save(name, np.full((8, 8), value, np.float32))
    asked = DecideSettings(data=tmp_path / "a.npy")
    found = subject_of(path, asked, CalibrationSettings(calibration=data), lambda _: None)
    assert found.task.overlap == overlap


@pytest.mark.parametrize(("score", "annotated"), [("cosine", False), ("s.py:mine", True)])
@pytest.mark.usefixtures("forked_python")
def test_targets_of_the_calibration_reach_the_search_of_a_function_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, score: str, *, annotated: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_onnx(tmp_path / "m.onnx", "g (float[n,8] x) => (float[n,8] y) { y = Relu(x) }")
    Path("s.py").write_text("def mine(outputs, target):\n    return 1.0\nmine.better = 'higher'\n")
    for value, name in enumerate(("a.npz", "b.npz")):
        np.savez(name, x=np.full((32, 8), value, np.float32), t=np.ones(32))
    given = None if not annotated else tmp_path / "b.npz"
    asked = DecideSettings(data=tmp_path / "a.npz", score=score, calibration_annotations=tmp_path / "b.npz")
    found = subject_of(path, asked, CalibrationSettings(calibration="b.npz"), lambda _: None)
    assert found.search == SearchSettings(annotations=given, score=score, keep_score=0.005)


def test_a_batch_that_is_not_first_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[t,batch,4] x) => (float[t,batch,4] y) { y = Relu(x) }")
    np.save(tmp_path / "a.npy", np.ones((9, 9, 4), np.float32))
    asked = DecideSettings(data=tmp_path / "a.npy", precisions=("fp32", "fp16"))
    with refused(UsageProblem):
        subject_of(path, asked, CalibrationSettings(), lambda _: None)


@pytest.mark.parametrize(
    ("output", "kept"),
    [("batch,seq,8", True), ("batch,seq,7", False), ("batch,8", False), ("batch,seq,words", True)],
)
def test_a_perplexity_without_logits_is_refused_before_anything_is_made(
    tmp_path: Path, output: str, kept: bool
) -> None:
    """Hidden states of an encoder have the shape of logits, and fewer entries than there are words."""
    text = f"g (int64[batch,seq] input_ids) => (float[{output}] y) {{ y = Gather(w, input_ids) }}"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    np.savez(tmp_path / "ids.npz", input_ids=np.full((16, 4), 7))
    settings = DecideSettings(data=tmp_path / "ids.npz", score="perplexity")
    with nullcontext() if kept else refused(UsageProblem):
        subject_of(path, settings, CalibrationSettings(), print)


def test_data_that_are_absent_are_named_by_their_option(tmp_path: Path) -> None:
    asked = DecideSettings(data=tmp_path / "none.npy")
    with refused(UsageProblem):
        subject_of(embedded_model(), asked, CalibrationSettings(calibration="random"), lambda _: None)


@pytest.mark.parametrize("shape", [(3, 8), (9, 5)])
def test_data_that_cannot_be_scored_are_refused_before_anything_is_made(tmp_path: Path, shape: tuple[int, int]) -> None:
    text = "g (float[n,8] x) => (float[n,8] y) { y = MatMul(x, w) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    np.save(tmp_path / "a.npy", np.ones(shape, np.float32))
    np.save(tmp_path / "c.npy", np.ones((9, 8), np.float32))
    with refused(UsageProblem) as caught:
        subject_of(
            path,
            DecideSettings(data=tmp_path / "a.npy"),
            CalibrationSettings(calibration=str(tmp_path / "c.npy")),
            lambda _: None,
        )
    assert "a.npy" in str(caught.value)
    assert "alibration" not in str(caught.value)  # nor are they called so


def test_a_threshold_of_what_has_none_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    pictures(tmp_path)[2].unlink()
    asked = DecideSettings(data=tmp_path, keep=("AP", "f1@0.25"))
    text = "g (float[1,3,8,8] x) => (float[1,2] y) { m = ReduceMean<axes=[2,3], keepdims=0>(x) y = MatMul(m, w) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.ones((3, 2), np.float32)})
    given = CalibrationSettings(family="classifier", normalize="none", channel_order="rgb", classes="by-order")
    with pytest.raises(UsageProblem, match=r"--keep f1@0.25: classification has no threshold; --keep AP"):
        subject_of(path, asked, given, lambda _: None)


def test_a_split_reaches_the_data_set_or_is_refused(tmp_path: Path) -> None:
    scored, other, annotations = pictures(tmp_path)
    calibration = CalibrationSettings(calibration=str(other))
    asked = DecideSettings(data=scored, annotations=annotations, split="train")
    with pytest.raises(UsageProblem, match="A file of this form has no splits; remove --split"):
        subject_of(embedded_model(), asked, calibration, lambda _: None)
    with pytest.raises(UsageProblem, match="--split needs --data"):
        subject_of(embedded_model(), DecideSettings(split="train"), calibration, lambda _: None)
    (tmp_path / "data.yaml").write_text(f"path: {tmp_path}\ntrain: absent\nval: {scored.name}\nnames: [a]\n")
    asked = DecideSettings(data=scored, annotations=tmp_path / "data.yaml", split="train")
    with pytest.raises(UsageProblem, match="absent"):  # and not the images of val
        subject_of(embedded_model(), asked, calibration, lambda _: None)
