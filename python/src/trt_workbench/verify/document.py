"""What a verify run writes, as far as reports and the cache read it; docs/reference/verify.md has all keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import FiniteFloat, NonNegativeInt
from typing_extensions import TypedDict

from trt_workbench.core.documents import having


class PropertyFindings(TypedDict):
    """Whether a property held of an output."""

    property: str
    holds: bool
    detail: str


class OutputFindings(TypedDict):
    """One output of one call; `all` stands for every output of a call that failed."""

    inputs: str
    inputs_sha256: str
    output: str
    verdict: str
    reason: str
    properties: list[PropertyFindings]
    difference: NotRequired[
        Annotated[dict[str, Any], having("rel_l2", "max_rel", "changed", "cosine", "argmax_agreement")] | None
    ]
    limits: NotRequired[dict[str, Annotated[dict[str, Any], having("rel_l2", "max_rel", "changed")]]]


class CaseFindings(TypedDict):
    """One set of shapes."""

    label: str
    shapes: dict[str, list[NonNegativeInt]]
    verdict: str
    reason: str
    outputs: list[OutputFindings]


class VerifyFindings(TypedDict):
    """verify.json."""

    schema_version: Literal[1]
    target: str
    model: str | None
    backend: str
    precision: str
    reference: str | None
    reference_provenance: NotRequired[dict[str, Any] | None]
    compared_with_itself: NotRequired[bool]
    inputs: list[str] | None
    seed: int
    sizes: NotRequired[dict[str, list[NonNegativeInt]]]
    whole_numbers: NotRequired[dict[str, Annotated[dict[str, Any], having("drawn", "takes")]]]
    sizes_seed: NotRequired[int | None]
    verdict: str
    where: str
    cases_tried: NonNegativeInt
    cases_unverified: NonNegativeInt
    cases: list[CaseFindings]
    ways: list[Annotated[dict[str, Any], having("way", "case", "findings", "reason")]]
    failures: list[str]
    unproven: list[str]
    remarks: NotRequired[list[str]]
    provenance: dict[str, Any]
    shards: NotRequired[Annotated[dict[str, Any], having("text")]]


def largest_error(found: VerifyFindings) -> float | None:
    """Return the largest relative L2 error of all outputs at all shapes; None where none was compared."""
    apart = [(row.get("difference") or {}).get("rel_l2") for case in found["cases"] for row in case["outputs"]]
    return max((one for one in apart if one is not None), default=None)


class BisectFindings(TypedDict):
    """bisect/bisect.json."""

    schema_version: Literal[1]
    case: str
    crash: NotRequired[str | None]
    nodes: list[Annotated[dict[str, str], having("name", "operator")]]
    trials: NonNegativeInt
    complete: bool
    reason: str


class FixFindings(TypedDict):
    """fix/fix.json."""

    schema_version: Literal[1]
    plain_latency_ms: FiniteFloat | None
    chosen: str | None
    tried: list[Annotated[dict[str, Any], having("way", "verdict", "reason", "latency_ms", "relative_latency")]]
    not_tried: list[str]
    time_over: NotRequired[bool]
