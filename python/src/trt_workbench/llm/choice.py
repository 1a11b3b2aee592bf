"""A backend and a precision that a language model is asked for on. Imports nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BackendChoice:
    """A backend and the precision it is asked for; written `ort-cuda:fp16`, without a precision fp32."""

    name: str
    precision: str = "fp32"

    def __str__(self) -> str:
        """Return the form that is read."""
        return f"{self.name}:{self.precision}"


REFERENCE = BackendChoice("torch")
"""What language models are compared with."""
