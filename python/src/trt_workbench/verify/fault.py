"""A wrong output, with what is needed to run it again."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trt_workbench.verify.space import Case, Space


@dataclass(frozen=True)
class WrongOutput:
    """One wrong output.

    Attributes:
        case: the shapes.
        space: that they are of.
        output: its name.
        number: of the folder in `failures` with the arrays of the call; 0 where they are not kept.
    """

    case: Case
    space: Space
    output: str
    number: int

    @property
    def elements(self) -> int:
        """Return the number of elements of all inputs."""
        return sum(math.prod(shape) for shape in self.case.shapes.values())
