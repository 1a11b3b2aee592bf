"""What an earlier run of `decide` has that need not be done again: scores of rows, and latencies of those rows."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from trt_workbench.backends.registry import gpu_in_use
from trt_workbench.bench import measured_in, put_measured
from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.core.hashing import has_hash, hash_document
from trt_workbench.core.records import Record
from trt_workbench.core.work import identity, why_not
from trt_workbench.decide.tried import DraftRow
from trt_workbench.model.opened import sha256_of

_FILE = "row.json"
_OF_JOB = "the model, its data or an option is another"


class ScoredRow(Strict):
    """row.json, next to the files of a score.

    Attributes:
        asked: hash of everything that decides the score: model, data, options, versions, GPU or processor.
        here: the versions, the GPU or the processor among that.
        answer: of the worker that scored it.
    """

    schema_version: Literal[1] = 1
    asked: str
    here: dict[str, Any]
    answer: dict[str, Any]


class Earlier:
    """The runs in the place of this one, newest first; nothing is taken where there is none."""

    def __init__(self, directories: Sequence[Path], folder: Path, note: Callable[[str], None] = lambda _: None) -> None:
        """Look at the runs.

        Args:
            directories: of the runs.
            folder: of this one.
            note: called with why rows that are there are not taken.
        """
        self._directories, self._folder = directories, folder
        self._asked_for: set[str] = set()
        self._reasons: set[str] = set()
        self._note = note
        self._measured = measured_in(directories)
        self._most = max(Counter(one.runtime for _, one in self._measured).values(), default=0)

    def take(self, one: DraftRow, request: Mapping[str, Any], repetitions: int) -> dict[str, Any] | None:
        """Return the worker's answer for a row that was scored as it is asked now, with its files; else None.

        A row whose engine is not here any more has to have so many latencies, and as many as any other of that run:
        what is built again is another engine.
        """
        assert one.folder is not None
        self._asked_for.add(one.runtime)
        places = (left / one.folder.relative_to(self._folder) for left in self._directories)
        there = next((place for place in places if (place / _FILE).is_file()), None)
        if there is None:
            return None
        row, (asked, here) = read_document(there / _FILE, ScoredRow), self._asked(one, request)
        if row.asked != asked:
            self._say_why(one, row, here)
            return None
        measured = [each for each in self._measured if each[1].runtime == one.runtime]
        lost = not _has_engine(row.answer["provenance"])
        if lost and repetitions and len(measured) < max(repetitions, self._most):
            return None
        one.measured, one.lost = len(measured), lost
        shutil.copytree(there, one.folder, dirs_exist_ok=True)
        put_measured(measured, self._folder)
        return row.answer

    def keep(self, one: DraftRow, request: Mapping[str, Any], answer: dict[str, Any]) -> None:
        """Note what a row was asked for and answered, for a later run. Raises OSError."""
        assert one.folder is not None
        asked, here = self._asked(one, request)
        write_json(one.folder / _FILE, ScoredRow(asked=asked, here=here, answer=answer))

    def latencies(self, rows: Iterable[DraftRow]) -> list[Record]:
        """Return the measured repetitions of those rows that were taken with theirs."""
        names = {one.runtime for one in rows if one.measured}
        return [one for _, one in self._measured if one.runtime in names]

    def keep_rest(self) -> None:
        """Put what an interrupt or the budget left out into this run, which takes the place of the earlier one."""
        for left in self._directories:
            for file in left.glob(f"scores/**/{_FILE}"):
                here = self._folder / file.parent.relative_to(left)
                if not (here / _FILE).exists():
                    shutil.copytree(file.parent, here, dirs_exist_ok=True)
        put_measured([one for one in self._measured if one[1].runtime not in self._asked_for], self._folder)

    def _say_why(self, one: DraftRow, row: ScoredRow, here: Mapping[str, Any]) -> None:
        """Say once for each reason why rows of the earlier run are done again."""
        why = why_not(row.here, here) or _OF_JOB
        if why not in self._reasons:
            self._reasons.add(why)
            self._note(f"Rows of the earlier run are done again, from {one.label} on: {why}.")

    def _asked(self, one: DraftRow, request: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the hash of all that identifies a row, and what of it the machine and the installation are."""
        assert one.path is not None
        here = identity({}, [gpu_in_use(one.backend, request.get("options", {}))], timed=True)
        text = json.dumps(request, sort_keys=True, default=str).replace(str(self._folder), "RUN")
        return hash_document({"request": text, "model": sha256_of(one.path), **here}), here


def _has_engine(provenance: Mapping[str, Any]) -> bool:
    """Whether the engine that a row was scored on is here, where it had one."""
    plan = provenance.get("plan")
    return not plan or has_hash(Path(str(plan)), provenance["plan_sha256"])
