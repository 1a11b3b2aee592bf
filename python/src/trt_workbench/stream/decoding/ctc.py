"""Greedy decoding of CTC: the best token of each frame, repeats and blanks dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.decoding.transducer import Token


@dataclass
class CtcStream:
    """A stream between its chunks: how many frames it had, and the best token of the last one."""

    frames: int = 0
    last: int = -1


class Ctc:
    """Greedy decoding of scores [frames, tokens]."""

    def __init__(self, blank: int, tokens: int) -> None:
        """Take the blank's number, and how many tokens there are with it."""
        self.blank, self.tokens = blank, tokens

    def open(self) -> CtcStream:
        """Return a new stream."""
        return CtcStream()

    def close(self, stream: CtcStream) -> None:
        """Release a stream: nothing is held."""

    def push(self, streams: Sequence[CtcStream], frames: Sequence[NDArray[Any]]) -> list[list[Token]]:
        """Take the next scores of several streams; return the tokens that they wrote.

        Raises:
            UsageProblem: there are not as many scores as tokens, or one is NaN.
        """
        return [self._one(stream, own) for stream, own in zip(streams, frames, strict=True)]

    def _one(self, stream: CtcStream, scores: NDArray[Any]) -> list[Token]:
        if scores.shape[1] != self.tokens:
            raise UsageProblem(
                f"The encoder gives {scores.shape[1]} scores a frame, but the vocabulary has {self.tokens} tokens, "
                "the blank among them."
            )
        if np.isnan(scores).any():
            raise UsageProblem("The encoder's scores hold NaN: it overflows in this precision.")
        written = []
        for place, token in enumerate(scores.argmax(1).tolist()):
            if token not in (stream.last, self.blank):
                written.append(Token(token, stream.frames + place))
            stream.last = token
        stream.frames += len(scores)
        return written
