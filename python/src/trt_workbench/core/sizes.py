"""Sizes in bytes, as every text, table and page shows them: in KiB, MiB and GiB."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB")


def sized(count: float) -> str:
    """Return "512 B", "2.5 KiB", "64 MiB" or "1.2 GiB": with one decimal unless it is whole."""
    power = min((max(int(count), 1).bit_length() - 1) // 10, len(_UNITS) - 1)
    if round(count / 1024**power, 1) >= 1024 and power < len(_UNITS) - 1:  # of the next unit, once it is rounded
        power += 1
    value = count / 1024**power
    return f"{value:,.{0 if value == int(value) else 1}f} {_UNITS[power]}"


def mebibytes(count: float) -> str:
    """Return the figure for a column in MiB: with one decimal, or three below 1 MiB."""
    value = count / 2**20
    if 0 < value < 0.0005:
        return "< 0.001"
    return f"{value:.{1 if value >= 1 or not value else 3}f}"
