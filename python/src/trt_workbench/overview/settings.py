"""What `report` can be asked for."""

from typing import Literal

Over = Literal["dates", "commits"]
"""Horizontal axis of a history."""
