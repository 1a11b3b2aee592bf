"""Decisions by a function of the user's: the examples of the guide, judged as by hand."""

import importlib
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.guides import ROOT
from tests.in_app import json_of, stderr_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held
from tests.unit.quantize.test_own import numbers_of

import trt_workbench.api as tw

GENERATOR = np.random.default_rng(11)
TURN = np.linalg.qr(GENERATOR.standard_normal((16, 16)))[0].astype(np.float32)
GUIDES = "".join(
    (ROOT / "docs" / page).read_text() for page in ("guides/own-score.md", "reference/own-score-examples.md")
)
EXAMPLES = re.findall(r"```python\n# (\S+?):.*?\n(.*?)```", GUIDES, re.DOTALL)
ASKED = ("--backends", "ort-cpu", "--repetitions", 0)
COMMANDS = {"decide": ("--precisions", "fp32,fp16", *ASKED), "eval-vision": ("--backend", "ort-cpu")}
"""What scores a model, with what makes that quick."""


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    for name, body in EXAMPLES:
        assert len(body.splitlines()) <= 15
        (tmp_path / name).write_text(body)
    return tmp_path


def edits(read: str, text: str) -> int:
    """Levenshtein's distance by its definition."""
    if not read or not text:
        return len(read) + len(text)
    return min(edits(read[1:], text) + 1, edits(read, text[1:]) + 1, edits(read[1:], text[1:]) + (read[0] != text[0]))


def depths(_: Path) -> tuple[Any, Any, list[float]]:
    truth = GENERATOR.uniform(-1, 9, (12, 5, 4)).clip(0)
    found = truth * GENERATOR.uniform(0.9, 1.1, truth.shape)
    by_hand = [
        sum(abs(a - b) / b for a, b in zip(x.flat, y.flat, strict=True) if b) / np.count_nonzero(y)
        for x, y in zip(found, truth, strict=True)
    ]
    return {"depth": found}, truth, by_hand


def lines(_: Path) -> tuple[Any, Any, list[float]]:
    texts = ["abba", "cab", "b", "ccc", "a b", "abc", "bca", "aab", "cc"]
    read = ["aba", "cab", "", "cc", "a b", "bc", "bcaa", "aab", "abc"]
    logits = np.zeros((9, 12, 28))
    for one, text in zip(logits, read, strict=True):
        places = [place for letter in text for place in (0, 1 + "abcdefghijklmnopqrstuvwxyz ".index(letter))]
        one[range(12), [*places, *places[-1:] * 2, *[0] * 12][:12]] = 1  # the last letter thrice is one letter
    return {"logits": logits}, np.array(texts), [edits(a, b) / len(b) for a, b in zip(read, texts, strict=True)]


def queries(folder: Path) -> tuple[Any, Any, list[float]]:
    documents, found = GENERATOR.standard_normal((30, 6)), GENERATOR.standard_normal((9, 6))
    np.save(folder / "documents.npy", documents)
    relevance = GENERATOR.integers(0, 4, (9, 30))
    by_hand = []
    for query, gains in zip(found, relevance, strict=True):
        ranked = sorted(range(30), key=lambda place: -sum(documents[place] * query))
        gained = sum(gains[place] / np.log2(rank + 2) for rank, place in enumerate(ranked[:10]))
        by_hand.append(gained / sum(gain / np.log2(rank + 2) for rank, gain in enumerate(sorted(gains)[:-11:-1])))
    return {"embedding": found}, relevance, by_hand


def keypoints(_: Path) -> tuple[Any, Any, list[float]]:
    left, right = (GENERATOR.standard_normal((9, 20, 8)) for _ in range(2))
    partners = GENERATOR.integers(-1, 20, (9, 20))
    for image, one in enumerate(partners):
        for place, partner in enumerate(one):
            if partner >= 0 and GENERATOR.random() < 0.6:  # these are found
                left[image, place] = 40 * right[image, partner] / np.sum(right[image, partner] ** 2)
    by_hand = []
    for image in range(9):
        hits = []
        for place in range(20):
            products = [sum(left[image, place] * other) for other in right[image]]
            if partners[image, place] >= 0:
                hits.append(products.index(max(products)) == partners[image, place])
        by_hand.append(sum(hits) / len(hits))
    return {"left": left, "right": right}, partners, by_hand


