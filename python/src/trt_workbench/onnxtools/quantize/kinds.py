"""The formats that a model can be made in, and the methods that find ranges. Imports nothing."""

from __future__ import annotations

from typing import Literal

To = Literal["int8", "fp8", "mxfp8", "nvfp4", "int4-weights", "fp16", "bf16"]
"""What a model is made into."""
Method = Literal["max", "entropy", "percentile", "mse"]
"""How a range is chosen from a histogram of a tensor's absolute values."""

CALIBRATED: tuple[To, ...] = ("int8", "fp8")
"""Formats whose activations have scales of their own, found on calibration data; the others need no data."""
RANDOM = "random"
"""In place of calibration data: noise, whose result is labelled as not calibrated."""
