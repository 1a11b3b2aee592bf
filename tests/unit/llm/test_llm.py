"""Perplexities of real models against an independent computation with plain transformers."""

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.core.errors import DeviceFailure, OutOfMemory, UsageProblem

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from trt_workbench.llm import run as evaluation  # noqa: E402
from trt_workbench.llm.opening import parse_backends  # noqa: E402
from trt_workbench.llm.outcome import failures_of  # noqa: E402
from trt_workbench.llm.run import LlmEvaluation, LlmOutcome, LlmRequest  # noqa: E402
from trt_workbench.llm.settings import BackendChoice  # noqa: E402
from trt_workbench.llm.sharding import what_decides  # noqa: E402

pytestmark = pytest.mark.usefixtures("llm_output")

Folders = Callable[[str], Path]
TEXT = Path(__file__)
TORCH, ORT = BackendChoice("torch"), BackendChoice("ort-cpu")


def evaluate(folder: Path, out: Path, **options: Any) -> LlmOutcome:
    out.mkdir(exist_ok=True)
    (out / "run.json").touch()  # only a run's folder is written to again
    with LlmEvaluation(asked(folder, **options)) as run:
        return run.run(out)


def asked(folder: Path, **options: Any) -> LlmRequest:
    return LlmRequest(model=folder, **{"text": TEXT, "limit": 700, "device": "cpu", **options})