def chunks(_: Path) -> tuple[Any, Any, list[float]]:
    actions, steps = GENERATOR.uniform(-1, 1, (9, 16, 7)), GENERATOR.integers(1, 17, 9)
    first = GENERATOR.integers(0, 20, 9)  # from here on one joint is off; of some never
    found = actions + GENERATOR.uniform(-0.04, 0.04, actions.shape)
    for one, start in zip(found, first, strict=True):
        one[start:, 3] += 0.2
    by_hand = [float(min(start, count)) for start, count in zip(first, steps, strict=True)]
    return {"actions": found}, {"actions": actions, "steps": steps}, by_hand


def objects(_: Path) -> tuple[Any, Any, list[float]]:
    scores, truth = GENERATOR.random((9, 12)), GENERATOR.integers(0, 2, (9, 12))
    by_hand = [float(sum(a > 0.5 and b for a, b in zip(x, y, strict=True))) for x, y in zip(scores, truth, strict=True)]
    return {"scores": scores}, truth, by_hand


def test_the_example_of_a_fold_is_the_f1_of_all_samples(examples: Path) -> None:
    outputs, truth, both = objects(examples)
    found = numbers_of(f"{examples}/f1.py:f1", outputs, [{"truth": one} for one in truth], examples)
    positives, hits = (outputs["scores"] > 0.5).sum(), sum(both)
    precision, recall = hits / positives, hits / truth.sum()
    assert found["folded"][0] == pytest.approx(2 * precision * recall / (precision + recall))


@pytest.mark.parametrize(
    ("score", "better", "made"),
    [
        ("depth.py:abs_rel", None, depths),
        ("ocr.py:cer", "lower", lines),
        ("retrieval.py:ndcg", "higher", queries),
        ("matching.py:matched", None, keypoints),
        ("policy.py:good_steps", None, chunks),
        ("f1.py:f1", None, objects),
    ],
)
@pytest.mark.usefixtures("forked_python")
def test_examples_of_the_guide_give_what_a_loop_gives(
    examples: Path, score: str, better: str | None, made: Callable[[Path], tuple[Any, Any, list[float]]]
) -> None:
    outputs, targets, by_hand = made(examples)
    targets = targets if isinstance(targets, dict) else {"targets": targets}
    rows = [{name: np.asarray(one[row]) for name, one in targets.items()} for row in range(len(by_hand))]
    found = numbers_of(f"{examples}/{score}", outputs, rows, examples, better)
    assert found["own"] == pytest.approx(by_hand, abs=1e-12)
    assert found["worse"] == ("rises" if score.split(":")[1] in ("abs_rel", "cer") else "falls")
    assert np.std(by_hand) > 0
    assert len(found["guessed"]) == len(by_hand)


def arrays(file: str) -> dict[str, NDArray[Any]]:
    with np.load(file) as held_there:
        return dict(held_there)


def depth_model(folder: Path, rows: int = 48) -> tuple[Path, NDArray[Any]]:
    """A model whose int8 differs by a few percent, and the depths that it is scored by."""
    text = "g (float[n,16] x) => (float[n,16] depth) { a = MatMul(x, w) r = Relu(a) depth = Add(r, one) }"
    model = write_onnx(folder / "depth.onnx", text, {"w": TURN, "one": np.ones(1, np.float32)})
    for name in ("val", "train"):
        x = GENERATOR.standard_normal((rows, 16)).astype(np.float32)
        depth = (1 + (x @ TURN).clip(0)) * GENERATOR.uniform(0.98, 1.02, x.shape).astype(np.float32)
        np.savez(folder / f"{name}.npz", x=x, truth=depth)
    return model, depth


