"""Utterances, and all that turns what a model hears of them into words with errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.audio import read_audio
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.vocabulary import Vocabulary
from trt_workbench.stream.input import require_rate, signal_of_audio
from trt_workbench.stream.pool import StreamPool
from trt_workbench.stream.rows import row_of
from trt_workbench_speech.decoding import Decoder, Load, Token, open_decoder
from trt_workbench_speech.error_rate import Errors, errors_between, normalized, one_form
from trt_workbench_speech.hearing import Ear, Heard
from trt_workbench_speech.manifest import Utterance

AT_ONCE = 16
"""Utterances that run together."""
_MOST_FRAMES = 2**31


@dataclass(frozen=True)
class JudgedTexts:
    """One side: its texts, with the errors of each utterance in words and in pieces of the vocabulary."""

    texts: list[str]
    words: list[Errors]
    tokens: list[int]
    split: list[list[str]]

    @property
    def word_errors(self) -> list[int]:
        """Return the errors of each utterance in words."""
        return [one.total for one in self.words]


class Listening(NamedTuple):
    """How utterances are heard.

    Attributes:
        source: the manifest, for messages.
        plain_texts: whether case and punctuation are left out.
        tail_ms: silence after each utterance.
        hop_ms: from one chunk of a stream to the next; None for the contract's.
    """

    source: str = ""
    plain_texts: bool = False
    tail_ms: float = 0.0
    hop_ms: float | None = None


class Speech:
    """Utterances with the contract of the model that hears them.

    Attributes:
        contract: of the model.
        said: what it says of decoding.
        utterances: in their order.
        right: their texts, as they are compared.
        seconds: of the audio of each, as far as it was read.
        vocabulary: of the decoder.
        folder: of the contract.
        asked: how they are heard.
    """

    def __init__(
        self,
        contract: Contract,
        path: Path,
        utterances: Sequence[Utterance],
        asked: Listening,
    ) -> None:
        """Read the vocabulary.

        Args:
            contract: with decoding.
            path: of the contract.
            utterances: that are heard.
            asked: how they are heard.

        Raises:
            UsageProblem: the contract says no decoding or no time, there is no text, no vocabulary, or an audio file
                cannot be heard: better now than after minutes of work.
            ComponentMissing: FLAC needs a package that is not there.
        """
        if contract.decoding is None:
            raise UsageProblem(
                f"Transcribing needs the contract's key decoding (decoder, joiner, tokens, blank): {path}"
            )
        frame_s = contract.chunking.frame_seconds or 0.0
        hop_s = asked.hop_ms / 1e3 if asked.hop_ms else contract.chunking.later.hop * frame_s
        if not hop_s:
            raise UsageProblem(
                "Transcribing needs the duration of a hop, and the contract has no chunking.frame_seconds; add it "
                f"(eval-speech also takes --hop-ms): {path}"
            )
        self.contract, self.said, self.utterances = contract, contract.decoding, utterances
        self.folder, self.asked, self._hop_s = path.parent, asked, hop_s
        self.vocabulary = Vocabulary(self.folder / self.said.tokens)
        self.right = [self.plain(one.text) for one in utterances]
        if not any(self.right):
            said = " but case and punctuation" if asked.plain_texts else ""
            raise UsageProblem(f"The manifest has no text{said}: {asked.source}")
        self.seconds = [0.0] * len(utterances)
        for one in utterances:
            contract.constants(one.constants)
            if one.audio is not None:
                self._begin(one, one.audio)

    def _begin(self, one: Utterance, audio: Path) -> None:
        """Refuse audio of another rate, a part that is not there, and one without a frame."""
        rate = require_rate(self.contract, read_audio(audio, most=0)[1], str(audio))
        samples, _ = read_audio(audio, one.offset, one.duration, most=rate)
        if len(samples) < rate:  # of a second there are frames
            heard_signal(self.contract, one.name, (samples, rate), self.asked.tail_ms)

    @cached_property
    def pieces(self) -> list[list[str]]:
        """The right texts in pieces of the vocabulary."""
        return [self.vocabulary.split(text) for text in self.right]

    @property
    def lengths(self) -> tuple[list[int], list[int]]:
        """Words, and pieces, of each right text."""
        return [len(text.split()) for text in self.right], [len(one) for one in self.pieces]

    def plain(self, text: str) -> str:
        """Return a text as it is compared."""
        return normalized(text) if self.asked.plain_texts else one_form(text)

    def text(self, tokens: Sequence[Token], *, faulty: bool = False) -> str:
        """Return what tokens write, as it is compared. Raises UsageProblem as `Vocabulary.text`."""
        return self.plain(self.vocabulary.text((one.number for one in tokens), faulty=faulty))

    def signals(self) -> Iterator[tuple[NDArray[Any], Mapping[str, float | str]]]:
        """Yield the signal of each utterance with the values of its constants. Raises UsageProblem."""
        for place, one in enumerate(self.utterances):
            samples, rate = one.samples()
            self.seconds[place] = len(samples) / rate
            signal = heard_signal(self.contract, one.name, (samples, rate), self.asked.tail_ms)
            yield row_of(signal, self.contract.signal[1].batch_axis, 0), one.constants

    @contextmanager
    def ear(self, session: Session, load: Load) -> Iterator[tuple[Ear, Decoder, StreamPool]]:
        """Yield what hears utterances by a session of the model, with its decoder and its pool of streams."""
        with (
            StreamPool(session, self.contract, folder=self.folder, capacity=AT_ONCE) as pool,
            # one more, for a fault that begins texts again
            open_decoder(self.said, self.folder, load, AT_ONCE + 1) as decoder,
        ):
            pool.warm_up()
            yield Ear(pool, decoder, self.contract, self.vocabulary, self._hop_s), decoder, pool

    def judge(self, heard: Sequence[Heard]) -> JudgedTexts:
        """Return the texts of what was heard, with their errors."""
        texts = [self.text(one.tokens) for one in heard]
        words = [errors_between(right.split(), text.split()) for right, text in zip(self.right, texts, strict=True)]
        split = [self.vocabulary.split(text) for text in texts]
        tokens = [errors_between(right, found).total for right, found in zip(self.pieces, split, strict=True)]
        return JudgedTexts(texts, words, tokens, split)


def heard_signal(
    contract: Contract, name: str, audio: tuple[NDArray[np.float32], int], tail_ms: float = 0.0
) -> NDArray[Any]:
    """Return the signal that an utterance's samples make, with silence at the end."""
    samples, rate = audio
    heard = np.concatenate([samples, np.zeros(round(tail_ms * rate / 1000), np.float32)])
    return signal_of_audio(contract, heard, rate, name, _MOST_FRAMES)
