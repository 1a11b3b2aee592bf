"""If: one of two modules runs. What both read of the graph around them is handed to them."""

from __future__ import annotations

from typing import Any

from torch import nn

BRANCHES = ("then_branch", "else_branch")


class Conditional(nn.Module):
    """Two branches, called with a condition on the host and with what they read."""

    def __init__(self, then: nn.Module, other: nn.Module) -> None:
        """Take the branches, each of which returns a tuple."""
        super().__init__()
        self.then, self.other = then, other

    def forward(self, condition: Any, *captured: Any) -> Any:
        """Run one of them."""
        holds = condition[0] if isinstance(condition, list) else condition
        return self.then(*captured) if holds else self.other(*captured)
