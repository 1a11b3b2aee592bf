"""Runs utterances through a pool of streams and a decoder, and measures how late words are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.stream.clock import Clock
from trt_workbench.stream.compare import scalars
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.parts import Chunk
from trt_workbench.stream.contract.vocabulary import WORD_START, Vocabulary
from trt_workbench.stream.pool import PooledStream, StreamPool
from trt_workbench.stream.rows import row_of
from trt_workbench_speech.decoding import Decoder, Token

Frames = NDArray[Any]


@dataclass
class Heard:
    """What was heard of an utterance.

    Attributes:
        tokens: that were written.
        late_ms: of each word, from the moment at which the audio of its last chunk is due until it is shown.
        delay_ms: of each word, from the end of the frame that wrote its last token until it is shown: with the rest of
            the chunk, and what the model looks ahead.
        frames: of the encoder, [frames, width], by chunk; empty unless they are kept.
    """

    tokens: list[Token] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)
    delay_ms: list[float] = field(default_factory=list)
    frames: list[Frames] = field(default_factory=list)


@dataclass
class Hearing:
    """All utterances of a run, the seconds that pool and decoder were at work, and in how many rounds of chunks."""

    heard: list[Heard]
    work_s: float = 0.0
    rounds: int = 0


@dataclass
class _Open:
    place: int
    signal: NDArray[Any]  # with silence that a look-ahead needs
    stream: PooledStream
    text: Any
    last_word: tuple[float, float] | None = None
    frames: int = 0  # of the encoder, before this chunk
    most: int = 1  # in a chunk


class Ear:
    """A pool and a decoder that hear utterances together.

    An utterance's chunk is due when its audio is there, a hop after the one before; those that are open have theirs at
    the same time. Nothing waits for it: the time of the work is measured, and the clock goes on to the next due time.
    """

    def __init__(
        self, pool: StreamPool, decoder: Decoder, contract: Contract, vocabulary: Vocabulary, hop_s: float
    ) -> None:
        """Take a pool without open streams, and the decoder of its frames."""
        assert contract.decoding is not None
        self._pool, self._decoder, self._contract, self._vocabulary = pool, decoder, contract, vocabulary
        self._name, self._hop_s = contract.decoding.frames, hop_s
        self._axis = contract.signal[1].time_axis
        self._values: dict[int, dict[str, int]] = {}

    def hear(
        self,
        signals: Iterator[tuple[NDArray[Any], Mapping[str, float | str]]],
        *,
        keep: int = 0,
        progress: Callable[[int], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> Hearing:
        """Run signals of one stream each, as many at once as the pool has room for; tokens are in their order.

        Args:
            signals: shaped as the contract's, of any number of frames, with values of constants.
            keep: the frames of so many of the first are kept.
            progress: called with the utterances of every round that ended.
            clock: the time; real by default.

        Raises:
            UsageProblem: frames or scores do not fit the contract.
            DeviceFailure: the device failed.
        """
        time_of, heard = clock or Clock(), Hearing([])
        going: list[_Open] = []
        now = due = 0.0
        while True:
            while len(going) < self._pool.capacity and (said := next(signals, None)) is not None:
                signal, constants = said
                stream = self._pool.open(constants)
                going.append(_Open(len(heard.heard), self._ended(signal), stream, self._decoder.open()))
                heard.heard.append(Heard())
            if not going:
                return heard
            due += self._hop_s
            begin = time_of.now()
            frames, written = self._round(going)
            work = time_of.now() - begin
            heard.work_s += work
            heard.rounds += 1
            now = max(now, due) + work
            for one, own, tokens in zip(going, frames, written, strict=True):
                found = heard.heard[one.place]
                found.tokens += tokens
                one.most = max(one.most, len(own))
                self._late(one, found, tokens, (now - due) * 1e3)
                one.frames += len(own)
                if one.place < keep:
                    found.frames.append(own)
            ended = [one for one in going if one.stream.ended or one.stream.frames >= one.signal.shape[self._axis]]
            for one in ended:
                self._shown(one, heard.heard[one.place])
                one.stream.close()
                self._decoder.close(one.text)
            going = [one for one in going if one not in ended]
            progress(len(ended))

    def _ended(self, signal: NDArray[Any]) -> NDArray[Any]:
        """Return a signal with the frames after it that the model looks ahead into."""
        chunking = self._contract.chunking
        missing = [(0, chunking.right_context if axis == self._axis else 0) for axis in range(signal.ndim)]
        return np.pad(signal, missing, constant_values=chunking.left_fill) if chunking.right_context else signal

    def _round(self, going: Sequence[_Open]) -> tuple[list[Frames], list[list[Token]]]:
        """Run the next chunk of every open utterance."""
        chunks = [self._next(one) for one in going]
        outputs = self._pool.push([one.stream for one in going], [piece for _, piece in chunks])
        frames = [self._frames(chunk, found) for (chunk, _), found in zip(chunks, outputs, strict=True)]
        return frames, self._decoder.push([one.text for one in going], frames)

    def _next(self, one: _Open) -> tuple[Chunk, NDArray[Any]]:
        chunking, start = self._contract.chunking, one.stream.frames
        kind = chunking.later if one.stream.chunks else chunking.first
        size = kind.size
        new = min(kind.hop, one.signal.shape[self._axis] - start)
        chunk = Chunk(index=one.stream.chunks, start=start, new=new, left_context=kind.left_context, size=size)
        return chunk, np.take(one.signal, range(start, start + new), self._axis)

    def _frames(self, chunk: Chunk, outputs: dict[str, NDArray[Any]]) -> Frames:
        """Return the valid frames of a chunk, [frames, width]."""
        contract, said = self._contract, self._contract.outputs[self._name].valid
        assert said is not None
        array = np.moveaxis(row_of(outputs[self._name], contract.batch_axis(self._name), 0), said.axis, 0)
        if chunk.size not in self._values:
            self._values[chunk.size] = contract.chunk_values(chunk)
        known = {**contract.known(self._values[chunk.size], chunk), **scalars(outputs)}
        if contract.length:
            known[contract.length[0]] = chunk.valid
        own = array[said.part(known, len(array))]
        return own.reshape(len(own), -1)

    def _late(self, one: _Open, found: Heard, tokens: Sequence[Token], late_ms: float) -> None:
        """Note how late the words are that end before these tokens, or in them."""
        ahead_s = self._contract.chunking.right_context * (self._contract.chunking.frame_seconds or 0.0)
        for token in tokens:
            if self._vocabulary.pieces.get(token.number, "").startswith((WORD_START, " ")):
                self._shown(one, found)
            waited_s = self._hop_s * (1 - (token.frame - one.frames + 1) / one.most) + ahead_s
            one.last_word = late_ms, late_ms + waited_s * 1e3

    @staticmethod
    def _shown(one: _Open, found: Heard) -> None:
        """Note the word that has ended, if there is one."""
        if one.last_word is not None:
            found.late_ms.append(one.last_word[0])
            found.delay_ms.append(one.last_word[1])
