"""The files of an eval-llm run; docs/reference/run-directory.md describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trt_workbench.core.documents import append_lines, json_values, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.llm.choice import BackendChoice
from trt_workbench.llm.scores import TokenScores
from trt_workbench.llm.text import Window


class RecordWriter:
    """Writes `records.jsonl` line by line, so that an interrupted run keeps what was done."""

    def __init__(self, path: Path) -> None:
        """Make the file. Raises UsageProblem if that is not possible."""
        self._path = path
        self._append([])

    def window(
        self, choice: BackendChoice, windows: Sequence[Window], shape: tuple[int, ...], scores: TokenScores
    ) -> None:
        """Write the record of one forward pass over windows of one length. Raises UsageProblem if the disk is full."""
        record = {
            "kind": "windows",
            "backend": choice.name,
            "precision": choice.precision,
            "first_token": windows[0].begin,
            "batch": shape[0],
            "length": shape[1],
            "tokens": scores.tokens,
            "nll": scores.nll,
            "max_logit_difference": scores.max_logit_difference,
            "top1_agreements": scores.top1_agreements,
            "kl": scores.kl,
        }
        self._append([plain(record)])

    def _append(self, records: Sequence[Mapping[str, Any]]) -> None:
        try:
            append_lines(self._path, records)
        except OSError as error:
            raise _unwritable(self._path, error) from error


def write_metrics(path: Path, metrics: Mapping[str, Any]) -> None:
    """Write `metrics.json`. Raises UsageProblem if the file cannot be written."""
    try:
        write_json(path, plain(metrics))
    except OSError as error:
        raise _unwritable(path, error) from error


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record or the content of `metrics.json`: NaN and infinity, which JSON cannot carry, are null."""
    return {"schema_version": 1, **json_values(document, str)}


def _unwritable(path: Path, error: OSError) -> UsageProblem:
    return UsageProblem(f"The run's files cannot be written ({error.strerror}); fix that or pass --output: {path}")
