"""A function of the user's as a score: what it is called with, and what it may do wrong."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.extensions import extension_packages
from trt_workbench.core.statistics.bootstrap import another, draw_counts
from trt_workbench.quantize import own
from trt_workbench.quantize.figures import metric_of
from trt_workbench.quantize.scores import SampleScores
from trt_workbench.quantize.settings import score_named

pytestmark = pytest.mark.usefixtures("forked_python")
NAMES = [f"data.npz row {row}" for row in range(9)]
GENERATOR = np.random.default_rng(3)
RIGHT = GENERATOR.standard_normal((9, 4)).astype(np.float32)
OUTPUTS = {"y": RIGHT + np.float32(0.01) * GENERATOR.standard_normal((9, 4)).astype(np.float32)}


def written(folder: Path, body: str, head: str = "", tail: str = "") -> str:
    """A file with the function `mine`, whose first line is `body`."""
    path = folder / "mine.py"
    text = f"import numpy as np\n{head}\ndef mine(outputs, target):\n    {body}\nmine.better = 'lower'\n{tail}\n"
    path.write_text(text)
    return f"{path}:mine"


def numbers_of(
    score: str, outputs: dict[str, Any], targets: list[dict[str, Any]], folder: Path, better: str | None = None
) -> dict[str, Any]:
    """What a function gives of samples, and its numbers and guess by the names `own`, `guessed` and so on."""
    names = [f"data.npz row {row}" for row in range(len(targets))]
    run = {"outputs": outputs, "names": names, "targets": lambda: targets, "folder": folder, "seed": 0,
           "baseline": None}  # fmt: skip
    found = metric_of(score, better).loaded().numbers(run)
    first, *others = found["numbers"].values()
    guess = first["guessed"] or {"each": (), "folded": ()}
    return {
        "fields": found,
        "own": first["each"],
        "worse": first["worse"],
        "folded": first["folded"],
        "guessed": guess["each"],
        "guess_folded": guess["folded"],
        "others": {name: one["each"] for name, one in zip(found["others"], others, strict=True)},
        "others_worse": {name: one["worse"] for name, one in zip(found["others"], others, strict=True)},
    }


def scored(score: str, folder: Path, **targets: Any) -> dict[str, Any]:
    named = targets or {"t": RIGHT}
    rows = [{name: np.asarray(one[row]) for name, one in named.items()} for row in range(9)]
    return numbers_of(score, OUTPUTS, rows, folder)


def test_values_and_guesses_are_those_of_a_loop(tmp_path: Path) -> None:
    found = scored(written(tmp_path, "return np.abs(outputs['y'] - target).mean()"), tmp_path)
    assert found["own"] == [float(np.abs(y - t).mean()) for y, t in zip(OUTPUTS["y"], RIGHT, strict=True)]
    mean = OUTPUTS["y"].mean(axis=0, dtype=np.float64).astype(np.float32)
    guesses = [[float(np.abs(y - t).mean()) for y, t in zip(ys, RIGHT, strict=True)] for ys in
               ([mean] * 9, np.roll(OUTPUTS["y"], -1, axis=0))]  # fmt: skip
    assert found["guessed"] == pytest.approx(min(guesses, key=np.mean))
    assert found["worse"] == "rises"


def test_several_numbers_are_the_score_and_others(tmp_path: Path) -> None:
    body = "return {'error': np.abs(outputs['y'] - target).mean(), 'near': (outputs['y'] > target).mean()}"
    score = written(tmp_path, body, tail="mine.better = {'error': 'lower', 'near': 'higher'}")
    found = scored(score, tmp_path)
    alone = scored(written(tmp_path, "return np.abs(outputs['y'] - target).mean()"), tmp_path)
    assert (found["own"], found["guessed"]) == (alone["own"], alone["guessed"])
    assert found["others"] == {"near": [float((y > t).mean()) for y, t in zip(OUTPUTS["y"], RIGHT, strict=True)]}
    assert (found["worse"], found["others_worse"]) == ("rises", {"near": "falls"})
    with refused(UsageProblem):
        scored(written(tmp_path, body, tail="mine.better = {'error': 'lower'}"), tmp_path)


def test_a_fold_makes_the_score_of_all_samples_and_of_each_resample(tmp_path: Path) -> None:
    """Precision: true ones of all found ones, which is not the mean of the samples' precisions."""
    body = "return {'true': (outputs['y'] * target > 0)[: len(target)].sum(), 'found': (outputs['y'] > -1).sum()}"
    score = written(tmp_path, body, tail="mine.fold = lambda given: given['true'].sum() / given['found'].sum()")
    found = scored(score, tmp_path)
    true = [(y * t > 0).sum() for y, t in zip(OUTPUTS["y"], RIGHT, strict=True)]
    every = [(y > -1).sum() for y in OUTPUTS["y"]]
    whole, *drawn = found["folded"]
    assert whole == sum(true) / sum(every)
    assert drawn == pytest.approx([(each @ true) / (each @ every) for each in draw_counts(9, 0)])
    assert np.std(drawn) > 0
    assert len(found["guess_folded"]) == len(found["folded"])
    assert found["others"] == {}


@pytest.mark.parametrize("fold", ["1 / 0", "float('nan')", "given", "'text'"])
def test_what_a_fold_does_wrong_is_a_sentence(tmp_path: Path, fold: str) -> None:
    score = written(tmp_path, "return 1.0", tail=f"mine.fold = lambda given: {fold}")
    with refused(UsageProblem):
        scored(score, tmp_path)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4])
