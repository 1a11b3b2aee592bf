"""Whether an error grows along a stream: the exponent b of error ~ chunk ** b, with a confidence interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.statistics.summary import CONFIDENCE
from trt_workbench.stream.document import Drift

_POINTS, _FEWEST = 200, 20
RECURRENT_CHUNKS = 10_000


def drift(errors: NDArray[np.float64], warm_up: int, *, recurrent: bool = False) -> Drift | None:
    """Return the exponent by Theil and Sen's estimator, the median of the slopes of all pairs of points.

    Neighbouring chunks share their state, so their errors are not independent: from 400 chunks on, points are medians
    of blocks of chunks. scipy gives the interval (Sen 1968).

    Args:
        errors: of each chunk, the largest relative L2 of its tensors.
        warm_up: chunks at the start to leave out, until the state is filled; at most a third are.
        recurrent: whether memory has no end: the error grows to a plateau, and the second half shows whether it is
            reached.

    Returns:
        The fit, with the ratio of the last quarter's median to that of the quarter before; None where errors are zero
        or not finite in more than half of the chunks, or there are too few.
    """
    from scipy.stats import theilslopes

    start = len(errors) // 2 if recurrent else min(warm_up, len(errors) // 3)
    numbers, kept = np.arange(start + 1, len(errors) + 1), errors[start:]
    sound = np.isfinite(kept) & (kept > 0)
    numbers, kept = numbers[sound], kept[sound]
    if len(kept) < max(_FEWEST, (len(errors) - start) / 2):
        return None
    count = len(kept) // max(1, len(kept) // _POINTS)
    xs = [float(np.log(np.median(part))) for part in np.array_split(numbers, count)]
    ys = [float(np.log(np.median(part))) for part in np.array_split(kept, count)]
    slope, _, low, high = theilslopes(ys, xs, CONFIDENCE)
    quarter = len(kept) // 4
    last, before = float(np.median(kept[-quarter:])), float(np.median(kept[-2 * quarter : -quarter]))
    return Drift(
        exponent=float(slope),
        low=float(low),
        high=float(high),
        confidence=CONFIDENCE,
        from_chunk=start,
        points=count,
        last_quarter_ratio=last / before,
    )
