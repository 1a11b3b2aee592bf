"""Known faults of a decoder and joiner, planted on purpose: the gate of WER has to find each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench_speech.decoding import Ctc, Decoder, TextState, Transducer


class DecoderFault(NamedTuple):
    """A fault.

    Attributes:
        name: of it.
        text: what goes wrong.
        decoder: that has it; None where this one cannot.
        shift: by how many frames the decoder hears its frames too late.
        reason: why it cannot be planted.
    """

    name: str
    text: str
    decoder: Decoder | None
    shift: int = 0
    reason: str = ""


def decoder_faults(decoder: Decoder) -> Iterator[DecoderFault]:
    """Yield the faults that a decoder may have."""
    if isinstance(decoder, Ctc):
        yield DecoderFault("blank off by one", "another token is the blank", Ctc(_next(decoder.blank), decoder.tokens))
        return
    assert isinstance(decoder, Transducer)
    said, parts = decoder.said, (decoder.joiner, decoder.said, decoder.tokens)
    yield DecoderFault(
        "stale predictor state",
        "the decoder's state is never written",
        Transducer(_Stale(decoder.predictor), *parts) if said.state else None,
        reason="" if said.state else "the decoder has no state",
    )
    yield DecoderFault(
        "predictor not fed", "the decoder never gets a token", Transducer(_Unfed(decoder.predictor), *parts)
    )
    moved = said.model_copy(update={"blank": _next(said.blank)})
    yield DecoderFault(
        "blank off by one",
        "another token is the blank",
        Transducer(decoder.predictor, decoder.joiner, moved, decoder.tokens),
    )
    plain = said.model_copy(update={"durations": tuple(min(one, 1) for one in said.durations)})
    yield DecoderFault(
        "duration ignored",
        "every step goes on by at most one frame",
        Transducer(decoder.predictor, decoder.joiner, plain, decoder.tokens) if said.durations else None,
        reason="" if said.durations else "the decoder has no durations",
    )
    yield DecoderFault("frame late", "the joiner gets the frame before", decoder, shift=1)


def _next(blank: int) -> int:
    return blank - 1 if blank else 1


class _Stale:
    """A predictor that begins again at every token."""

    def __init__(self, inner: TextState) -> None:
        self._inner = inner
        self.open, self.start, self.close = inner.open, inner.start, inner.close

    def push(self, streams: Sequence[int], tokens: Sequence[int]) -> NDArray[np.float32]:
        """Return the features of each token as the first one of a text."""
        return np.stack([self._anew(token) for _, token in zip(streams, tokens, strict=True)])

    def _anew(self, token: int) -> NDArray[np.float32]:
        number = self._inner.open()
        features = self._inner.start(number)
        found = self._after(number, token, features)
        self._inner.close(number)
        return found

    def _after(self, number: int, token: int, features: NDArray[np.float32]) -> NDArray[np.float32]:  # noqa: ARG002
        return self._inner.push([number], [token]).ravel()


class _Unfed(_Stale):
    """A predictor whose features are those of an empty text."""

    def _after(self, number: int, token: int, features: NDArray[np.float32]) -> NDArray[np.float32]:  # noqa: ARG002
        return features
