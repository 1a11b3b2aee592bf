"""What making a model lower gives: the model, and what of it stayed as it was."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx


@dataclass
class Lowered:
    """A model in a lower precision.

    Attributes:
        model: the new model; the one that was given is unchanged.
        kept: node that stayed in the type it had, with the reason.
        wide: operators that compute on floats and stayed in the type they had, somewhere.
        notes: what else a person should know, such as constants that were clamped, in sentences.
    """

    model: onnx.ModelProto
    kept: dict[str, str] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
