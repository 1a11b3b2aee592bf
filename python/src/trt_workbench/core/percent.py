"""Percent, as every text, table and page shows them: a figure, a space and the sign."""

from __future__ import annotations

import math

from trt_workbench.core.counts import MINUS, decimals

_SHARE_DIGITS = 3
# Changes below it have no digits that are shown.
_LEAST = 1e-6
# Shares that are added up may miss 1 by this through rounding.
_ROUNDING = 1e-12


def share(value: float, digits: int = 0) -> str:
    """Return a share, 0 to 1, such as "30 %": never 0 for more than 0, nor 100 for less than 1.

    Args:
        value: the share.
        digits: behind the point, at least; up to three where fewer would round the share away.
    """
    percent = 100 * value
    while digits < _SHARE_DIGITS and _rounded_away(value, percent, digits):
        digits += 1
    if _rounded_away(value, percent, digits):
        return f"< {10**-digits:.{digits}f} %" if value < 1 / 2 else f"> {100 - 10**-digits:.{digits}f} %"
    return f"{percent:.{digits}f} %"


def signed(difference: float, digits: int = 0) -> str:
    """Return a difference of shares with its sign, as `share`."""
    return f"{MINUS if difference < 0 else '+'}{share(abs(difference), digits)}"


def change(value: float) -> str:
    """Return a relative change with its sign and four decimals, such as "+0.0216 %"; "0 %" of none."""
    if 0 < abs(value) < _LEAST:
        return f"< {100 * _LEAST:.4f} %"
    return f"{decimals(100 * value, plus='+')} %" if value else "0 %"


def limit(value: float) -> str:
    """Return a limit with the digits that the user gave: 2.5 % is not 2 %."""
    return f"{100 * value:.6g} %"


def covered(coverage: float) -> str:
    """Return the coverage of an interval in whole percent, rounded down: it must not claim more than it covers."""
    return f"{math.floor(100 * coverage + 1e-9)} %"


def _rounded_away(value: float, percent: float, digits: int) -> bool:
    shown = round(percent, digits)
    return (value > 0 and shown == 0) or (value < 1 - _ROUNDING and shown == 100)
