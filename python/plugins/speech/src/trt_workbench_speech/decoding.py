"""Greedy decoding: frames of an encoder to tokens, as the contract's `decoding` says.

In: `open_decoder` of a contract's folder; frames of many streams by chunk. Out: tokens with their frames.

    frames ─► joiner ─► token, duration ─┬► blank: on to a later frame
                 ▲                       └► token ─► predictor, whose state stays on the device ─┐
                 └───────────────────────────────────────────────────────────────────────────────┘

Of a transducer each step joins the streams that are not done with their frames: one call of the joiner, and one of the
predictor for those that wrote a token. CTC needs no models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file
from trt_workbench.engine.profiles import Profile, ShapeRange
from trt_workbench.stream.contract.decoding import Decoding
from trt_workbench.stream.contract.model_tensors import MODEL_SUFFIX, read_tensors
from trt_workbench.stream.contract.vocabulary import Vocabulary
from trt_workbench_speech.parts import Joiner, TextPredictor


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


Load = Callable[[Path, Profile | None], Session]
"""Opens a file in the ranges of shapes that it will be called with."""


@contextmanager
def open_decoder(said: Decoding, folder: Path, load: Load, capacity: int) -> Iterator[Decoder]:
    """Yield the decoder of a contract, with room for so many streams.

    Args:
        said: of the contract.
        folder: of the contract.
        load: opens sessions, which the caller closes.
        capacity: most streams that are open at once.

    Raises:
        UsageProblem: a file is missing, or its tensors are not those of its part.
    """
    # NeMo's vocabularies leave out the blank, their last
    tokens = max(max(Vocabulary(folder / said.tokens).pieces), said.blank) + 1
    if said.decoder is None or said.joiner is None:
        yield Ctc(said.blank, tokens)
        return
    decoder, joiner = (load(path, _profile(path, capacity)) for path in _files(said, folder))
    predictor = TextPredictor(decoder, said, capacity)
    try:
        yield Transducer(predictor, Joiner(joiner), said, tokens)
    finally:
        predictor.release()


def _files(said: Decoding, folder: Path) -> Iterator[Path]:
    for key, name in (("decoder", said.decoder), ("joiner", said.joiner)):
        path = folder / str(name)
        require_file(f"contract's decoding.{key}", path)
        yield path


def _profile(path: Path, most: int) -> Profile | None:
    """Return the ranges of a part: up to so many streams along its first dynamic dimension, 1 along any other."""
    if path.suffix != MODEL_SUFFIX:
        return None
    ranges = {}
    for name, tensor in read_tensors(path).inputs.items():
        shape = tensor.shape or ()
        free = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if free:
            least = [size if isinstance(size, int) else 1 for size in shape]
            whole = [most if axis == free[0] else size for axis, size in enumerate(least)]
            ranges[name] = ShapeRange(min=tuple(least), opt=tuple(whole), max=tuple(whole))
    return Profile(shapes=ranges) if ranges else None
