"""The files of an eval-llm run; docs/reference/run-directory.md describes them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Self

from trt_workbench.engine.files import write_json
from trt_workbench.errors import UsageProblem
from trt_workbench.evaluate.llm_scores import Scores
from trt_workbench.evaluate.llm_text import Window

SCHEMA_VERSION = 1


class NotWritten(UsageProblem):
    """A file of the run cannot be written, whatever is measured."""


class RecordWriter(AbstractContextManager["RecordWriter"]):
    """Writes `records.jsonl` line by line, so that an interrupted run keeps what was done. A context manager."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises NotWritten if that is not possible."""
        self._path = path
        try:
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, error) from error

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

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
        try:
            self._file.write(json.dumps(_plain({"schema_version": SCHEMA_VERSION, **record}), allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            with suppress(OSError):
                self._file.close()  # here, where what is left in its buffer may fail again unseen
            raise _unwritable(self._path, error) from error


def write_metrics(path: Path, metrics: Mapping[str, Any]) -> None:
    """Write `metrics.json`. Raises NotWritten if the file cannot be written."""
    try:
        write_json(path, plain_metrics(metrics))
    except OSError as error:
        raise _unwritable(path, error) from error


def plain_metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `metrics.json`: NaN and infinity, which JSON cannot carry, are null."""
    document: dict[str, Any] = _plain({"schema_version": SCHEMA_VERSION, **metrics})
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _unwritable(path: Path, error: OSError) -> NotWritten:
    return NotWritten(f"The run's files cannot be written ({error.strerror}); mend that or pass --output: {path}")
