"""The tables of docs/reference/precision.md; `python -m tests.unit.core.precision_page` makes them anew."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from trt_workbench.core.precision import FAULT, FORMATS, LOGITS, MATCH, STREAM, Format

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "precision.md"
_SIMULATIONS = {"cast": "Cast to the type and back", "operators": "standard operators", None: ""}


def page() -> str:
    """Return the page with its tables made anew."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in {"Formats": formats(), "Who has it": runtimes(), "Limits": limits()}.items():
        head, rest = text.split(f"## {name}\n", 1)
        rest = re.sub(r"(?m)(^\|.*\n)+", lambda _, made=lines: "\n".join(made) + "\n", rest, count=1)
        text = f"{head}## {name}\n{rest}"
    return text


def formats() -> list[str]:
    """Return what every format holds, the finest first."""
    names = ("format", "exponent + mantissa bits", "unit roundoff", "largest", "smallest normal", "smallest", "beyond")
    rows = (
        (
            f"`{one.name}`",
            f"{one.exponent_bits} + {one.mantissa_bits}" + (f", blocks of {one.block}" if one.block else ""),
            _power(one.unit),
            _number(one.largest),
            _power(one.smallest_normal),
            _power(one.smallest),
            "infinity" if one.infinity else "the largest",
        )
        for one in reversed(FORMATS)
    )
    return _table(names, rows)


def runtimes() -> list[str]:
    """Return how every format is named, made and run."""
    names = ("format", "ONNX", "numpy, ml_dtypes", "`quantize --to`", "TensorRT from", "its flag", "simulated by")
    rows = (
        (
            f"`{one.name}`",
            ", ".join(one.onnx) or " ".join(f"`{name}`" for name in one.operators),
            one.numpy,
            ", ".join(f"`{one.made(mode)}`" for mode in one.makes),
            str(one.tensorrt or ""),
            f"`{one.flag}`" if one.flag else "",
            _SIMULATIONS[one.simulation],
        )
        for one in reversed(FORMATS)
    )
    return _table(names, rows)


def limits() -> list[str]:
    """Return the limits that follow, by command."""
    rules = (STREAM, MATCH, FAULT, LOGITS)
    commands = ("`eval-stream`, `check-contract`", "`bench`: far, engine without its model", "`bench`: wrong", "logits")
    several: dict[tuple[float, ...], list[Format]] = {}
    for one in reversed(FORMATS):
        several.setdefault((one.error, *(rule.limit(one.name) for rule in rules)), []).append(one)
    rows = [
        (", ".join(f"`{one.name}`" for one in alike), _power(error), *(f"{value:g}" for value in own))
        for (error, *own), alike in several.items()
    ]
    rows.append(("times one result", "", *(f"{rule.times:g}" for rule in rules)))
    rows.append(("at most", "", *(f"{rule.most:g}" for rule in rules)))
    return _table(("format", "one result", *commands), rows)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [names, ["---"] * len(names), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _power(value: float) -> str:
    exponent = math.log2(value)
    return "1" if not exponent else f"2^{exponent:g}" if exponent == int(exponent) else f"{value:g}"


def _number(value: float) -> str:
    return f"{value:g}" if value < 1e5 and value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
