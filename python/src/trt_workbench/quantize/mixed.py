"""int8-mixed of a decision: the most int8 that a search finds, on data that are not scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.kept import Note, keep, recalled, seal, sealed
from trt_workbench.model.low_precision.evidence import Evidence
from trt_workbench.model.low_precision.preparation import DoesNotApply
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import Progress
from trt_workbench.quantize.candidates import Candidate, candidate_files, evidence_path
from trt_workbench.quantize.document import SearchDocument
from trt_workbench.quantize.search import Search
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings, SearchSettings

INT8_MIXED = "int8-mixed"


@dataclass
class MixedSearch:
    """The search for one decision.

    Attributes:
        settings: the bound and the score.
        seconds: after which it tries nothing new.
        note: called with progress messages.
        progress: called with what is done, the steps of it and their total.
        document: what was found; None where there was no search.
    """

    settings: SearchSettings
    seconds: float
    note: Note
    progress: Callable[[str, int, int, str], None]
    document: SearchDocument | None = None

    def find(self, model: Model, calibration: CalibrationSettings, folder: Path) -> tuple[Candidate, str]:
        """Return the model that leaves alone as little as keeps the score, and how it was found.

        Args:
            model: the float model.
            calibration: the data; one half gives ranges, the other the score.
            folder: where the model, its trials and `NAME.search.json` are kept; reused if present.

        Raises:
            DoesNotApply: int8 itself is what the search found, or it found nothing.
            ComponentMissing: ONNX Runtime is absent.
            OSError: the folder cannot be written.
        """
        output = folder / f"{model.path.stem}.{INT8_MIXED}.onnx"
        try:
            found = self.document = self._found(model, calibration, output, output.with_suffix(".search.json"))
        except (UsageProblem, CheckFailed) as problem:
            raise DoesNotApply(f"{INT8_MIXED} needs a search. {problem}") from problem
        said = search_summary(found)
        if found.evidence.chosen in (None, found.evidence.began):
            raise DoesNotApply(said)
        return Candidate(output, "int8", read_document(evidence_path(output), Evidence)), said

    def _found(self, model: Model, calibration: CalibrationSettings, output: Path, record: Path) -> SearchDocument:
        known = recalled(record, SearchDocument, self.note)
        if known and (known.candidate is None or sealed(candidate_files(output), self.note)):
            return known

        def progress(what: str) -> Progress:
            return lambda done, total: self.progress(f"{INT8_MIXED}: {what.lower()}", done, total, "")

        self.note(f"Searching for {INT8_MIXED}; it begins nothing new after {self.seconds:.0f} s")
        settings = replace(self.settings, budget=self.seconds)
        search = Search(model, "int8", output, calibration, PlacementSettings(), settings, self.note, progress)
        found = search.run().document
        if found.stopped:  # the next call goes on
            return found
        if found.candidate is not None:
            seal(candidate_files(output))
        keep(record, found)
        return found


def search_summary(found: SearchDocument) -> str:
    """Say what a search found, on which data, and what it took."""
    evidence, chosen = found.evidence, found.evidence.chosen
    took = f" ({found.wall_s:.0f} s{', its time was used up; the next call goes on' * found.stopped})."
    if chosen is None:
        return f"The search found no {INT8_MIXED} that is shown to keep {evidence.figure} better than int8{took}"
    what = "The search found nothing better than int8 itself" if chosen == evidence.began else f"{INT8_MIXED} was found"
    return f"{what} on calibration data that are not scored here: {found.words}{took}"
