"""How like the float model's the outputs of candidates are, on arrays."""

from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import trtw
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends import overflow
from trt_workbench.backends.ort.cpu import OrtCpuSession
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.figures import COSINE, metric_of, score_arrays
from trt_workbench.quantize.scores import ResampledScore
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings

GENERATOR = np.random.default_rng(5)
WEIGHTS = {
    "w": GENERATOR.standard_normal((16, 24)).astype(np.float32),
    "v": GENERATOR.standard_normal((24, 10)).astype(np.float32),
}
TEXT = "g (float[batch,16] x) => (float[batch,10] y) { h = MatMul(x, w) r = Relu(h) y = MatMul(r, v) }"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    np.save(tmp_path / "data.npy", GENERATOR.standard_normal((40, 16)).astype(np.float32))
    return write_onnx(tmp_path / "m.onnx", TEXT, WEIGHTS)


def score(model: Path, name: str, source: Path | None = None, baseline: Path | None = None, **changes: Any) -> Path:
    folder = model.parent / name
    folder.mkdir()
    values = {
        "model": str(model), "source": str(source or model), "folder": str(folder), "backend": "ort-cpu",
        "baseline": None if baseline is None else str(baseline), "precision": "fp32", "batch": 7,
        "options": {}, "shapes": None, "half": None, "score": asdict(COSINE), "annotations": None,
        "data": asdict(CalibrationSettings(calibration=str((source or model).parent / "data.npy"), samples=30)),
        "allow_unverified": False,
    }  # fmt: skip
    score_arrays({**values, **changes})
    return folder


def array_scores(folder: Path, kind: str, seed: int) -> ResampledScore:
    return metric_of(kind).read(folder, seed)


def test_a_candidate_beside_the_float_model(model: Path) -> None:
    baseline = score(model, "base")
    data = CalibrationSettings(calibration=str(model.parent / "data.npy"))
    candidate = make_candidate(
        Model.open(model), "int8", model.with_name("m.int8.onnx"), calibration=data,
        placement=PlacementSettings(keep_sensitive=False),
    )  # fmt: skip
    lower = score(candidate.path, "int8", model, baseline)
    own = array_scores(baseline, "cosine", 0)
    made = array_scores(lower, "cosine", 0).against(own)
    assert own.value == 1
    assert own.count == 30
    assert 0 < made.loss < 0.01
    low, high = made.loss_ci95 or (0, 0)
    assert 0 < low < made.loss < high
    assert 0 < (made.figures["relative_l2"] or 0) < 0.2
    agreement = array_scores(lower, "top1", 0)
    assert 0.8 <= agreement.value <= 1
    assert agreement.value * 30 == pytest.approx(round(agreement.value * 30))


