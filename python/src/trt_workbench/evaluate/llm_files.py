"""The files of an eval-llm run; docs/reference/run-directory.md describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trt_workbench.engine.documents import append_lines, json_values, write_json
from trt_workbench.errors import UsageProblem
from trt_workbench.evaluate.llm_scores import Scores
from trt_workbench.evaluate.llm_text import Window


class NotWritten(UsageProblem):
    """A file of the run cannot be written, whatever is measured."""


class RecordWriter:
    """Writes `records.jsonl` line by line, so that an interrupted run keeps what was done."""

    def __init__(self, path: Path) -> None:
        """Make the file. Raises NotWritten if that is not possible."""
        self._path = path
        self._append([])

    def window(
        self,
        backend: str,
        precision: str,
        windows: Sequence[Window],
        shape: tuple[int, ...],
        scores: Scores,
        elapsed_s: float,
    ) -> None:
        """Write the record of one forward pass over windows of equal length."""
        self.write(
            {
                "kind": "windows",
                "backend": backend,
                "precision": precision,
                "first_token": windows[0].begin,
                "batch": shape[0],
                "length": shape[1],
                "tokens": scores.tokens,
                "nll": scores.nll,
                "max_logit_difference": scores.max_logit_difference,
                "top1_agreements": scores.top1_agreements,
                "kl": scores.kl,
                "inference_ms": elapsed_s * 1e3,
            }
        )

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one record. Raises NotWritten if the disk is full."""
        self._append([plain(record)])

    def _append(self, records: Sequence[Mapping[str, Any]]) -> None:
        try:
            append_lines(self._path, records)
        except OSError as error:
            raise _unwritable(self._path, error) from error


def write_metrics(path: Path, metrics: Mapping[str, Any]) -> None:
    """Write `metrics.json`. Raises NotWritten if the file cannot be written."""
    try:
        write_json(path, plain(metrics))
    except OSError as error:
        raise _unwritable(path, error) from error


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record or the content of `metrics.json`: NaN and infinity, which JSON cannot carry, are null."""
    return {"schema_version": 1, **json_values(document, str)}


def _unwritable(path: Path, error: OSError) -> NotWritten:
    return NotWritten(f"The run's files cannot be written ({error.strerror}); fix that or pass --output: {path}")
