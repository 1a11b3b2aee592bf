"""The embedded language model: how it is made, its size, and eval-llm on it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fork_server import ForkServer
from tests.scripts import load_script

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from trt_workbench.llm.run import LlmEvaluation, LlmRequest  # noqa: E402

FOLDER = Path(__file__).parents[2] / "models" / "tiny-lm"
HELD_OUT = FOLDER / "held-out.txt"


def script(name: str) -> Any:
    return load_script(FOLDER / f"{name}.py")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What prepare.py writes, from the held-out text in place of the training text."""
    prepare = script("prepare")
    text = HELD_OUT.read_text()
    tokenizer = prepare.train_tokenizer([text])
    folder = tmp_path_factory.mktemp("prepared")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    tokens = prepare.encode(tokenizer, [text[:8000], text[8000:9000]])
    assert tokens[0] == tokenizer.token_to_id(prepare.SEPARATOR) == script("train").SEPARATOR_ID
    assert tokenizer.get_vocab_size() == prepare.VOCABULARY == script("train").VOCABULARY
    assert tokenizer.decode(tokens.tolist()) == text[:9000]
    np.save(folder / "train.npy", tokens)
    np.save(folder / "validation.npy", tokens[:600])
    return folder


# FutureWarnings are errors, as PyTorch announces there what its next release refuses.
TRAIN = """
import runpy, sys, warnings
warnings.simplefilter("error", FutureWarning)
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@pytest.fixture(scope="module")
def trained(fork_server: ForkServer, prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model after two steps of train.py."""
    folder = tmp_path_factory.mktemp("trained")
    options = ["--data", prepared, "--output", folder, "--steps", "2", "--batch", "2", "--score-every", "1"]
    fork_server.run(TRAIN, FOLDER / "train.py", *options, torch=True).check_returncode()
    return folder


def test_training(trained: Path) -> None:
    log = [json.loads(line) for line in (trained / "training-log.jsonl").read_text().splitlines()]
    assert [record["step"] for record in log] == [0, 1, 2]
    assert log[2]["validation_loss"] < log[0]["validation_loss"]
    assert sum(path.stat().st_size for path in trained.iterdir()) < 5_900_000


def test_the_training_stops_in_time(fork_server: ForkServer, prepared: Path, tmp_path: Path) -> None:
    options = ["--data", prepared, "--output", tmp_path, "--seconds", "0", "--batch", "1"]
    fork_server.run(TRAIN, FOLDER / "train.py", *options, torch=True).check_returncode()
    log = (tmp_path / "training-log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in log] == [0]


def test_eval_llm_on_such_a_model(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path))
    request = LlmRequest(model=trained, text=HELD_OUT, limit=1100, device="cpu")
    with LlmEvaluation(request) as evaluation:
        metrics = evaluation.run(tmp_path).metrics
    assert abs(metrics["backends"][1]["relative_difference"]) < 1e-5
    assert metrics["backends"][1]["top1_agreement"] > 0.999
    assert metrics["recipe"]["window"] == 512


def test_the_held_out_text() -> None:
    text = HELD_OUT.read_text()
    assert len(text.encode()) < 200_000
    assert text.startswith("Ruth 1\n\nNow it came to pass in the days when the judges ruled")
    books = {line.rsplit(" ", 1)[0] for line in text.splitlines() if line[-1:].isdigit()}
    assert books == set(script("prepare").HELD_OUT_BOOKS)


def test_the_embedded_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (FOLDER / "model.safetensors").is_file():
        pytest.skip("the trained weights are not in this checkout")
    shipped = [path for path in FOLDER.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in shipped) <= 6_000_000
    monkeypatch.setenv("TRTW_TMP", str(tmp_path))
    request = LlmRequest(model=FOLDER, text=HELD_OUT, limit=3000, device="cpu")
    with LlmEvaluation(request) as evaluation:
        metrics = evaluation.run(tmp_path).metrics
    # a model that knows nothing has 2048
    assert metrics["perplexity"] < 40
    assert abs(metrics["backends"][1]["relative_difference"]) < 1e-5