def plain_perplexity(folder: Path, window: int, stride: int, limit: int, *, bos: bool = False) -> tuple[float, int]:
    """The strided perplexity of transformers' documentation, with summed instead of averaged losses."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = torch.tensor([tokenizer(TEXT.read_text(), add_special_tokens=False).input_ids[:limit]])
    content = window - bos
    nll, count, previous = 0.0, 0, 0
    for begin in range(0, ids.shape[1], stride):
        end = min(begin + content, ids.shape[1])
        inputs = ids[:, begin:end]
        labels = inputs.clone()
        labels[:, : previous - begin] = -100
        if bos:
            start = torch.tensor([[tokenizer.bos_token_id]])
            inputs, labels = torch.cat([start, inputs], 1), torch.cat([torch.full_like(start, -100), labels], 1)
        with torch.no_grad():
            logits = model(inputs).logits
        loss = torch.nn.functional.cross_entropy(logits[0, :-1].double(), labels[0, 1:], reduction="none")
        nll += loss.sum().item()
        count += int((labels[0, 1:] != -100).sum())
        previous = end
        if end == ids.shape[1]:
            break
    return math.exp(nll / count), count


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt", "gemma2"])
def test_perplexity(llm_folder: Folders, tmp_path: Path, family: str) -> None:
    outcome = evaluate(llm_folder(family), tmp_path, window=32, stride=12, batch=3)
    expected, count = plain_perplexity(llm_folder(family), 32, 12, 700)
    reference, ort = outcome.metrics["backends"]
    assert outcome.metrics["perplexity"] == pytest.approx(expected, rel=1e-6)
    assert outcome.metrics["tokens"] == reference["tokens"] == ort["tokens"] == count == 699
    assert abs(ort["relative_difference"]) < 1e-5
    assert 0 < ort["max_logit_difference"] < 1e-4
    assert [row["precision_ran"]["label"] for row in (reference, ort)] == ["fp32", "fp32"]
    assert ort["top1_agreement"] > 0.995  # random weights: near ties
    assert ort["kl_divergence"] < 1e-9
    assert not failures_of(outcome.metrics)
    assert outcome.metrics["passed"]


def test_begin_of_text_before_each_window(llm_folder: Folders, tmp_path: Path) -> None:
    outcome = evaluate(llm_folder("llama"), tmp_path, window=32, stride=31, bos="window", backends=(TORCH,))
    expected, count = plain_perplexity(llm_folder("llama"), 32, 31, 700, bos=True)
    assert outcome.metrics["perplexity"] == pytest.approx(expected, rel=1e-6)
    assert outcome.metrics["tokens"] == count == 700


@pytest.mark.parametrize("own", [1, 2])
def test_a_text_that_begins_with_begin_of_text_gets_one(llm_folder: Folders, tmp_path: Path, own: int) -> None:
    text = tmp_path / "text.txt"
    text.write_text("<|end|>" * own + TEXT.read_text(encoding="utf-8"), encoding="utf-8")
    options: dict[str, Any] = {"window": 32, "stride": 31, "bos": "window", "backends": (TORCH,)}
    (tmp_path / "with").mkdir()
    found = evaluate(llm_folder("llama"), tmp_path / "with", text=text, **options).metrics
    plain = evaluate(llm_folder("llama"), tmp_path, **options).metrics
    assert (found["perplexity"], found["tokens"]) == (plain["perplexity"], plain["tokens"])
    assert found["bits_per_byte"] == plain["bits_per_byte"]
    assert found["text"]["tokens"] == plain["text"]["tokens"] + own
    assert any("begins with the begin-of-text token" in note for note in found["notes"])
    # without one of the window's own it stays in the text
    without = evaluate(llm_folder("llama"), tmp_path / "with", text=text, **options | {"bos": "none"}).metrics
    assert without["perplexity"] != plain["perplexity"]


def test_the_files(llm_folder: Folders, tmp_path: Path) -> None:
    outcome = evaluate(llm_folder("llama"), tmp_path, backends=(ORT,))
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["perplexity"] == outcome.metrics["perplexity"]
    # the reference is always there, and first
    assert [(row["backend"], row["precision"]) for row in metrics["backends"]] == [
        ("torch", "fp32"),
        ("ort-cpu", "fp32"),
    ]
    assert metrics["recipe"]["window"] == 64
    assert metrics["text"]["tokens_used"] == 700
    assert metrics["text"]["sha256"] == hashlib.sha256(TEXT.read_bytes()).hexdigest()
    assert len(metrics["model"]["tokenizer_sha256"]) == 64
    assert metrics["backends"][1]["provenance"]["providers"] == ["CPUExecutionProvider"]
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    for name in ("torch", "ort-cpu"):
        mine = [record for record in records if record["backend"] == name]
        row = next(row for row in metrics["backends"] if row["backend"] == name)
        assert sum(record["tokens"] for record in mine) == metrics["tokens"]
        assert sum(record["nll"] for record in mine) / metrics["tokens"] == pytest.approx(row["nll_per_token"])
    # bits for a byte of the text, from the reference's own figures
    scored_bytes = len(_text_of(llm_folder("llama"), 1, 700).encode())
    expected = metrics["backends"][0]["nll_per_token"] * metrics["tokens"] / math.log(2) / scored_bytes
    assert metrics["bits_per_byte"] == pytest.approx(expected)


def _text_of(folder: Path, first: int, last: int) -> str:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    text: str = tokenizer.decode(tokenizer(TEXT.read_text(), add_special_tokens=False).input_ids[first:last])
    return text


class Wrapped:
    """An opened model whose logits are changed."""

    def __init__(self, model: Any, change: Callable[[np.ndarray], np.ndarray]) -> None:
        self._model, self._change = model, change
        self.provenance: dict[str, Any] = {}

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        return self._change(self._model.logits(tokens))

    def last_logits(self, tokens: np.ndarray) -> np.ndarray:
        return self.logits(tokens)[:, -1]

    def explained(self, tokens: np.ndarray) -> str:
        return str(self._model.explained(tokens))

    def close(self) -> None:
        self._model.close()


def wrap(monkeypatch: pytest.MonkeyPatch, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change what ort-cpu returns."""
    real = evaluation.open_logits

    def opened(choice: BackendChoice, *rest: Any) -> Any:
        model = real(choice, *rest)
        return Wrapped(model, change) if choice == ORT else model

    monkeypatch.setattr(evaluation, "open_logits", opened)


