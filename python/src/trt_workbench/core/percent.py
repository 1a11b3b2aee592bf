"""Shares in percent, as every text, table and page shows them."""

from __future__ import annotations

_SHARE_DIGITS = 3


def share(value: float, digits: int = 0) -> str:
    """Return the percent of a share, 0 to 1, without the sign: never 0 for more than 0, nor 100 for less than 1.

    Args:
        value: the share.
        digits: behind the point, at least; up to three where fewer would round the share away.
    """
    percent = 100 * value
    while digits < _SHARE_DIGITS and _rounded_away(value, percent, digits):
        digits += 1
    if _rounded_away(value, percent, digits):
        return f"< {10**-digits:.{digits}f}" if value < 1 / 2 else f"> {100 - 10**-digits:.{digits}f}"
    return f"{percent:.{digits}f}"


def signed(difference: float, digits: int = 0) -> str:
    """Return a difference of shares in percent with its sign, as `share`."""
    return f"{'-' if difference < 0 else '+'}{share(abs(difference), digits)}"


def _rounded_away(value: float, percent: float, digits: int) -> bool:
    shown = round(percent, digits)
    return (value > 0 and shown == 0) or (value < 1 and shown == 100)
