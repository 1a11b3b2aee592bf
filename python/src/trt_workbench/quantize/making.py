"""The candidates of a decision: each is made once for its source, format and calibration, and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from trt_workbench import __version__
from trt_workbench.core.documents import read_document
from trt_workbench.core.hashing import hash_document, hash_file
from trt_workbench.core.kept import Note, seal, sealed
from trt_workbench.core.precision import MIXED, read
from trt_workbench.core.workspace import cache_root
from trt_workbench.engine.calibration import hash_data
from trt_workbench.model.llm_directory import TOKENIZER_FILES
from trt_workbench.model.low_precision.evidence import Evidence
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import Calibrated, calibrate
from trt_workbench.quantize.candidates import Candidate, candidate_files, evidence_path, make_candidate
from trt_workbench.quantize.data import data_hash, is_text_file
from trt_workbench.quantize.held_out import labels_of
from trt_workbench.quantize.mixed import MixedSearch
from trt_workbench.quantize.own import OwnScore
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings, SearchSettings, own_score

Progress = Callable[[int, int], None]

# Bump to invalidate cached candidates.
_RECIPE = 9


class Candidates:
    """The candidates of one model; the calibration runs at the first that needs it, once for all.

    Where there is a search, it makes int8-mixed; without one, or where it finds nothing, what is known to lose most is
    left alone there.
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
    ) -> None:
        self._note, self._check = note, check
        self.model, self.sha256, self._search = model, model.sha256, search
        self._settings, self._on_progress = calibration, on_progress
        self._calibrated: Calibrated | None = None

    def make(self, precision: str) -> Candidate:
        """Return the candidate of a precision other than fp32, an earlier one where nothing has changed since.

        Raises:
            UsageProblem: it cannot be made; as `make_candidate`.
            ComponentMissing: as `make_candidate`.
            OSError: it cannot be written.
        """
        row, mode = read(precision)
        # where there is a mixed form, the other one is the whole model
        placement = PlacementSettings(keep_sensitive=mode == MIXED or MIXED not in row.modes)
        made = row.name if mode == MIXED else precision
        if mode == MIXED and self._search:
            folder = self._folder(made, placement, self._search.settings)
            if found := self._search.find(self.model, self._settings, folder):
                return found
        output = self._folder(made, placement) / f"{self.model.path.stem}.{precision}.onnx"
        if sealed(candidate_files(output), self._note):
            return Candidate(output, made, read_document(evidence_path(output), Evidence))
        calibrated = self._data() if row.is_calibrated else None
        candidate = make_candidate(
            self.model, made, output, calibration=calibrated, placement=placement, check=self._check
        )
        seal(candidate_files(output))
        return candidate

    def _data(self) -> Calibrated:
        if self._calibrated is None:
            self._calibrated = calibrate(self.model, self._settings, self._on_progress)
        return self._calibrated

    @cached_property
    def _data_sha256(self) -> str:
        return data_hash(self.model.path, self._settings)

    def _folder(self, precision: str, placement: PlacementSettings, search: SearchSettings | None = None) -> Path:
        key = {
            "recipe": _RECIPE,
            "version": __version__,
            "source": self.sha256,
            "to": precision,
            "placement": asdict(placement),
            "checked": self._check,
        }
        if read(precision)[0].is_calibrated:
            key |= {"data": self._data_sha256, "tokenizer": self._tokenizer()}
            key |= {"calibration": {**asdict(self._settings), "threads": None, "calibration": ""}}
        if search:
            if own := own_score(search.score, search.better, search.keep_score):
                key |= {"own": OwnScore.loaded(own, search.better)}
                labels = search.annotations and hash_data(search.annotations)
            else:
                labels = search.annotations and labels_of(search, self._settings).sha256
            key |= {"search": {**asdict(search), "annotations": labels}}
        text = {name: str(value) for name, value in key.items()}
        return cache_root() / "candidates" / hash_document(text)[:16]

    def _tokenizer(self) -> str:
        """Return what identifies the tokenizer that cuts a text; empty of other data."""
        if not is_text_file(Path(self._settings.calibration or "")):
            return ""
        folder = self._settings.tokenizer or self.model.path.parent
        files = (folder / name for name in TOKENIZER_FILES)
        return hash_document({file.name: hash_file(file) for file in files if file.is_file()})


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
        made = Candidates(Model.open(graph), settings, note=note, check=False)
        row, _ = read(precision)
        return made.make(row.made(MIXED) if MIXED in row.modes else precision).path

    return make