def test_the_gate(llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a random model is less wrong when it is less sure
    wrap(monkeypatch, lambda logits: logits * np.float32(1.1))
    outcome = evaluate(llm_folder("llama"), tmp_path)
    change = outcome.metrics["backends"][1]["relative_difference"]
    assert change > 0.01
    assert len(failures_of(outcome.metrics)) == 1
    assert "the gate is 1 %" in failures_of(outcome.metrics)[0]
    assert not outcome.metrics["passed"]
    assert evaluate(llm_folder("llama"), tmp_path, max_ppl_increase=change * 1.01).metrics["passed"]


def test_nan_fails_the_gate(llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrap(monkeypatch, lambda logits: logits * np.float32("nan"))
    outcome = evaluate(llm_folder("llama"), tmp_path)
    assert "not a number" in failures_of(outcome.metrics)[0]
    row = json.loads((tmp_path / "metrics.json").read_text())["backends"][1]
    assert row["perplexity"] is None
    assert row["relative_difference"] is None


def test_out_of_memory(llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small_device(logits: np.ndarray) -> np.ndarray:
        if len(logits) > 2:
            raise OutOfMemory("It is full.")
        return logits

    wrap(monkeypatch, small_device)
    with refused(OutOfMemory):
        evaluate(llm_folder("llama"), tmp_path, batch=8)


def test_an_interrupt_keeps_what_was_done(llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def interrupted(logits: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return logits

    wrap(monkeypatch, interrupted)
    outcome = evaluate(llm_folder("llama"), tmp_path)
    assert outcome.status == "partial"
    reference, ort = outcome.metrics["backends"]
    assert reference["tokens"] == ort["tokens"] == 63 + 32 + 32
    assert (outcome.metrics["interrupted"], outcome.metrics["bits_per_byte"]) == ("perplexity", None)


@pytest.mark.long(but=1)
@pytest.mark.parametrize("seed", range(3))
def test_wherever_a_run_is_interrupted_it_gives_what_one_that_is_not_gives(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Twice, each time in any call of a backend; the last line of a record is not whole."""
    generator, calls, last, earlier = np.random.default_rng(seed), 0, 10**9, list[Path]()

    def counted(logits: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == last:
            raise KeyboardInterrupt
        return logits

    wrap(monkeypatch, counted)
    whole = evaluate(llm_folder("llama"), tmp_path / "whole", limit=400, batch=2)
    left = len((tmp_path / "whole" / "records.jsonl").read_text().splitlines()) // 2  # of two backends
    for ends in (2, 1, 0):
        calls, out = 0, tmp_path / str(ends)
        last = int(generator.integers(ends, left - ends + 2)) if ends else 10**9
        out.mkdir()
        with LlmEvaluation(asked(llm_folder("llama"), limit=400, batch=2)) as run:
            outcome = run.run(out, earlier=lambda _: earlier[::-1])
        earlier.append(out)
        if ends:
            assert outcome.status == "partial"
            left -= last - 1
            with (out / "records.jsonl").open("a") as file:
                file.write((out / "records.jsonl").read_text()[:40])
    assert calls == left
    assert outcome.metrics == whole.metrics
    assert (out / "records.jsonl").read_text() == (tmp_path / "whole" / "records.jsonl").read_text()


def test_another_calibration_text_is_another_result(llm_folder: Folders, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    found = []
    for words in ("one text", "one text", "another"):
        text.write_text(words)
        found.append(what_decides(asked(llm_folder("llama"), calibration=str(text))))
    assert found[0] == found[1] != found[2]


GENERATING = {"modes": ("perplexity", "generate-cached"), "prompts": (6, 3), "new_tokens": 4}


def test_backends_of_which_none_generates(llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    int8, int3 = BackendChoice("torch", "int8"), BackendChoice("ort-cpu", "int3")
    with refused(UsageProblem):
        evaluate(llm_folder("llama"), tmp_path, backends=(int8, int3), **{**GENERATING, "modes": ("generate-cached",)})
    assert not (tmp_path / "metrics.json").exists()

    # beside a perplexity it is a row
    from trt_workbench.llm import generation_check as llm_generation

    def refuse(*_: Any) -> Any:
        raise DeviceFailure("There is no room for a cache.")

    real = llm_generation.open_cached
    monkeypatch.setattr(
        llm_generation, "open_cached", lambda choice, *rest: (refuse if choice == ORT else real)(choice, *rest)
    )
    outcome = evaluate(llm_folder("llama"), tmp_path, backends=(ORT,), limit=100, **GENERATING)
    assert (outcome.status, outcome.metrics["interrupted"], failures_of(outcome.metrics)) == ("complete", None, [])
    assert [row["failure"] for row in outcome.metrics["generation"]] == ["There is no room for a cache."] * 2
    assert isinstance(outcome.generation_error, DeviceFailure)
    assert not outcome.metrics["passed"]


def test_precisions_of_torch(llm_folder: Folders, tmp_path: Path) -> None:
    half = BackendChoice("torch", "bf16")
    row = evaluate(llm_folder("llama"), tmp_path, backends=(half,), limit=100).metrics["backends"][1]
    assert row["precision"] == "bf16"
    assert 1e-4 < row["max_logit_difference"] < 1
    with refused(UsageProblem):
        evaluate(llm_folder("llama"), tmp_path, backends=(BackendChoice("torch", "int8"),))


def test_threads(llm_folder: Folders, tmp_path: Path) -> None:
    rows = evaluate(llm_folder("llama"), tmp_path, limit=100, threads=1).metrics["backends"]
    assert rows[0]["provenance"]["threads"] == 1
    assert rows[1]["provenance"]["intra_op_threads"] == 1


def test_a_folder_without_a_tokenizer(llm_folder: Folders, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((llm_folder("llama") / name).read_bytes())
    with refused(UsageProblem):
        LlmEvaluation(asked(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{")
    with refused(UsageProblem):
        LlmEvaluation(asked(tmp_path))
    (tmp_path / "tokenizer.json").write_bytes((llm_folder("llama") / "tokenizer.json").read_bytes())
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": "many"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with refused(UsageProblem):
        LlmEvaluation(asked(tmp_path))


def test_a_tokenizer_of_another_model(llm_folder: Folders, tmp_path: Path) -> None:
    for path in llm_folder("llama").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "vocab_size": 200}))
    with refused(UsageProblem):
        LlmEvaluation(asked(tmp_path))


@pytest.mark.parametrize("content", [b"short", b" \n", b"\xff\xfe"])
def test_texts_that_cannot_be_used(llm_folder: Folders, tmp_path: Path, content: bytes) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(content)
    with refused(UsageProblem):
        LlmEvaluation(asked(llm_folder("llama"), text=text))


def test_a_text_that_is_not_there(llm_folder: Folders, tmp_path: Path) -> None:
    with refused(UsageProblem):
        LlmEvaluation(asked(llm_folder("llama"), text=tmp_path / "gone.txt"))


def test_names_of_backends() -> None:
    assert parse_backends("torch, ort-cuda:fp16") == (TORCH, BackendChoice("ort-cuda", "fp16"))
    for text in ("", "auto", "tensorflow", "torch,torch:fp32"):
        with refused(UsageProblem):
            parse_backends(text)


def test_remarks_on_the_checkpoint_and_its_tokens(llm_folder: Folders, tmp_path: Path) -> None:
    def notes(folder: Path, backends: str = "torch") -> list[str]:
        found: list[str] = evaluate(folder, tmp_path, limit=200, backends=parse_backends(backends)).metrics["notes"]
        return found

    assert notes(llm_folder("llama")) == []
    # transformers reads Qwen2's vocabulary with a tokenizer of its own
    (tokens,) = notes(llm_folder("qwen2"))
    assert re.search(r"reads the tokenizer as Qwen2Tokenizer.* splits the text into \d+ tokens", tokens)
    fewer = tmp_path / "fewer"
    shutil.copytree(llm_folder("llama"), fewer)
    config = json.loads((fewer / "config.json").read_text())
    (fewer / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    (weights,) = notes(fewer, "torch,torch:bf16")
    assert "transformers' own llama has no place for 9 of its weights" in weights
