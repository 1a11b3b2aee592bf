"""What an earlier run of `decide` has that need not be done again: scores of rows, and latencies of those rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from trt_workbench.bench import samples_of
from trt_workbench.core.documents import Strict, append_lines, read_document, write_json
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.records import Record, read_records
from trt_workbench.core.shard_files import circumstances
from trt_workbench.decide.tried import DraftRow
from trt_workbench.model.opened import sha256_of

_FILE = "row.json"


class ScoredRow(Strict):
    """row.json, next to the files of a score.

    Attributes:
        asked: hash of everything that decides the score: model, data, options, versions, GPU or processor.
        answer: of the worker that scored it.
    """

    schema_version: Literal[1] = 1
    asked: str
    answer: dict[str, Any]


class Earlier:
    """An earlier run; nothing is taken where there is none."""

    def __init__(self, directory: Path | None, folder: Path) -> None:
        """Look at the run.

        Args:
            directory: of the earlier run; None without one.
            folder: of this one.
        """
        self._directory, self._folder = directory, folder
        self._here = circumstances(cuda=True)
        self._taken: set[str] = set()

    def take(self, one: DraftRow, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the worker's answer for a row that was scored as it is asked now, with its files; else None."""
        assert one.folder is not None
        there = self._directory and self._directory / one.folder.relative_to(self._folder)
        if not there or not (there / _FILE).is_file():
            return None
        row = read_document(there / _FILE, ScoredRow)
        if row.asked != self._asked(one, request):
            return None
        shutil.copytree(there, one.folder, dirs_exist_ok=True)
        self._taken.add(one.runtime)
        return row.answer

    def keep(self, one: DraftRow, request: Mapping[str, Any], answer: dict[str, Any]) -> None:
        """Note what a row was asked for and answered, for a later run. Raises OSError."""
        assert one.folder is not None
        write_json(one.folder / _FILE, ScoredRow(asked=self._asked(one, request), answer=answer))

    def latencies(self, rows: Iterable[DraftRow]) -> list[Record]:
        """Return the measured repetitions of those rows whose score was taken, and put them into this run."""
        if self._directory is None or not (self._directory / "records.jsonl").is_file():
            return []
        names = {one.runtime for one in rows} & self._taken
        kept = [one for one in read_records(self._directory / "records.jsonl") if one.runtime in names]
        kept = [one for one in kept if one.status == "ok"]
        for record in kept:
            if record.samples:
                shutil.copyfile(samples_of(self._directory, record), self._folder / record.samples)
        if kept:
            append_lines(self._folder / "records.jsonl", kept)
        return kept

    def _asked(self, one: DraftRow, request: Mapping[str, Any]) -> str:
        assert one.path is not None
        text = json.dumps(request, sort_keys=True, default=str).replace(str(self._folder), "RUN")
        return hash_document({"request": text, "model": sha256_of(one.path), **self._here})
