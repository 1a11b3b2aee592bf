"""What measuring found, of an engine or of a model on any backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trt_workbench.core.statistics.summary import claimed_percentile, summarize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trt_workbench.backends.measuring import Samples


@dataclass(frozen=True)
class Measurement:
    """What was measured.

    Attributes:
        metrics: JSON values for `metrics.json`.
        queries: one document a query, as trtexec's --exportTimes writes them.
        records: one document a measured repetition, of all kinds.
    """

    metrics: dict[str, Any]
    queries: list[dict[str, float]]
    records: list[dict[str, Any]]


def summary(samples: NDArray[np.float64], percentiles: Sequence[float]) -> dict[str, float | None]:
    """Return what `summarize` does, and further percentiles."""
    values = samples.tolist()
    further = {f"p{percent:g}": claimed_percentile(values, percent) for percent in percentiles}
    return {**summarize(values), **further}  # type: ignore[dict-item]


def call_records(via: str, samples: Samples) -> list[dict[str, Any]]:
    """Return a record for every single call, made from `via`: "cpp" or "python"."""
    latencies = samples.latency_ms.tolist()
    return [{"schema_version": 1, "kind": "call", "via": via, "end_to_end_ms": value} for value in latencies]
