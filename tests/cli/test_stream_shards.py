"""Shards of eval-stream: lanes of one process, but for times."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.in_app import json_of, stderr_of, stdout_of
from tests.shards import edited, shards_of, with_other_digit
from tests.texts import held

pytestmark = pytest.mark.usefixtures("blank_pictures")

WORDS = ("eval-stream", "--backend", "torch", "--precision", "fp32,bf16", "--chunks", 12)
_TIMES = ("latency_ms", "first_call_ms", "resident", "notes", "directory", "shards", "command_line", "provenance")


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in _TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def test_shards_give_what_one_process_gives(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shards = shards_of(WORDS, 3, tmp_path / "shards")  # of two precisions
    assert "already done" in stdout_of(*WORDS, "--shard", "2/3", "--output", shards / "2")
    one = json_of(*WORDS, "--no-report", "--output", tmp_path / "one")
    merged = json_of("merge", shards, "-o", tmp_path / "merged")
    assert without_times(merged) == without_times(one)
    assert [lane["name"] for lane in merged["lanes"]] == [lane["name"] for lane in one["lanes"]]
    runs = [(tmp_path / name / "records.jsonl").read_text().splitlines() for name in ("one", "merged")]
    records = [[without_times(json.loads(line)) for line in lines] for lines in runs]
    assert records[0] == records[1]
    assert len(records[0]) == 12 * 4
    assert "Merged from 3 shards of 3." in (tmp_path / "merged" / "report.html").read_text()


@pytest.mark.parametrize("more", [("--faults",), ("--record",), ("--streams", "2")])
def test_what_shards_do_not_have(tmp_path: Path, more: tuple[str, ...]) -> None:
    held(stderr_of(*WORDS, "--shard", "0/2", "--output", tmp_path / "0", *more))


def test_shards_of_other_streams_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    stdout_of(*WORDS, "--shard", "0/2", "--output", tmp_path / "0")
    stdout_of(*WORDS, "--shard", "1/2", "--output", tmp_path / "1", "--seed", 7)
    held(stderr_of("merge", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "merged"))
    for name in ("records.jsonl", "metrics.json"):
        known = with_other_digit(tmp_path / "0" / name, "_ms")
        held(stderr_of("merge", tmp_path / "0", "-o", tmp_path / "merged", "--partial"))
        (tmp_path / "0" / name).write_text(known)
    records = tmp_path / "0" / "records.jsonl"
    records.write_text("".join(records.read_text().splitlines(keepends=True)[:-1]))
    edited(tmp_path / "0")
    held(stderr_of("merge", tmp_path / "0", "-o", tmp_path / "merged", "--partial"))
