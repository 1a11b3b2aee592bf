"""What `submit` can be asked for."""

from typing import Literal

To = Literal["local", "slurm", "kubernetes", "ray"]
"""Schedulers, and this machine."""