@pytest.mark.long
@pytest.mark.usefixtures("forked_python")
def test_a_decision_by_a_function_has_paired_intervals(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(examples)
    depth_model(examples, 400)
    found = json_of(
        "decide", "depth.onnx", "--data", "val.npz", "--calibration", "train.npz", "--score", "depth.py:abs_rel",
        "--max-loss", 0.01, "--limit", 400, "--precisions", "fp32,int8", *ASKED,
        "--output", "run",
    )  # fmt: skip
    assert (found["figure"], found["unit"], found["samples"]) == ("abs_rel", "samples", 400)
    files = [Path(f"run/scores/{name}/ort-cpu/samples.json") for name in ("fp32", "int8")]
    samples = [next(iter(json.loads(file.read_text())["numbers"].values())) for file in files]
    before, after = (np.array(one["each"]) for one in samples)
    score = found["rows"][1]["score"]
    assert score["value"] == pytest.approx(after.mean())
    assert score["loss"] == pytest.approx(after.mean() - before.mean())
    assert score["loss"] > 0
    losses = (after - before)[GENERATOR.integers(0, 400, (4000, 400))].mean(axis=1)
    low, high = np.percentile(losses, [2.5, 97.5])
    width = high - low
    assert score["loss_ci95"] == pytest.approx((low, high), abs=width / 6)
    assert np.hypot(before.std(), after.std()) * 4 / 400**0.5 > 2 * width  # unpaired it would be far wider
    assert samples[0]["guessed"] == samples[1]["guessed"]
    assert score["guess"] is None
    assert found["rows"][0]["score"]["guess"] is None


@pytest.mark.long(but=2)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("body", ["return 1.0", "return abs(target).mean()"])
@pytest.mark.usefixtures("forked_python")
def test_a_score_that_guessing_reaches_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    depth_model(tmp_path)
    Path("s.py").write_text(f"def mine(outputs, target):\n    {body}\n")
    result = trtw(command, "depth.onnx", "--data", "val.npz", "--score", "s.py:mine", "--better", "lower",
                  *COMMANDS[command], "--output", "run")  # fmt: skip
    assert result.exit_code == 1
    held(re.sub(r"\d\.\d+", "#", next(one for one in result.output.splitlines() if "as good as guessing" in one)))
    assert "as good as guessing" in Path("run/report.html").read_text()


@pytest.mark.parametrize("score", ["s.py:brier", "top1"])
@pytest.mark.usefixtures("forked_python")
def test_samples_that_lie_class_by_class_are_no_guesses_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, score: str
) -> None:
    """A guess has the outputs of another sample: not of the next one, which is of the same class."""
    monkeypatch.chdir(tmp_path)
    write_onnx(tmp_path / "m.onnx", "g (float[n,4] x) => (float[n,4] odds) { odds = Softmax<axis = 1>(x) }")
    label = np.repeat(np.arange(4), 75)
    noise = GENERATOR.standard_normal((300, 4)).astype(np.float32)  # with much of it the next one is as good as it
    x = 3 * np.eye(4, dtype=np.float32)[label] + noise / (4 if score == "top1" else 1)
    np.savez("val.npz", x=x, **({} if score == "top1" else {"label": label}))
    body = "    return float(((outputs['odds'] - [one == target for one in range(4)]) ** 2).sum())\n"
    Path("s.py").write_text(f"def brier(outputs, target):\n{body}brier.better = 'lower'\n")
    found = json_of(
        "decide", "m.onnx", "--data", "val.npz", "--score", score, "--precisions", "fp32", "--limit", 300, *ASKED,
        "--output", "run",
    )  # fmt: skip
    assert found["rows"][0]["score"]["guess"] is None


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("forked_python")
def test_what_cannot_be_scored_is_refused_before_anything_is_made(
    examples: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(examples)
    _, depth = depth_model(examples)
    np.save("few.npy", depth[:9])
    np.save("x.npy", arrays("val.npz")["x"])
    Path("text.txt").write_text("a text")
    score = ("--score", "depth.py:abs_rel")
    for words in (
        ["--data", "x.npy", *score],
        ["--data", "x.npy", "--annotations", "few.npy", *score],
        ["--data", "val.npz", "--score", "ocr.py:cer"],
        ["--data", "val.npz", "--score", "top1", "--better", "lower"],
        ["--data", "text.txt", *score],
        score,
    ):
        said = stderr_of(command, "depth.onnx", *words, *COMMANDS[command], "--output", "run")
        assert "Making" not in said
        held(said.splitlines()[-1])
        assert not Path("run").exists()


@pytest.mark.long(but=4)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "body",
    [
        "return float('nan')",
        "return 1e308",
        "return 'text'",
        "return outputs['depth']",
        "return {str(int(target[0] > 1.1)): 1.0}",
        "return 1 / 0",
        "import os; os.fork(); return 1.0",
        "import os; os._exit(7)",
    ],
)
@pytest.mark.usefixtures("forked_python")
def test_a_function_that_fails_ends_the_command_with_its_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    depth_model(tmp_path)
    Path("s.py").write_text(f"def mine(outputs, target):\n    {body}\nmine.better = 'higher'\n")
    words = ("--data", "val.npz", "--score", "s.py:mine", *COMMANDS[command], "--output", "run")
    said = stderr_of(command, "depth.onnx", *words).splitlines()[-1]
    held(re.sub(r"/\S*/", "", re.sub(r"row \d+", "row #", said)))
    assert "Sample: " in said


