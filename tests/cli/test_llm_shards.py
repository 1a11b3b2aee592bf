"""Shards of eval-llm: perplexities and divergences of one process, to the last bit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.in_app import json_of, stderr_of, stdout_of
from tests.shards import edited, shards_of, with_other_digit
from tests.texts import held

from trt_workbench.llm.outcome import ScoredBackend, failures_of, rows_of
from trt_workbench.llm.scores import TokenScores
from trt_workbench.llm.settings import REFERENCE, BackendChoice
from trt_workbench.llm.sharding import _read, _written

pytestmark = pytest.mark.usefixtures("llm_output", "blank_pictures")
Folders = Callable[[str], Path]
TEXT = Path(__file__)


@pytest.fixture
def words(llm_folder: Folders) -> list[object]:
    return ["eval-llm", llm_folder("gpt2"), "--text", TEXT, "--limit", 700, "--batch", 2, "--backends", "torch,ort-cpu"]


def without_shards(metrics: dict[str, Any]) -> dict[str, Any]:
    other = ("notes", "shards", "directory")
    rows = [{key: value for key, value in row.items() if key != "provenance"} for row in metrics["backends"]]
    return {**{key: value for key, value in metrics.items() if key not in other}, "backends": rows}


@pytest.mark.parametrize("count", [3, 25])
def test_shards_give_what_one_process_gives(words: Any, tmp_path: Path, count: int) -> None:
    one = json_of(*words, "--no-report", "--output", tmp_path / "one")
    merged = json_of("merge", shards_of(words, count, tmp_path / "shards"), "-o", tmp_path / "merged")
    assert without_shards(merged) == without_shards(one)
    assert one["perplexity"] > 1
    assert merged["notes"] == [*one["notes"], f"Merged from {count} shards of {count}."]
    records = (tmp_path / "merged" / "records.jsonl").read_bytes()
    assert records == (tmp_path / "one" / "records.jsonl").read_bytes()
    assert f"Merged from {count} shards" in (tmp_path / "merged" / "report.html").read_text()


def test_a_shard_is_done_once_and_missing_ones_are_named(words: Any, tmp_path: Path) -> None:
    shard = [*words, "--shard", "1/3", "--output", tmp_path / "1"]
    assert "Shard 1/3 is done" in stdout_of(*shard)
    assert "Shard 1/3 is already done" in stdout_of(*shard)
    assert "Shard 1/3 is done" in stdout_of(*shard, "--stride", 20)
    held(stderr_of("merge", tmp_path / "1", "-o", tmp_path / "merged"))
    metrics = json_of("merge", tmp_path / "1", "-o", tmp_path / "merged", "--partial", "--no-report")
    assert (metrics["status"], metrics["bits_per_byte"]) == ("partial", None)
    merge = ("merge", tmp_path / "1", "-o", tmp_path / "merged", "--partial")
    records, document = tmp_path / "1" / "records.jsonl", tmp_path / "1" / "shard.json"
    # a sum of the records, and a score that would be merged
    for file, after in ((records, '"nll": '), (document, '"parts"')):
        known = with_other_digit(file, after)
        held(stderr_of(*merge))
        file.write_text(known)
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join(lines[:-1]))
    edited(tmp_path / "1")
    held(stderr_of(*merge))
    records.write_text("".join([*lines[:-1], lines[-1][:20]]))
    edited(tmp_path / "1")
    held(stderr_of(*merge))
    records.write_text("".join(lines))
    edited(tmp_path / "1", lambda document: document["whole"]["backends"][1]["parts"].pop())
    held(stderr_of(*merge))


def test_the_gate_is_of_the_whole(words: Any, tmp_path: Path) -> None:
    for index in range(2):
        options = ("--shard", f"{index}/2", "--output", tmp_path / str(index), "--max-ppl-increase", "0.000000000001")
        stdout_of(*words[:-1], "torch,ort-cpu:bf16", *options)
    assert "The perplexity gate failed." in stderr_of(
        "merge", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "merged", code=1
    )


def test_what_is_no_shard(words: Any, tmp_path: Path) -> None:
    held(stderr_of(*words, "--shard", "0/2"))
    held(stderr_of(*words, "--shard", "0/2", "--output", tmp_path / "0", "--modes", "generate"))


@pytest.mark.parametrize("agreements", [2, float("nan")])
def test_scores_that_are_no_numbers_stay_so(agreements: float) -> None:
    strange = TokenScores(3, float("nan"), agreements, float("inf"), 1e-310, 0.1)
    one = ScoredBackend(BackendChoice("ort-cpu"), [strange], "", [], {})
    (texts,) = json.loads(json.dumps(_written(one)["parts"]))
    assert repr(_read(texts)) == repr(strange)
    base = ScoredBackend(REFERENCE, [TokenScores(3, 1.0)], "", [], {})
    assert failures_of({"backends": rows_of([base, one], 0.01)})
