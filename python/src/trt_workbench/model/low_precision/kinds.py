"""The methods that find ranges. Imports nothing."""

from __future__ import annotations

from typing import Literal

Method = Literal["max", "entropy", "percentile", "mse"]
"""How a range is chosen from a histogram of a tensor's absolute values."""

RANDOM = "random"
"""In place of calibration data: noise, whose result is labelled as not calibrated."""
