"""int8-mixed of a decision: what stays out of int8 is found by a search, on data that are not scored."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.kept import keep, recalled, seal, sealed
from trt_workbench.core.percent import share
from trt_workbench.model.low_precision.evidence import Evidence, digits_for
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import Progress
from trt_workbench.quantize.candidates import Candidate, candidate_files, evidence_path
from trt_workbench.quantize.document import SearchDocument
from trt_workbench.quantize.search import Note, Search
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings, SearchSettings

INT8_MIXED = "int8-mixed"
_BY_RULE = "It keeps in fp32 the groups that are known to lose most."


class _OutOfTime(Exception):
    """The search has used up its time."""


@dataclass
class MixedSearch:
    """The search for one decision.

    Attributes:
        settings: the bound and the score.
        seconds: after which it is stopped.
        note: called with progress messages.
        progress: called with what is done, the steps of it and their total.
        document: what was found; None where the search did not end.
        words: notes for the reader, a sentence each.
    """

    settings: SearchSettings
    seconds: float
    note: Note
    progress: Callable[[str, int, int, str], None]
    document: SearchDocument | None = None
    words: list[str] = field(default_factory=list)

    def find(self, model: Model, calibration: CalibrationSettings, folder: Path) -> Candidate | None:
        """Return the model that leaves alone as little as keeps the score; None where there is none, which it says.

        Args:
            model: the float model.
            calibration: the data; one half gives ranges, the other the score.
            folder: where the model, its trials and `NAME.search.json` are kept; reused if present.

        Raises:
            ComponentMissing: ONNX Runtime is absent.
            OSError: the folder cannot be written.
        """
        output = folder / f"{model.path.stem}.{INT8_MIXED}.onnx"
        record = output.with_suffix(".search.json")
        try:
            self.document = self._found(model, calibration, output, record)
        except _OutOfTime:
            self.words.append(
                f"The search for {INT8_MIXED} was stopped after {self.seconds:.0f} s; the next call resumes it. "
                f"{INT8_MIXED} was made without it. {_BY_RULE}"
            )
            return None
        except (UsageProblem, CheckFailed) as problem:
            self.words.append(by_rule(str(problem)))
            return None
        self.words.append(search_summary(self.document))
        if self.document.candidate is None:
            self.words.append(_BY_RULE)
            return None
        return Candidate(output, "int8", read_document(evidence_path(output), Evidence))

    def _found(self, model: Model, calibration: CalibrationSettings, output: Path, record: Path) -> SearchDocument:
        known = recalled(record, SearchDocument, self.note)
        if known and (known.candidate is None or sealed(candidate_files(output), self.note)):
            return known
        ends = time.monotonic() + self.seconds

        def progress(what: str) -> Progress:
            def report(done: int, total: int) -> None:
                self.progress(f"{INT8_MIXED}: {what.lower()}", done, total, "")
                if time.monotonic() > ends and done < total:
                    raise _OutOfTime

            return report

        self.note(f"Searching which groups {INT8_MIXED} keeps in fp32, {self.seconds:.0f} s at most")
        search = Search(model, "int8", output, calibration, PlacementSettings(), self.settings, self.note, progress)
        found = search.run().document
        if found.candidate is not None:
            seal(candidate_files(output))
        keep(record, found)
        return found


def by_rule(reason: str) -> str:
    """Say that no search chose what int8-mixed leaves alone, and why."""
    return f"{INT8_MIXED} was made without a search: {reason.removesuffix('.')}. {_BY_RULE}"


def search_summary(found: SearchDocument) -> str:
    """Say what a search found, on which data, and what it took."""
    evidence = found.evidence
    scored = f"{evidence.samples} {evidence.unit} of the calibration data that are not scored here"
    if (chosen := evidence.chosen) is None:
        text = f"No {INT8_MIXED} that the search tried keeps {evidence.figure} within {evidence.bound:g} on {scored}"
        return f"{text} ({found.wall_s:.0f} s)."
    digits = digits_for(evidence.bound)
    ends = f" (95 %: {chosen.loss_ci95[0]:.{digits}f} to {chosen.loss_ci95[1]:.{digits}f})" if chosen.loss_ci95 else ""
    seen = (
        f" and {chosen.seen_loss:.{digits}f} on the half used for calibration" if chosen.seen_loss is not None else ""
    )
    return (
        f"{INT8_MIXED} was found by search: {chosen.kept} of {len(found.order)} groups kept in fp32, "
        f"{share(chosen.low_macs, 1)} of the arithmetic in int8. On {scored} the loss of {evidence.figure} is "
        f"{chosen.loss:.{digits}f}{ends}{seen}; allowed is {evidence.bound:g} ({found.wall_s:.0f} s)."
    )
