"""The limits that a contract sets on the parity of two runs of a stream."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trt_workbench.engine.documents import Strict

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
    """Limits by precision, and those that hold in all of them.

    Attributes:
        fp32: without TF32.
        tf32: fp32 with TF32.
        fp16: half precision.
        bf16: bfloat16.
        drift_exponent_lower_max: of the lower confidence bound of b, where the error grows as chunk ** b.
        integers: outputs of whole numbers must be equal.
        finite: outputs must be finite.
        head_agreement_min: share of rows where the largest entry of a head is the same.
        live_state: a state that carries nothing must be declared dead.
    """

    fp32: Gate = Gate(rel_l2_max=1e-5)
    tf32: Gate = Gate(rel_l2_max=2e-3)
    fp16: Gate = Gate(rel_l2_max=5e-3)
    bf16: Gate = Gate(rel_l2_max=3e-2)
    drift_exponent_lower_max: float | None = 0.25
    integers: Literal["equal"] | None = "equal"
    finite: bool = True
    head_agreement_min: Annotated[float, Field(ge=0, le=1)] | None = 0.999
    live_state: bool = True
