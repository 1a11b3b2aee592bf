"""Run directories of shards, as tests make, compare and change them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.in_app import stdout_of

from trt_workbench.core.shard_files import SHARD, ShardDocument, write_document

# What one process and shards write alike, byte for byte.
SCORED = ("predictions.json", "curves.json", "confusion.json")
# Of metrics.json and records.jsonl: times, and what says that there were shards.
_TIMES = ("images_per_s", "wall_s", "latency_ms", "notes", "shards", "provenance")


def shards_of(words: Sequence[object], count: int, folder: Path) -> Path:
    """Run the shards of a command into numbered folders."""
    for index in range(count):
        assert "is done" in stdout_of(*words, "--shard", f"{index}/{count}", "--output", folder / str(index))
    return folder


def without_times(run: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return metrics and records of a run without what a second run has otherwise."""
    metrics = json.loads((run / "metrics.json").read_text())
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    times = [key for key in records[0] if key.endswith("_ms")]
    return (
        {key: value for key, value in metrics.items() if key not in _TIMES},
        [{key: value for key, value in one.items() if key not in times} for one in records],
    )


def assert_scored_alike(run: Path, other: Path) -> None:
    for name in SCORED:
        assert (run / name).read_bytes() == (other / name).read_bytes(), name
    assert without_times(run) == without_times(other)


def edited(place: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
    """Change what shard.json says, or files beside it, and write the checksums that then fit."""
    document = json.loads((place / SHARD).read_text())
    change(document)
    one = ShardDocument.model_validate(document)
    facts = one.model_dump(exclude={"index", "count", "first", "end", "files", "checksum"})
    write_document(place, one.shard, range(one.first, one.end), **facts)


def with_other_digit(path: Path, after: str = "") -> str:
    """Change a digit of a JSON text, behind some text; return what was there."""
    text = path.read_text()
    start = text.index(after) + len(after)
    place = next(place for place in range(start, len(text)) if text[place].isdecimal() and text[place] != "0")
    path.write_text(f"{text[:place]}{int(text[place]) % 9 + 1}{text[place + 1 :]}")
    json.loads(path.read_text().splitlines()[0] if path.suffix == ".jsonl" else path.read_text())
    return text
