"""Run directories of shards that tests change."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trt_workbench.core.shard_files import SHARD, ShardDocument, write_document


def edited(place: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
    """Change what shard.json says, or files beside it, and write the checksums that then fit."""
    document = json.loads((place / SHARD).read_text())
    change(document)
    write_document(place, ShardDocument.model_validate(document))


def with_other_digit(path: Path, after: str = "") -> str:
    """Change a digit of a JSON text, behind some text; return what was there."""
    text = path.read_text()
    start = text.index(after) + len(after)
    place = next(place for place in range(start, len(text)) if text[place].isdecimal() and text[place] != "0")
    path.write_text(f"{text[:place]}{int(text[place]) % 9 + 1}{text[place + 1 :]}")
    json.loads(path.read_text().splitlines()[0] if path.suffix == ".jsonl" else path.read_text())
    return text