def test_a_model_is_let_go_of_before_it_is_loaded_again(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What says what it computes in, and what overflows, loads it once more: three at once do not fit into memory."""
    half = make_candidate(Model.open(model), "fp16", model.with_name("m.fp16.onnx"))
    closed = []
    for name in ("_optimised", "_close"):
        own = getattr(OrtCpuSession, name)
        monkeypatch.setattr(OrtCpuSession, name, lambda self, own=own, name=name: (closed.append(name), own(self))[1])
    monkeypatch.setattr(overflow, "explained_of", lambda *_: closed.append("explained_of") or "")
    baseline = score(model, "base")
    assert closed == ["_close", "_optimised"]
    closed.clear()
    score(half.path, "half", model, baseline)
    assert closed == ["_close", "explained_of"]


def test_figures_are_those_of_the_definition(model: Path) -> None:
    """A model whose outputs are twice as long and have two entries exchanged."""
    baseline = score(model, "base")
    other = write_onnx(
        model.with_name("n.onnx"),
        TEXT.replace("y =", "t =").replace("t = MatMul(r, v)", "t = MatMul(r, v) y = Add(t, t)"),
        WEIGHTS,
    )
    found = array_scores(score(other, "twice", model, baseline), "cosine", 0)
    assert found.figures["cosine"] == pytest.approx(1)
    assert found.value == pytest.approx(0.5)  # a wrong scale counts
    assert found.figures["relative_l2"] == pytest.approx(1)
    assert found.figures["top1"] == 1
    negative = write_onnx(
        model.with_name("o.onnx"), TEXT.replace("y = MatMul(r, v)", "t = MatMul(r, v) y = Neg(t)"), WEIGHTS
    )
    opposite = array_scores(score(negative, "opposite", model, baseline), "cosine", 0)
    assert opposite.value == pytest.approx(-1)
    assert opposite.figures["top1"] == 0


def test_samples_that_all_agree_leave_room_for_others(model: Path) -> None:
    """30 of 30 say little of a thousandth; draws of them all agree, too."""
    baseline = score(model, "base")
    same = array_scores(score(model, "same", model, baseline), "top1", 0)
    made = same.against(array_scores(baseline, "top1", 0))
    most = 1 - 0.025 ** (1 / 30)  # Clopper and Pearson's limit
    assert made.loss == 0
    assert made.loss_ci95 == pytest.approx((0, most), abs=1e-4)
    assert made.ci95 == pytest.approx((1 - most, 1), abs=1e-4)
    assert made.counted
    assert same.against(None).ci95 == (1, 1)
    assert not same.against(None).counted


@pytest.mark.parametrize("shape", ["[batch,10,1,1]", "[batch,1]", "[batch]"])
def test_there_is_no_top1_where_the_classes_are_not_the_last_of_2_or_3_dimensions(tmp_path: Path, shape: str) -> None:
    """The largest of an image's columns, and the larger of one, are no classes."""
    np.save(tmp_path / "data.npy", GENERATOR.standard_normal((40, 16)).astype(np.float32))
    tail = {
        "[batch,10,1,1]": "y = Reshape(t, to)",
        "[batch,1]": "y = ReduceMean<axes=[1], keepdims=1>(t)",
        "[batch]": "y = ReduceMean<axes=[1], keepdims=0>(t)",
    }[shape]
    text = f"g (float[batch,16] x) => (float{shape} y) {{ h = MatMul(x, w) t = MatMul(h, v) {tail} }}"
    model = write_onnx(tmp_path / "m.onnx", text, {**WEIGHTS, "to": np.array([0, 10, 1, 1])})
    folder = score(model, "base")
    assert array_scores(folder, "cosine", 0).figures.keys() == {"cosine", "relative_l2"}
    with refused(UsageProblem):
        array_scores(folder, "top1", 0)


def test_infinities_that_the_baseline_has_too_are_equal(model: Path) -> None:
    """Such as scores that a mask excludes; where a candidate alone has them, or not, it is broken."""
    log = write_onnx(
        model.with_name("log.onnx"),
        TEXT.replace("y = MatMul", "t = MatMul").replace("}", "p = Relu(t) y = Log(p) }"),
        WEIGHTS,
    )
    baseline = score(log, "base")
    found = array_scores(score(log, "same", log, baseline), "cosine", 0)
    assert (found.value, found.figures["relative_l2"], found.figures["top1"]) == (pytest.approx(1), 0, 1)
    for name, last in {"alone": "y = Log(t)", "missing": "p = Abs(t) y = Log(p)"}.items():
        text = TEXT.replace("y = MatMul", "t = MatMul").replace("}", f"{last} }}")
        with refused(CheckFailed):
            score(write_onnx(model.with_name(f"{name}.onnx"), text, WEIGHTS), name, log, baseline)
    nothing = write_onnx(
        model.with_name("nothing.onnx"),
        TEXT.replace("y = MatMul", "t = MatMul").replace("}", "m = Mul(t, z) y = Log(m) }"),
        {**WEIGHTS, "z": np.float32(0)},
    )
    with refused(CheckFailed):
        score(nothing, "nothing")


def test_what_cannot_be_compared(model: Path) -> None:
    baseline = score(model, "base")
    broken = write_onnx(
        model.with_name("n.onnx"), TEXT.replace("y = MatMul(r, v)", "t = MatMul(r, v) y = Log(t)"), WEIGHTS
    )
    with refused(CheckFailed):
        score(broken, "nan", model, baseline)
    whole = write_onnx(
        model.with_name("o.onnx"), "g (float[batch,16] x) => (float[1,16] y) { y = ReduceSum<keepdims=1>(x, a) }",
        {"a": np.array([0], np.int64)},
    )  # fmt: skip
    with refused(UsageProblem):
        score(whole, "sum", model, baseline)
    with refused(UsageProblem):
        score(
            write_onnx(model.with_name("p.onnx"), "g (float[batch,16] x) => (float[batch,16] y) { y = Relu(x) }"),
            "relu", model, baseline,
        )  # fmt: skip


def test_a_language_model_has_a_perplexity(tmp_path: Path) -> None:
    """Logits are rows of a table; in the other model they are 10 % smaller."""
    table = GENERATOR.standard_normal((12, 12)).astype(np.float32) * 2
    ids = GENERATOR.integers(0, 12, (20, 9))
    np.savez(tmp_path / "data.npz", input_ids=ids)
    text = "g (int64[batch,t] input_ids) => (float[batch,t,12] logits) { logits = Gather(w, input_ids) }"
    model = write_onnx(tmp_path / "m.onnx", text, {"w": table})
    other = write_onnx(tmp_path / "n.onnx", text, {"w": table * np.float32(0.9)})
    data = asdict(CalibrationSettings(calibration=str(tmp_path / "data.npz"), samples=20))
    baseline = score(model, "base", data=data)
    lower = score(other, "other", model, baseline, data=data)

    def perplexity(logits: Any) -> float:
        logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return float(np.exp(-np.mean([logs[a, b] for row in ids for a, b in pairwise(row)])))

    before, after = perplexity(table.astype(float)), perplexity(table.astype(float) * 0.9)
    made = array_scores(lower, "perplexity", 0).against(array_scores(baseline, "perplexity", 0))
    assert made.value == pytest.approx(after, rel=1e-5)
    assert made.loss == pytest.approx(after / before - 1, rel=1e-4)
    low, high = made.loss_ci95 or (0, 0)
    assert low < made.loss < high
    assert 0 < (made.figures["kl"] or 0) < 0.1
    assert made.figures["top1"] == 1
    guesses = {kind: array_scores(baseline, kind, 0).against(None).guess for kind in ("perplexity", "cosine")}
    shares = np.bincount(ids[:, 1:].ravel(), minlength=12) / ids[:, 1:].size
    often = float(np.exp(-np.sum(shares * np.log(shares))))
    assert guesses["cosine"] is None
    assert guesses["perplexity"] == pytest.approx(often, rel=0.1)  # a table of random numbers knows nothing


def test_outputs_without_a_number_have_no_score(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.zeros((40, 2, 16), np.float32))
    weights = {"w": np.zeros((16, 0), np.float32)}
    empty = write_onnx(
        tmp_path / "m.onnx", "g (float[batch,2,16] x) => (float[batch,2,0] y) { y = MatMul(x, w) }", weights
    )
    with refused(UsageProblem):
        score(empty, "base")


def test_the_cosine_sees_a_wrong_scale(model: Path) -> None:
    """Halved outputs point the same way: their cosine is 1."""
    halved = write_onnx(
        model.with_name("n.onnx"),
        TEXT.replace("y = MatMul(r, v)", "t = MatMul(r, v) y = Mul(t, half)"),
        WEIGHTS | {"half": np.float32(0.5)},
    )
    baseline = score(model, "base")
    own = array_scores(baseline, "cosine", 0)
    made = array_scores(score(halved, "halved", model, baseline), "cosine", 0).against(own)
    assert made.figures["cosine"] == pytest.approx(1)
    assert made.loss == pytest.approx(0.125)
    assert not made.keeps(0.005, 30)


@pytest.mark.parametrize(
    ("far", "is_guess"),
    [(100.0, True), (20.0, True), (0.0, False)],
)
def test_a_score_that_cannot_tell_from_the_mean_answer_decides_nothing(far: float, is_guess: bool, model: Path) -> None:
    """Outputs that are nearly the same for every input: the mean of them loses less than any bound."""
    text = TEXT.replace("y = MatMul(r, v)", "t = MatMul(r, v) y = Add(t, far)")
    other = write_onnx(model.with_name("n.onnx"), text, WEIGHTS | {"far": np.full(10, far * 10, np.float32)})
    found = array_scores(score(other, "base"), "cosine", 0)
    assert (found.against(None).guess is not None) == is_guess
    assert found.guess is not None
    assert bool(found.against(None).as_good_as_guessing) == is_guess


def test_classes_that_are_the_same_for_every_input_are_a_guess(model: Path) -> None:
    text = TEXT.replace("y = MatMul(r, v)", "t = MatMul(r, v) y = Add(t, far)")
    other = write_onnx(model.with_name("n.onnx"), text, WEIGHTS | {"far": np.eye(10, dtype=np.float32)[0] * 1000})
    found = array_scores(score(other, "base"), "top1", 0)
    assert (found.guess, found.against(None).guess) == (1, 1)
    assert array_scores(score(model, "plain"), "top1", 0).against(None).guess is None


def test_a_search_by_a_score_that_is_a_guess_is_refused(model: Path) -> None:
    text = TEXT.replace("y = MatMul(r, v)", "t = MatMul(r, v) y = Add(t, far)")
    other = write_onnx(model.with_name("n.onnx"), text, WEIGHTS | {"far": np.full(10, 1e4, np.float32)})
    result = trtw(
        "quantize", other, "--to", "int8", "--calibration", model.parent / "data.npy", "--keep-score", "0.005",
        "--output", model.with_name("made.onnx"),
    )  # fmt: skip
    assert (result.exit_code, "as good as guessing" in result.stderr) == (2, True)
    assert not model.with_name("made.onnx").exists()
