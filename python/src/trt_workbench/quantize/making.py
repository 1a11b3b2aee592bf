"""The candidates of a decision: each is made once for its source, format and calibration, and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from trt_workbench import __version__
from trt_workbench.core.documents import read_document
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.kept import Note, seal, sealed
from trt_workbench.core.memory import give_back
from trt_workbench.core.precision import MIXED, read
from trt_workbench.core.workspace import cache_root
from trt_workbench.engine.calibration import hash_data
from trt_workbench.model.llm_directory import LlmDirectory
from trt_workbench.model.low_precision.evidence import Evidence
from trt_workbench.model.low_precision.preparation import DoesNotApply
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import Calibrated, Progress, calibrate
from trt_workbench.quantize.candidates import Candidate, candidate_files, evidence_path, make_candidate
from trt_workbench.quantize.data import data_hash, is_text_file
from trt_workbench.quantize.figures import metric_of
from trt_workbench.quantize.held_out import labels_of
from trt_workbench.quantize.mixed import MixedSearch
from trt_workbench.quantize.scores import ANNOTATED
from trt_workbench.quantize.settings import CalibrationSettings, SearchSettings

# Bump to invalidate cached candidates.
_RECIPE = 11


class Candidates:
    """The candidates of one model; the calibration runs at the first that needs it, once for all.

    A precision is what `quantize` makes of it; int8-mixed is what a search finds.
    """

    def __init__(
        self,
        model: Model,
        calibration: CalibrationSettings,
        on_progress: Progress | None = None,
        search: MixedSearch | None = None,
        note: Note = lambda _: None,
        *,
        check: bool = True,
        no_search: str = "None was asked for.",
    ) -> None:
        self._note, self._check, self._no_search = note, check, no_search
        self.model, self.sha256, self._search = model, model.sha256, search
        self._settings, self._on_progress = calibration, on_progress

    def make(self, precision: str) -> Candidate:
        """Return the candidate of a precision other than fp32, an earlier one where nothing has changed since.

        Raises:
            DoesNotApply: int8-mixed where there is no search, or it found nothing better than int8.
            UsageProblem: it cannot be made; as `make_candidate`.
            ComponentMissing: as `make_candidate`.
            OSError: it cannot be written.
        """
        row, mode = read(precision)
        if mode == MIXED:
            if not self._search:
                raise DoesNotApply(f"{precision} needs a search. {self._no_search}")
            folder = self._folder(row.name, self._search.settings)
            candidate, said = self._search.find(self.model, self._settings, folder)
            self._note(said)
            return candidate
        output = self._folder(precision) / f"{self.model.path.stem}.{precision}.onnx"
        if sealed(candidate_files(output), self._note):
            return Candidate(output, precision, read_document(evidence_path(output), Evidence))
        calibrated = self._calibrated if row.is_calibrated else None
        candidate = make_candidate(self.model, precision, output, calibration=calibrated, check=self._check)
        seal(candidate_files(output))
        give_back()  # other processes load the candidate next
        return candidate

    @cached_property
    def _calibrated(self) -> Calibrated:
        return calibrate(self.model, self._settings, self._on_progress)

    @cached_property
    def _data_sha256(self) -> str:
        return data_hash(self.model.path, self._settings)

    def _folder(self, precision: str, search: SearchSettings | None = None) -> Path:
        key = {
            "recipe": _RECIPE,
            "version": __version__,
            "source": self.sha256,
            "to": precision,
            "checked": self._check,
        }
        if read(precision)[0].is_calibrated:
            key |= {"data": self._data_sha256, "tokenizer": self._tokenizer()}
            key |= {"calibration": {**asdict(self._settings), "threads": None, "calibration": ""}}
        if search:
            metric, labels = metric_of(search.score, search.better, search.keep_score), search.annotations
            hashed = labels and (labels_of(search, self._settings).sha256 if metric is ANNOTATED else hash_data(labels))
            key |= {"metric": metric.loaded(), "search": {**asdict(search), "annotations": hashed}}
        return cache_root() / "candidates" / hash_document({name: str(value) for name, value in key.items()})[:16]

    def _tokenizer(self) -> str:
        """Return what identifies the tokenizer that cuts a text; empty of other data."""
        if not is_text_file(Path(self._settings.calibration or "")):
            return ""
        return LlmDirectory(self._settings.tokenizer or self.model.path.parent, {}, ()).tokenizer_sha256


def language_candidates(
    model: Path, calibration: str | None, note: Note = lambda _: None
) -> Callable[[Path, str], Path]:
    """Return what makes a graph of the language model in folder `model` in another format, with what is sensitive kept.

    Args:
        model: whose tokenizer cuts the calibration text.
        calibration: a text, or "random"; None where no format needs any.
        note: called with what the user should know.
    """
    settings = CalibrationSettings(calibration=calibration, tokenizer=model)

    def make(graph: Path, precision: str) -> Path:
        # its perplexity judges it: one that overflows is a row that failed, and the other backends have theirs
        return Candidates(Model.open(graph), settings, note=note, check=False).make(precision).path

    return make
