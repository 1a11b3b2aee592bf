"""The limits that a contract sets on the parity of two runs of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from trt_workbench.core.documents import Strict
from trt_workbench.core.errors import did_you_mean
from trt_workbench.core.precision import STREAM, find, names

_Limit = Annotated[float, Field(gt=0)]


class Gate(Strict):
    """Limits of one precision; None leaves one out.

    Attributes:
        rel_l2_max: relative L2 of a tensor in any chunk.
        abs_max: largest absolute error.
        abs_p95: its 95th percentile over chunks.
        abs_mean: its mean over chunks.
    """

    rel_l2_max: _Limit | None = None
    abs_max: _Limit | None = None
    abs_p95: _Limit | None = None
    abs_mean: _Limit | None = None


class Gates(Strict):
    """Limits by format, under its name, and those that hold in all of them.

    A format that is left out has the limit that follows from its roundoff (`core.precision.STREAM`).

    Attributes:
        drift_exponent_lower_max: of the lower confidence bound of b, where the error grows as chunk ** b.
        integers: outputs of whole numbers must be equal.
        finite: outputs must be finite.
        head_agreement_min: share of rows where the largest entry of a head is the same.
        live_state: a state that carries nothing must be declared dead.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Gate] = Field(init=False)

    drift_exponent_lower_max: float | None = 0.25
    integers: Literal["equal"] | None = "equal"
    finite: bool = True
    head_agreement_min: Annotated[float, Field(ge=0, le=1)] | None = 0.999
    live_state: bool = True

    @model_validator(mode="before")
    @classmethod
    def _by_format(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if unknown := [name for name in value if name not in cls.model_fields and not find(name)]:
            raise ValueError(f"there is no gate or format {unknown[0]!r}; {did_you_mean(unknown[0], _names(cls))}")
        return {name: {"rel_l2_max": STREAM.limit(name)} for name in reversed(names())} | {**value}

    def of(self, name: str) -> Gate:
        """Return the limits of a format."""
        return self.__pydantic_extra__[name]


def _names(kind: type[Strict]) -> list[str]:
    return [*reversed(names()), *kind.model_fields]
