"""How long a verification may take: shapes are left out, and counted, before it takes longer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from trt_workbench.core.verification import Shapes
from trt_workbench.verify.space import Case

# Of the seconds that the build took, and the least.
SHARE, LEAST_S = 0.1, 5.0


class Budget:
    """Seconds that begin to run now.

    The first shape is always tried, and those that are needed: without them there is no verdict. One more is begun only
    where it fits into what is left, by the pace of those before. A suspected fault is looked into whatever it takes,
    and ends the verification.

    Attributes:
        needed: input shapes to try in any case.
    """

    def __init__(
        self, seconds: float, needed: Sequence[Shapes] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.needed = tuple(needed)
        self._clock, self._end = clock, clock() + seconds
        self._begun: tuple[float, int] | None = None
        self._pace: float | None = None  # seconds for each element of the inputs

    @classmethod
    def of_build(cls, build_s: float, needed: Sequence[Shapes] = ()) -> Budget:
        """Return the budget beside a build that took `build_s` seconds."""
        return cls(max(LEAST_S, SHARE * build_s), needed)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self._clock() >= self._end

    def begin(self, case: Case) -> bool:
        """Whether a case may be tried now; if so, `end` has to follow."""
        size = sum(int(np.prod(shape, dtype=np.int64)) for shape in case.shapes.values())
        now = self._clock()
        if self._pace is not None and not self._is_needed(case) and now + self._pace * size > self._end:
            return False
        self._begun = now, max(size, 1)
        return True

    def end(self) -> None:
        """Note that the case is done."""
        assert self._begun is not None
        started, size = self._begun
        pace = (self._clock() - started) / size
        self._pace = pace if self._pace is None else min(pace, self._pace)

    def _is_needed(self, case: Case) -> bool:
        return any(all(case.shapes.get(name) == tuple(dims) for name, dims in one.items()) for one in self.needed)