def test_an_interval_is_in_the_unit_of_the_score(tmp_path: Path, unit: float) -> None:
    """Also where no sample differs: what one may lose that is not among them has no other scale than the score's."""
    score = written(tmp_path, f"return {unit} * float(np.abs(outputs['y'] - target).mean() > 0.3)")
    write_json(tmp_path / "samples.json", SampleScores(names=NAMES, **scored(score, tmp_path)["fields"]))
    made = metric_of(score).read(tmp_path, 0)
    low, high = made.against(made.__class__(**vars(made))).loss_ci95 or (0, 0)
    assert -low == high == pytest.approx(unit * (1 - 0.025 ** (1 / 9)), rel=1e-4)


def test_targets_of_several_names_are_a_dict(tmp_path: Path) -> None:
    score = written(tmp_path, "return target['a'] + target['b'] + (str(target['c']) == 'x')")
    found = scored(score, tmp_path, a=np.arange(9), b=np.ones(9), c=np.array(["x", *"abcdefgh"]))
    assert found["own"] == [2, *range(2, 10)]


@pytest.mark.parametrize(
    "body",
    [
        "return float('nan')",
        "return 'text'",
        "return outputs['y']",
        "return {}",
        "return {'a': 'text'}",
        "return {str(int(target[0] > 0)): 1.0}",
        "return None",
        "return 1 / 0",
        "raise SystemExit(3)",
        "import os; os.fork(); return 1.0",
        "import os; os._exit(7)",
        "\n    while True: pass",
    ],
)
def test_what_a_function_does_wrong_is_a_sentence_with_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setattr(own, "_SAMPLE_S", 2.0 if "while" in body else 60.0)
    score = written(tmp_path, body)
    with refused(UsageProblem):
        scored(score, tmp_path)


def test_what_it_prints_is_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = scored(written(tmp_path, "print('here'); return 1.0"), tmp_path)
    assert found["own"] == [1.0] * 9
    assert (tmp_path / "score.log").read_text().count("here") == 27
    assert "here" not in "".join(capfd.readouterr())


def test_a_mean_that_it_does_not_take_is_no_guess(tmp_path: Path) -> None:
    """Only the first sample's outputs for every sample are refused: the mean."""
    head = f"SEEN = {OUTPUTS['y'][:, 0].tolist()}"
    found = scored(written(tmp_path, "return SEEN.index(float(outputs['y'][0]))", head), tmp_path)
    assert found["own"] == list(range(9))
    assert sorted(found["guessed"]) == list(range(9))
    assert all(found["guessed"][own] != own for own in range(9))


@pytest.mark.parametrize(("text", "name"), [("x = (", "mine"), ("import absent_package", "mine"), ("x = 1", "mine")])
def test_a_file_without_the_function_is_refused(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "a.py").write_text(text)
    for file in ("a.py", "absent.py"):
        with refused(UsageProblem):
            metric_of(f"{tmp_path / file}:{name}").loaded()


def test_which_values_are_better_has_to_be_said(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def value():\n    return 1.0\n")
    (tmp_path / "a.py").write_text("import helper\n\ndef mine(outputs, target):\n    return helper.value()\n")
    with refused(UsageProblem):
        metric_of(f"{tmp_path / 'a.py'}:mine").loaded()
    assert metric_of(f"{tmp_path / 'a.py'}:mine", "higher").loaded().better == "higher"
    assert metric_of("numpy:median", "lower").loaded().sha256


@pytest.mark.usefixtures("own_processes")
def test_a_package_may_bring_a_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "depths.py").write_text("def mine(outputs, target):\n    return 1.0\nmine.better = 'higher'\n")
    folder = tmp_path / "depths-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: depths\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[trt_workbench.scores]\ndepth = depths:mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    assert score_named("--score", "depth") == "depth"
    assert metric_of("depth").loaded().better == "higher"
    assert extension_packages()["depths"] == "1.0"


@functools.lru_cache
def decorated(_: Any, target: Any) -> Any:
    return target


def test_what_a_score_is_called() -> None:
    for text in ("top2", "a.b:c d", ":f"):
        with refused(UsageProblem):
            score_named("--score", text)
    assert score_named("--score", "package.module:function") == "package.module:function"
    assert score_named("score", test_what_a_score_is_called) == f"{__file__}:test_what_a_score_is_called"
    assert score_named("score", decorated) == f"{__file__}:decorated"
    with refused(UsageProblem):
        metric_of("top1", "lower")


def test_a_function_that_another_process_cannot_load_is_refused() -> None:
    made: dict[str, Any] = {}
    exec(compile("def mine(outputs, target):\n    return 1.0\n", "<string>", "exec"), made)

    def inner(_: Any, target: Any) -> Any:
        return target

    class Scorer:
        better = "lower"

        def __call__(self, _: Any, target: Any) -> Any:
            return target

    part = functools.partial(decorated, target=0.5)
    halved = functools.update_wrapper(functools.partial(decorated, target=0.5), decorated)
    for given in (made["mine"], inner, lambda _, target: target, halved, part, Scorer(), Scorer().__call__):
        with pytest.raises(UsageProblem, match="has to be a `def` at the top of a file"):
            score_named("score", given)
    with refused(UsageProblem):
        score_named("score", made["mine"])


@pytest.mark.parametrize("units", [2, 3, 5, 64, 1219])
def test_another_sample_is_another_one_for_each(units: int) -> None:
    found = another(units)
    assert sorted(found.tolist()) == list(range(units))
    assert (found != np.arange(units)).all()
    # neighbours that are alike are no guess: few of them come after each other
    assert units < 20 or np.count_nonzero(np.abs(found - np.arange(units)) == 1) < units / 10
