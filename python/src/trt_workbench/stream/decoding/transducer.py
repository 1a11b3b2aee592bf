"""Greedy decoding of transducers, many streams at once.

Each step joins the streams that are not done with their frames: one call of the joiner, and one of the predictor for
those that wrote a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.decoding import Decoding
from trt_workbench.stream.decoding.parts import Joiner


class Token(NamedTuple):
    """A token, and the frame of the stream that wrote it."""

    number: int
    frame: int


class TextState(Protocol):
    """What `parts.TextPredictor` offers."""

    def open(self) -> int:
        """Return the number of a new stream."""

    def start(self, stream: int) -> NDArray[np.float32]:
        """Return the features of a stream before its first token."""

    def push(self, streams: Sequence[int], tokens: Sequence[int]) -> NDArray[np.float32]:
        """Take the next token of each of several streams; return the features after it."""

    def close(self, stream: int) -> None:
        """Release a stream."""


class Decoder(Protocol):
    """Turns frames of many streams into tokens."""

    def open(self) -> Any:
        """Return a new stream."""

    def push(self, streams: Sequence[Any], frames: Sequence[NDArray[Any]]) -> list[list[Token]]:
        """Take the next frames of several streams, [frames, width] each; return the tokens that they wrote."""

    def close(self, stream: Any) -> None:
        """Release a stream."""


@dataclass
class TransducerStream:
    """A stream between its chunks.

    Attributes:
        number: of the predictor's stream.
        features: of its text.
        frames: of the chunks before.
        place: of the next frame that is read, in the chunk that comes next.
        symbols: tokens that this frame has written.
    """

    number: int
    features: NDArray[np.float32]
    frames: int = 0
    place: int = 0
    symbols: int = 0
    written: list[Token] = field(default_factory=list)


class Transducer:
    """Greedy decoding of a transducer, with durations or without.

    A frame writes tokens until the blank or `max_symbols` of them. With durations, a step goes on by its duration; a
    blank goes on by one frame at least.

    Attributes:
        predictor: the decoder.
        joiner: of frames and texts.
        said: what the contract says.
        tokens: size of the vocabulary, the blank among it.
    """

    def __init__(self, predictor: TextState, joiner: Joiner, said: Decoding, tokens: int) -> None:
        """Take the parts."""
        self.predictor, self.joiner, self.said, self.tokens = predictor, joiner, said, tokens

    def open(self) -> TransducerStream:
        """Return a new stream."""
        number = self.predictor.open()
        return TransducerStream(number, self.predictor.start(number))

    def close(self, stream: TransducerStream) -> None:
        """Release a stream."""
        self.predictor.close(stream.number)

    def push(self, streams: Sequence[TransducerStream], frames: Sequence[NDArray[Any]]) -> list[list[Token]]:
        """Take the next frames of several streams, [frames, width] each; return the tokens that they wrote.

        Raises:
            UsageProblem: the joiner has other scores than vocabulary and durations, or they are not finite.
        """
        pairs = list(zip(streams, frames, strict=True))
        while active := [(stream, own) for stream, own in pairs if stream.place < len(own)]:
            rows = np.stack([own[stream.place] for stream, own in active]).astype(np.float32, copy=False)
            scores = self.joiner.scores(rows, np.stack([stream.features for stream, _ in active]))
            tokens, durations = self._best(scores)
            wrote = [
                stream
                for (stream, _), token, duration in zip(active, tokens, durations, strict=True)
                if self._moved(stream, token, duration)
            ]
            if wrote:
                said = [stream.written[-1].number for stream in wrote]
                found = self.predictor.push([stream.number for stream in wrote], said)
                for stream, features in zip(wrote, found, strict=True):
                    stream.features = features
        written = []
        for stream, own in pairs:
            written.append(stream.written)
            stream.written, stream.frames, stream.place = [], stream.frames + len(own), stream.place - len(own)
        return written

    def _best(self, scores: NDArray[np.float32]) -> tuple[list[int], list[int]]:
        """Return the best token and duration of each row; a duration of -1 is none."""
        count = len(self.said.durations)
        if scores.shape[1] != self.tokens + count:
            raise UsageProblem(
                f"The joiner gives {scores.shape[1]} scores, but the vocabulary has {self.tokens} tokens"
                + (f" and decoding.durations {count} entries." if count else ", the blank among them.")
            )
        if np.isnan(scores).any():
            raise UsageProblem("The joiner's scores hold NaN: encoder, decoder or joiner overflows in this precision.")
        tokens = scores[:, : self.tokens].argmax(1).tolist()
        if not count:
            return tokens, [-1] * len(tokens)
        return tokens, np.asarray(self.said.durations)[scores[:, self.tokens :].argmax(1)].tolist()

    def _moved(self, stream: TransducerStream, token: int, duration: int) -> bool:
        """Move a stream on by a step; return whether it wrote a token."""
        wrote = token not in (self.said.blank, self.said.unknown)
        if wrote:
            stream.written.append(Token(token, stream.frames + stream.place))
            stream.symbols += 1
        stay = (duration <= 0) if wrote else False
        full = stream.symbols >= self.said.max_symbols
        if not stay or full:
            stream.place += max(duration, 1)
            stream.symbols = 0
        return wrote
