"""What a graph or an engine computes in: a fact that is read from it, with shares, not what a flag said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.percent import share
from trt_workbench.core.precision import FORMATS, Format, find, known, names, ordered

Source = Literal["graph", "optimised graph", "engine layers", "build options", "program"]
LEAST_SHARE = 0.01
"""Below this share a type is a detail: no part of the label, and no reason for a score or a speed."""
# From this share on, weights that are narrower than what is computed in are.
_MOST = 0.5


@dataclass(frozen=True)
class Precision:
    """What something computes in.

    Attributes:
        shares: share of what is counted by format, largest first; empty where there is nothing to count.
        unit: what is counted, such as "layers".
        counted: how many there are.
        source: where it was read from.
        weight_shares: share of the weights' elements by type; empty where they are not known.
        may_choose: types that the runtime was also allowed, without reporting where it uses them.
        calibrated: False of a model whose ranges come from noise; its label ends in "(not calibrated)" everywhere.
        native: share of what is counted in lower formats that the runtime computes in these. The rest has the formats'
            values, computed in wider floats; the label calls that simulated.
    """

    shares: Mapping[str, float]
    unit: str
    counted: int
    source: Source
    weight_shares: Mapping[str, float] = field(default_factory=dict)
    may_choose: tuple[str, ...] = ()
    calibrated: bool = True
    native: float = 1.0

    @property
    def simulated(self) -> bool:
        """Whether anything is computed in another format than its own."""
        return self.native < 1

    @property
    def label(self) -> str:
        """The types from the coarsest to the finest, such as "int8+fp16"; for tables."""
        simulated = ["partly simulated" if self.native else "simulated"] if self.simulated else []
        doubts = [*simulated, *([] if self.calibrated else ["not calibrated"])]
        return f"{self._types} ({', '.join(doubts)})" if doubts else self._types

    @property
    def _types(self) -> str:
        if not self.shares:
            return f"{' or '.join(self.may_choose)}, not reported" if self.may_choose else "unknown"
        parts = "+".join(sorted((name for name in self.shares if self._counts(name)), key=_width))
        parts += "".join(f" or {name}" for name in self.may_choose if name not in self.shares)
        narrowest = min(map(_width, self.shares))
        held = [name for name, part in self.weight_shares.items() if part >= _MOST and _width(name) < narrowest]
        # shows that "int16" or "int8" next to other weights is not their format
        parts += " activations" if held and all(name.startswith("int") for name in self.shares) else ""
        return parts + "".join(f", {name} weights" for name in held)

    @property
    def text(self) -> str:
        """The label with shares, such as "int8+fp16 (61 % of layers int8, 39 % fp16)"."""
        if not self.shares:
            return f"{self.label} (no {self.unit} to judge by)"
        partly = f"; {share(self.native)} of the low ones computed natively" if 0 < self.native < 1 else ""
        if len(self.shares) == 1:
            return self.label + (f" ({partly[2:]})" if partly else "")
        first, *more = sorted(self.shares.items(), key=lambda one: _width(one[0]))
        rest = "".join(f", {share(part)} {name}" for name, part in more)
        return f"{self.label} ({share(first[1])} of {self.unit} {first[0]}{rest}{partly})"

    def held_in(self, name: str) -> Precision:
        """Return the precision of the same graph where all its floats are held in one type."""
        shares, weights = (_renamed(one, name) for one in (self.shares, self.weight_shares))
        return replace(self, shares=shares, weight_shares=weights)

    def document(self) -> dict[str, Any]:
        """Return JSON values; docs/reference/run-directory.md describes them as `precision_ran`."""
        return {
            "label": self.label,
            "text": self.text,
            "source": self.source,
            "unit": self.unit,
            "counted": self.counted,
            "shares": dict(self.shares),
            "weight_shares": dict(self.weight_shares),
            "may_choose": list(self.may_choose),
            "calibrated": self.calibrated,
            "simulated": self.simulated,
            "native": self.native,
        }

    def _counts(self, name: str) -> bool:
        return self.shares[name] >= min(LEAST_SHARE, max(self.shares.values()))


def precision_label(record: Mapping[str, Any], form: Literal["label", "text"] = "label") -> str | None:
    """Return the label or text of `precision_ran` in a record; None where it is not known, as in older records."""
    return (record.get("precision_ran") or {}).get(form)


def carried(ran: Mapping[str, Any] | None, asked: str, *, always: bool = False) -> tuple[Format, ...]:
    """Return the formats whose rounding results may carry, the coarsest first.

    Args:
        ran: `precision_ran` of a record: what ran, and what the runtime was also allowed.
        asked: what was asked for: a precision such as "int8+fp16".
        always: whether what was asked for counts also where it is known what ran.
    """
    found = [*((ran or {}).get("shares") or ()), *((ran or {}).get("may_choose") or ())]
    rows = [row for name in found if (row := find(name))]
    return ordered([*rows, *(known(asked) if always or not rows else ())])


def rounding_of(record: Mapping[str, Any], asked: str) -> str:
    """Return the precision whose rounding the results of a session may carry, such as "int8+fp16", the coarsest first.

    Args:
        record: of the session.
        asked: precision that it was asked for.

    Raises:
        UsageProblem: neither names a format.
    """
    # layers do not always report that they multiply in TF32
    built = "+tf32" if "tf32" in str(record.get("precision", "")) else ""
    found = carried(record.get("precision_ran"), asked + built, always=True)
    if not found:
        every = ", ".join(reversed(names()))
        raise UsageProblem(f"There are no limits for precision {asked!r}; choose from {every}.")
    return "+".join(row.name for row in found)


def shares_of(names: Sequence[str] | Counter[str]) -> dict[str, float]:
    """Return the share of each name, largest first."""
    counts = Counter(names)
    total = counts.total()
    return {name: count / total for name, count in sorted(counts.items(), key=lambda one: (-one[1], _width(one[0])))}


def _renamed(shares: Mapping[str, float], name: str) -> dict[str, float]:
    total: dict[str, float] = {}
    for own, part in shares.items():
        held = own if (row := find(own)) is None or row.is_quantised else name
        total[held] = total.get(held, 0.0) + part
    return total


def _width(name: str) -> int:
    row = find(name)
    return FORMATS.index(row) if row else len(FORMATS)
