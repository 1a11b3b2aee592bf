"""What a search for the groups to leave alone writes: `search.json` of its run directory, and one file a trial."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat

from trt_workbench.core.documents import Strict
from trt_workbench.model.low_precision.evidence import SearchEvidence, SearchPoint
from trt_workbench.quantize.sensitivity_document import Sensitivity


class SearchTrial(Strict):
    """One candidate that was scored; kept so that a search that was interrupted goes on.

    Attributes:
        key: hash of everything that its score depends on.
        point: its score.
    """

    schema_version: Literal[1] = 1
    key: str
    point: SearchPoint


class SearchDocument(Strict):
    """The document `search.json`.

    Attributes:
        sensitivity: what each group costs alone.
        order: names of groups; the first are left alone first.
        evidence: what was scored and chosen, as the candidate's evidence has it.
        candidate: path of the candidate; None where none keeps the bound.
        wall_s: how long it took, without the trials that were there already.
    """

    schema_version: Literal[1] = 1
    sensitivity: Sensitivity
    order: list[str]
    evidence: SearchEvidence
    candidate: str | None
    wall_s: NonNegativeFloat = 0.0
