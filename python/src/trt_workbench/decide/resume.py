"""What an earlier run of `decide` has that need not be done again: scores of rows, and latencies of those rows."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from trt_workbench.bench import samples_of
from trt_workbench.core.documents import Strict, append_lines, read_document, write_json
from trt_workbench.core.hashing import has_hash, hash_document
from trt_workbench.core.records import Record, records_in
from trt_workbench.core.shard_files import circumstances, first_difference
from trt_workbench.decide.tried import DraftRow
from trt_workbench.model.opened import sha256_of

_FILE = "row.json"


class ScoredRow(Strict):
    """row.json, next to the files of a score.

    Attributes:
        asked: hash of everything that decides the score: model, data, options, versions, GPU or processor.
        here: the versions, the GPU or the processor among that.
        answer: of the worker that scored it.
    """

    schema_version: Literal[1] = 1
    asked: str
    here: dict[str, Any] = Field(default_factory=dict)
    answer: dict[str, Any]


class Earlier:
    """An earlier run; nothing is taken where there is none."""

    def __init__(self, directory: Path | None, folder: Path, note: Callable[[str], None] = lambda _: None) -> None:
        """Look at the run.

        Args:
            directory: of the earlier run; None without one.
            folder: of this one.
            note: called with why rows that are there are not taken.
        """
        self._directory, self._folder = directory, folder
        self._here = circumstances(cuda=True, processor=True)
        self._asked_for: set[str] = set()
        self._reasons: set[str] = set()
        self._note = note
        self._measured = [one for one in records_in(directory) if one.status == "ok"] if directory else []
        self._most = max(Counter(one.runtime for one in self._measured).values(), default=0)

    def take(self, one: DraftRow, request: Mapping[str, Any], repetitions: int) -> dict[str, Any] | None:
        """Return the worker's answer for a row that was scored as it is asked now, with its files; else None.

        A row whose engine is not here any more has to have so many latencies, and as many as any other of that run:
        what is built again is another engine.
        """
        assert one.folder is not None
        self._asked_for.add(one.runtime)
        there = self._directory and self._directory / one.folder.relative_to(self._folder)
        if not there or not (there / _FILE).is_file():
            return None
        row = read_document(there / _FILE, ScoredRow)
        if row.asked != self._asked(one, request):
            self._say_why(one, row)
            return None
        measured = [each for each in self._measured if each.runtime == one.runtime]
        lost = not _has_engine(row.answer["provenance"])
        if lost and repetitions and len(measured) < max(repetitions, self._most):
            return None
        one.measured, one.lost = len(measured), lost
        shutil.copytree(there, one.folder, dirs_exist_ok=True)
        self._put(measured)
        return row.answer

    def keep(self, one: DraftRow, request: Mapping[str, Any], answer: dict[str, Any]) -> None:
        """Note what a row was asked for and answered, for a later run. Raises OSError."""
        assert one.folder is not None
        write_json(one.folder / _FILE, ScoredRow(asked=self._asked(one, request), here=self._here, answer=answer))

    def latencies(self, rows: Iterable[DraftRow]) -> list[Record]:
        """Return the measured repetitions of those rows that were taken with theirs."""
        names = {one.runtime for one in rows if one.measured}
        return [one for one in self._measured if one.runtime in names]

    def keep_rest(self) -> None:
        """Put what an interrupt or the budget left out into this run, which may take the place of the earlier one."""
        for file in self._directory.glob(f"scores/**/{_FILE}") if self._directory else ():
            here = self._folder / file.parent.relative_to(self._directory or self._folder)
            if not (here / _FILE).exists():
                shutil.copytree(file.parent, here, dirs_exist_ok=True)
        self._put([one for one in self._measured if one.runtime not in self._asked_for])

    def _say_why(self, one: DraftRow, row: ScoredRow) -> None:
        """Say once for each reason why rows of the earlier run are done again."""
        other = first_difference(row.here, self._here) if row.here else None
        known = "the model, its data or an option" if row.here else "the model, its data, an option or a version"
        why = "{} was {} there and is {} here".format(*other) if other else f"{known} is another"
        if why not in self._reasons:
            self._reasons.add(why)
            self._note(f"Rows of the earlier run are done again, from {one.label} on: {why}.")

    def _put(self, records: Sequence[Record]) -> None:
        for record in records:
            if self._directory and record.samples:
                shutil.copyfile(samples_of(self._directory, record), self._folder / record.samples)
        if records:
            append_lines(self._folder / "records.jsonl", records)

    def _asked(self, one: DraftRow, request: Mapping[str, Any]) -> str:
        assert one.path is not None
        text = json.dumps(request, sort_keys=True, default=str).replace(str(self._folder), "RUN")
        return hash_document({"request": text, "model": sha256_of(one.path), **self._here})


def _has_engine(provenance: Mapping[str, Any]) -> bool:
    """Whether the engine that a row was scored on is here, where it had one."""
    plan = provenance.get("plan")
    return not plan or has_hash(Path(str(plan)), provenance["plan_sha256"])