@pytest.mark.parametrize("limit", [(), ("--limit", 20)])
@pytest.mark.usefixtures("forked_python")
def test_an_evaluation_gives_what_a_loop_and_what_decide_gives(
    examples: Path, monkeypatch: pytest.MonkeyPatch, limit: tuple[Any, ...]
) -> None:
    """To the last digit, of the model and of its int8, which `quantize` makes for both."""
    monkeypatch.chdir(examples)
    model, _ = depth_model(examples, 80)
    noisy = "\nimport random\nprint(random.random())\n"  # which goes to score.log, and changes nothing
    Path("depth.py").write_text(Path("depth.py").read_text() + noisy)
    words = ("--data", "val.npz", "--score", "depth.py:abs_rel", *limit)
    decided = json_of("decide", model, *words, "--calibration", "train.npz", "--precisions", "fp32,int8", *ASKED,
                      "--no-search", "--max-loss", 1, "--output", "decided")  # fmt: skip
    json_of("quantize", model, "--to", "int8", "--calibration", "train.npz", "--output", "int8.onnx")
    for row, file in zip(decided["rows"], ("depth.onnx", "int8.onnx"), strict=True):
        found = json_of("eval-vision", file, *words, "--backend", "ort-cpu", "--output", f"of-{file}")
        score = {name: row["score"][name] for name in ("value", "ci95")}
        assert {name: found["score"][name] for name in score} == score
        samples = json.loads(Path(f"of-{file}/score/samples.json").read_text())
        assert (found["samples"], found["available"]) == (len(samples["names"]), 80) == (limit[1] if limit else 64, 80)
        outputs, places = arrays(f"of-{file}/score/outputs.npz")["depth"], [
            int(name.rpartition(" ")[2]) for name in samples["names"]
        ]  # fmt: skip
        data, by_hand = arrays("val.npz"), []
        for output, place in zip(outputs, places, strict=True):
            if file == "depth.onnx":
                assert output == pytest.approx((data["x"][place] @ TURN).clip(0) + 1, abs=1e-5)
            by_hand.append(np.mean(np.abs(output - data["truth"][place]) / data["truth"][place]))
        assert found["score"]["value"] == np.mean(by_hand)
        assert found["better"] == "lower"
        assert Path(f"of-{file}/report.html").is_file()
    assert decided["rows"][0]["score"]["value"] != decided["rows"][1]["score"]["value"]


@pytest.mark.usefixtures("forked_python")
def test_python_evaluates_by_a_function(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(examples)
    depth_model(examples)
    body = "    d = abs(outputs['depth'] - target)\n    return {'near': (d < 0.02).mean(), 'far': d.max()}\n"
    Path("both.py").write_text(
        f"def near(outputs, target):\n{body}near.better = {{'near': 'higher', 'far': 'lower'}}\n"
    )
    monkeypatch.syspath_prepend(examples)
    mine = importlib.import_module("both").near
    found = tw.evaluate("depth.onnx", data="val.npz", score=mine, backend="ort-cpu", seed=3, output="run")
    assert found.passed
    assert found.document.figure == "near"
    data = arrays("val.npz")
    away = np.abs((data["x"] @ TURN).clip(0) + 1 - data["truth"])
    assert found.document.score.value == pytest.approx((away < 0.02).mean())
    assert found.document.score.others["far"].value == pytest.approx(away.max(axis=1).mean(), rel=1e-5)
    low, high = found.document.score.ci95 or (0, 0)
    assert low < found.document.score.value < high
    assert "near" in (found._repr_html_() or "")


def test_an_evaluation_has_the_perplexity_of_decide_and_of_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "g (int64[batch,t] input_ids) => (float[batch,t,12] logits) { logits = Gather(w, input_ids) }"
    table = GENERATOR.standard_normal((12, 12)).astype(np.float32)
    ids = np.array([[GENERATOR.choice(12, p=np.exp(row) / np.exp(row).sum()) for row in table[:9]] for _ in range(16)])
    for step in range(1, 9):  # each token is drawn as the model says, so that it is better than a guess
        odds = np.exp(2.0 * table[ids[:, step - 1]])
        ids[:, step] = [GENERATOR.choice(12, p=one / one.sum()) for one in odds]
    np.savez("ids.npz", input_ids=ids)
    model = write_onnx(tmp_path / "m.onnx", text, {"w": 2 * table})
    words = ("--data", "ids.npz", "--score", "perplexity")
    found = json_of("eval-vision", model, *words, "--backend", "ort-cpu", "--output", "run")
    logs = 2 * table - np.log(np.exp(2 * table).sum(axis=1, keepdims=True))
    by_hand = np.exp(-np.mean([logs[a, b] for row in ids for a, b in itertools.pairwise(row)]))
    assert found["score"]["value"] == pytest.approx(by_hand, rel=1e-6)
    assert (found["better"], found["figure"]) == ("lower", "perplexity")
    decided = json_of("decide", model, *words, "--precisions", "fp32", *ASKED, "--output", "decided")
    for name in ("value", "ci95", "guess"):
        assert found["score"][name] == decided["rows"][0]["score"][name]
    page = Path("run/report.html").read_text()
    trtw("report", "run")
    assert Path("run/report.html").read_text() == page


@pytest.mark.parametrize(
    "words",
    [
        ("--data", "nowhere.npz", "--score", "depth.py:abs_rel"),
        ("--score", "cosine"),
        ("--score", "wer"),
        ("--score", "perplexity"),
        ("--score", "depth.py:abs_rel", "--conf", 0.5, "--split", "val"),
        ("--score", "depth.py:abs_rel", "--shard", "0/2"),
        ("--score", "depth.py:abs_rel", "--gpus", "all"),
        ("--score", "ap", "--better", "lower"),
        ("--score", "depth.py:abs_rel", "--precision", "fp16"),
        ("--score", "depth.py:abs_rel", "--backend", "nowhere"),
        ("--score", "depth.py:abs_rel", "--url", "localhost:1"),
    ],
)
@pytest.mark.usefixtures("forked_python")
def test_an_evaluation_says_what_it_cannot_score_by(
    examples: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[Any, ...]
) -> None:
    monkeypatch.chdir(examples)
    depth_model(examples)
    said = stderr_of(
        "eval-vision", "depth.onnx", "--data", "val.npz", "--backend", "ort-cpu", *words, "--output", "run"
    )
    held(said.splitlines()[-1])
    assert not Path("run").exists()


@pytest.mark.long
@pytest.mark.usefixtures("forked_python")
def test_a_later_run_scores_again_what_has_changed(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(examples)
    depth_model(examples)
    data = arrays("val.npz")
    np.save("x.npy", data["x"])
    np.save("truth.npy", data["truth"])
    words = ("decide", "depth.onnx", "--data", "x.npy", "--annotations", "truth.npy", "--score", "depth.py:abs_rel",
             "--precisions", "fp32,fp16", *ASKED)  # fmt: skip
    first = json_of(*words, "--output", "run")["rows"][0]["score"]["value"]
    again = trtw(*words, "--output", "run")
    assert "Scoring fp32" not in again.output
    np.save("truth.npy", data["truth"] * np.float32(1.06))
    other = json_of(*words, "--output", "run")["rows"][0]["score"]["value"]
    assert other > 3 * first > 0
    Path("depth.py").write_text(Path("depth.py").read_text().replace("return ", "return 2 * "))
    changed = json_of(*words, "--output", "run")["rows"][0]["score"]["value"]
    assert changed == pytest.approx(2 * other)


@pytest.mark.usefixtures("forked_python")
def test_groups_alone_are_scored_by_a_function(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(examples)
    depth_model(examples)
    found = json_of("sensitivity", "depth.onnx", "--to", "int8", "--calibration", "train.npz", "--score",
                    "depth.py:abs_rel", "--output", "run")  # fmt: skip
    assert found["figure"] == "abs_rel"
    assert 0 < found["groups"][0]["score"]["loss"] < 0.1


@pytest.mark.long
@pytest.mark.usefixtures("forked_python")
def test_quantize_searches_by_a_function_and_decide_takes_one_itself(
    examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(examples)
    depth_model(examples)
    found = json_of("quantize", "depth.onnx", "--to", "int8", "--calibration", "train.npz", "--keep-score", 0.05,
                    "--score", "depth.py:abs_rel", "--output", "low.onnx")  # fmt: skip
    assert found["search"]["figure"] == "abs_rel"
    assert 0 < found["search"]["baseline"] < 0.02
    assert found["search"]["chosen"]["loss"] <= 0.05
    Path("near.py").write_text("def nearness(outputs, target):\n    return 1 - abs(outputs['depth'] - target).mean()\n")
    monkeypatch.syspath_prepend(examples)
    decided = tw.decide(
        "depth.onnx", data="val.npz", calibration="train.npz", score=importlib.import_module("near").nearness,
        better="higher", backends="ort-cpu", precisions="fp32,fp16", repetitions=0, output="run",
    )  # fmt: skip
    assert decided.document.figure == "nearness"
    assert decided.document.rows[0].score
    assert 0.9 < decided.document.rows[0].score.value < 1


@pytest.mark.parametrize("guard", ["", 'if __name__ == "__main__":\n    '])
def test_a_script_that_decides_by_its_own_function_ends(tmp_path: Path, guard: str) -> None:
    """Its worker loads the script again, which without a guard asks for another worker."""
    depth_model(tmp_path)
    (tmp_path / "script.py").write_text(
        "import trt_workbench.api as tw\n\n\ndef mine(outputs, target):\n"
        "    return abs(outputs['depth'] - target).mean()\n\n\nmine.better = 'lower'\n"
        f"{guard}tw.decide('depth.onnx', data='val.npz', score=mine, backends='ort-cpu', precisions='fp32,fp16',"
        " repetitions=0, output='run')\n"
    )
    # what hangs would start processes in sessions of their own, which end with those that started them
    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode == 0) == (tmp_path / "run" / "decision.json").is_file() == bool(guard), ended.stderr
    if not guard:
        said = ended.stderr.splitlines()[-1]
        assert said.startswith("trt_workbench.core.errors.UsageProblem: score=")
        held(said.partition(": ")[2])


def test_a_loss_that_a_score_cannot_have_is_refused() -> None:
    held(stderr_of("decide", "shapes-classifier", "--max-loss", 2, "--limit", 2))


@pytest.mark.parametrize("score", ["cosine", "top1", "perplexity", "wer"])
def test_a_score_is_not_ignored_beside_the_embedded_data(score: str) -> None:
    held(stderr_of("decide", "shapes-classifier", "--score", score, "--limit", 2))


@pytest.mark.long
@pytest.mark.usefixtures("forked_python")
def test_images_and_their_targets_are_lines(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model of no family: it finds the mean of the channels at each place."""
    monkeypatch.chdir(examples)
    nodes = "mean = ReduceMean<axes=[1], keepdims=0>(x) depth = Add(mean, one)"
    text = f"g (float[n,3,8,8] x) => (float[n,8,8] depth) {{ {nodes} }}"
    write_onnx(examples / "m.onnx", text, {"one": np.ones(1, np.float32)})
    errors = []
    for name in ("val", "train"):
        rows = []
        for place in range(32):
            image = GENERATOR.integers(0, 256, (8, 8, 3), np.uint8)
            truth = (image.mean(axis=2) / 255 + 1) * GENERATOR.uniform(0.9, 1.1, (8, 8))
            cv2.imwrite(f"{name}{place}.png", image)
            np.save(f"{name}{place}.npy", truth)
            rows.append({"file_name": f"{name}{place}.png", "truth": f"{name}{place}.npy"})
            errors += [np.mean(abs(image.mean(axis=2) / 255 + 1 - truth) / truth)] * (name == "val")
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = (
        "--data",
        "val.jsonl",
        "--calibration",
        "train.jsonl",
        "--score",
        "depth.py:abs_rel",
        "--precisions",
        "fp32,fp16",
    )
    said = stderr_of("decide", "m.onnx", *words, *ASKED)
    assert "To prepare images, --normalize and --resize say enough." in said
    found = json_of("decide", "m.onnx", *words, "--normalize", "none", "--resize", "stretch", *ASKED, code=1)
    assert found["rows"][0]["score"]["value"] == pytest.approx(np.mean(errors), rel=1e-3)
    prepared = ("--normalize", "none", "--resize", "stretch", "--backend", "ort-cpu")
    alone = json_of("eval-vision", "m.onnx", "--data", "val.jsonl", "--score", "depth.py:abs_rel", *prepared)
    assert alone["score"]["value"] == found["rows"][0]["score"]["value"]
    lines = Path("val.jsonl").read_text()
    raw = {
        "raw": lines.replace("file_name", "x"),
        "list": "\n".join([json.dumps({"x": [[[0.5] * 3] * 8] * 8, "truth": 1.0})] * 8),
    }
    for name, remedy in {"raw": " (an image named by file_name is prepared)", "list": ""}.items():
        Path(f"{name}.jsonl").write_text(raw[name])
        said = stderr_of("eval-vision", "m.onnx", "--data", f"{name}.jsonl", "--score", "depth.py:abs_rel")
        assert said.endswith(f"but the model takes [3, 8, 8] per sample{remedy}: {name}.jsonl:1\n")


@pytest.mark.usefixtures("forked_python")
def test_a_module_in_the_current_folder_scores_as_its_file_does(
    examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(examples)
    depth_model(examples)
    (examples / "metrics").mkdir()
    (examples / "depth.py").rename(examples / "metrics" / "__init__.py")
    words = ("depth.onnx", "--data", "val.npz", *COMMANDS["eval-vision"])
    found = [
        json_of("eval-vision", *words, "--score", place)["score"]
        for place in ("metrics:abs_rel", "metrics/__init__.py:abs_rel")
    ]
    assert found[0] == found[1]
    said = stderr_of("eval-vision", *words, "--score", "absent.here:abs_rel")
    held(said)
    assert "line " not in said  # of the library that imports


@pytest.mark.parametrize(
    "value",
    [{"x": [1.0]}, None, [1, "a"], [[1, 2], [3]], [{"box": [1, 2]}], [True, None]],
)
@pytest.mark.usefixtures("forked_python")
def test_a_target_that_is_no_array_is_refused_and_no_text_is_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    depth_model(tmp_path)
    Path("val.jsonl").write_text("".join(json.dumps({"x": [0.0] * 16, "truth": value}) + "\n" for _ in range(16)))
    Path("s.py").write_text("def mine(outputs, target):\n    return 1.0\nmine.better = 'lower'\n")
    words = ("--data", "val.jsonl", "--score", "s.py:mine", *COMMANDS["eval-vision"])
    said = stderr_of("eval-vision", "depth.onnx", *words)
    assert said.endswith("): val.jsonl:1\n")
    held(said)


@pytest.mark.parametrize(
    ("given", "is_right"), [([1, 2], True), ([1.0, 2.0], True), ([1.5, 2], False), ([-1, 2], False)]
)
@pytest.mark.usefixtures("forked_python")
def test_an_input_of_a_line_has_the_value_that_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[float], is_right: bool
) -> None:
    """Numbers that the type of the input does not have were cut to ones that it has."""
    monkeypatch.chdir(tmp_path)
    write_onnx(tmp_path / "m.onnx", "g (uint8[n,2] x) => (float[n,2] y) { y = Cast<to=1>(x) }")
    Path("s.py").write_text("def mine(outputs, target):\n    return outputs['y'][0]\nmine.better = 'lower'\n")
    lines = [json.dumps({"x": given, "t": 1}), *(json.dumps({"x": [place, 3], "t": 1}) for place in range(9))]
    Path("val.jsonl").write_text("\n".join(lines))
    result = trtw("eval-vision", "m.onnx", "--data", "val.jsonl", "--score", "s.py:mine", "--backend", "ort-cpu")
    assert ("mine 3.7000" in result.output) == is_right
    if not is_right:
        held(result.output.splitlines()[-1])


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.usefixtures("forked_python")
def test_samples_of_different_shapes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.chdir(tmp_path)
    write_onnx(tmp_path / "m.onnx", "g (float[n,t] x) => (float[n,t] y) { y = Neg(x) }")
    Path("s.py").write_text("def mine(outputs, target):\n    return outputs['y'].sum()\nmine.better = 'lower'\n")
    Path("val.jsonl").write_text("".join(json.dumps({"x": [0.0] * (1 + k % 3), "t": 1}) + "\n" for k in range(16)))
    words = ("--data", "val.jsonl", "--score", "s.py:mine", "--backend", "ort-cpu", "--batch", batch)
    held(stderr_of("eval-vision", "m.onnx", *words))


SMALL = "    return abs(outputs['depth'] - target).mean() * 1e-7\nmine.better = 'lower'\n"


@pytest.mark.usefixtures("forked_python")
def test_a_small_score_is_shown_by_its_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A squared error may be far below 0.0001, and its loss with it."""
    monkeypatch.chdir(tmp_path)
    depth_model(tmp_path)
    Path("s.py").write_text(f"def mine(outputs, target):\n{SMALL}")
    Path("gate.yaml").write_text(
        "model: depth.onnx\nscore: {score: 's.py:mine', data: val.npz, at_most: {mine: 1e-5}, backends: ort-cpu}\n"
    )
    words = ("depth.onnx", "--data", "val.npz", "--score", "s.py:mine")
    for command, more in (("eval-vision", ()), ("decide", ("--max-loss", 1e-12))):
        shown = trtw(command, *words, *COMMANDS[command], *more, "--output", command).stdout
        score = json_of(command, *words, *COMMANDS[command], *more)
        value = (score["rows"][0] if command == "decide" else score)["score"]["value"]
        assert 0 < value < 1e-7
        for text in (shown, Path(f"{command}/report.html").read_text()):
            near = [float(one) for one in re.findall(r"\d\.\d{5,}", text)]
            assert any(one == pytest.approx(value, rel=1e-3) for one in near)
            assert "0.0000 " not in text
    said = trtw("gate", "gate.yaml", "--output", "gate").stdout
    assert float(re.findall(r"mine (\d\.\d+) of fp32", said)[0]) == pytest.approx(value, rel=1e-3)
    assert float(re.findall(r"(\d\.\d+) below at_most", said)[0]) == pytest.approx(1e-5 - value, rel=1e-3)


@pytest.mark.usefixtures("forked_python")
def test_an_overview_has_the_scores_of_functions(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one figure are a range; those of two are none."""
    monkeypatch.chdir(examples)
    depth_model(examples)
    Path("s.py").write_text(
        "def mine(outputs, target):\n    return {'mine': 2 - abs(outputs['depth'] - target).mean(), 'b': 3}\n"
    )
    runs = {
        "a": ("depth.py:abs_rel",),
        "b": ("depth.py:abs_rel", "--seed", 3),
        "c": ("s.py:mine", "--better", "higher"),
    }
    for name, score in runs.items():
        words = ("--data", "val.npz", "--limit", 20, "--score", *score, *COMMANDS["eval-vision"])
        json_of("eval-vision", "depth.onnx", *words, "--output", name)
    assert trtw("report", *runs, "--output", "all").exit_code == 0
    text = Path("all/overview.md").read_text()
    values = {name: json.loads(Path(f"{name}/metrics.json").read_text())["score"]["value"] for name in runs}
    for name in "ab":
        assert f"| depth.onnx | ort-cpu | fp32 | abs_rel {values[name]:.4f} |" in text
    assert f"| mine {values['c']:.4f}, b 3.0000 |" in text
    low, high = sorted((values["a"], values["b"]))
    assert f"- depth.onnx: abs_rel {low:.4f} to {high:.4f} over 2 rows." in text
    assert f"- depth.onnx on ort-cpu in fp32: mine {values['c']:.4f}." in text
    assert "abs_rel" in Path("all/overview.html").read_text()
