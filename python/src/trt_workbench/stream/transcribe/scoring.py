"""Utterances as data of other commands: a model's words with their errors, and its calls along the utterances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeFloat, NonNegativeInt

from trt_workbench.backends.base import Session
from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.hashing import hash_document, hash_file
from trt_workbench.core.workspace import ENCODER, embedded_contract, embedded_model
from trt_workbench.model.opened import sha256_of
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.parts import Chunk
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.decoding.opening import Load
from trt_workbench.stream.settings import CODE, RATES
from trt_workbench.stream.transcribe.error_rate import Rates
from trt_workbench.stream.transcribe.manifest import Utterance, code_utterances, read_manifest
from trt_workbench.stream.transcribe.speech import Listening, Speech, heard_signal
from trt_workbench.stream.transcribe.spoken_code import CALIBRATION_UTTERANCES, HELD_OUT_UTTERANCES

WORDS = "words.json"
CALIBRATION_CODE = "calibration code"
"""Utterances of the embedded code that are not scored."""


class WordScores(Strict):
    """words.json: what a model wrote of each utterance, with its errors.

    Attributes:
        names: of the utterances.
        right: their texts.
        found: what was written.
        words: of each right text; so are tokens, pieces of the vocabulary.
        word_errors: substituted, deleted and inserted words; token_errors are the same of pieces.
        call_ms: mean time of a call with its decoding, milliseconds.
    """

    schema_version: Literal[1] = 1
    names: list[str]
    right: list[str]
    found: list[str]
    words: list[NonNegativeInt]
    word_errors: list[NonNegativeInt]
    tokens: list[NonNegativeInt]
    token_errors: list[NonNegativeInt]
    call_ms: NonNegativeFloat

    def rates(self, seed: int) -> dict[str, tuple[float, NDArray[np.float64], float, NDArray[np.float64]]]:
        """Return each error rate by name.

        These are its value, its values over draws of the utterances, by how much an error moves the part that an
        utterance adds to the mean, and these parts, float64 [utterances].
        """
        pairs = ((self.words, self.word_errors), (self.tokens, self.token_errors))
        drawn = [(Rates(lengths, seed), errors, len(lengths) / sum(lengths)) for lengths, errors in pairs]
        found = [
            (rates.rate(errors).value, rates.resampled(errors), error, error * np.array(errors, np.float64))
            for rates, errors, error in drawn
        ]
        return dict(zip(RATES, found, strict=True))


@dataclass(frozen=True)
class Spoken:
    """Where utterances are, and by which contract a model hears them.

    Attributes:
        contract_path: its file.
        source: the manifest; "code" for utterances of the embedded code that are transcribed, "calibration code" for
            others of it.
        plain_texts: whether case and punctuation are left out of both texts.
    """

    contract_path: Path
    source: str
    plain_texts: bool = False

    @cached_property
    def contract(self) -> Contract:
        """What was read. Raises UsageProblem."""
        return read_contract(self.contract_path)

    @cached_property
    def utterances(self) -> list[Utterance]:
        """All of them. Raises UsageProblem."""
        seeds = {CODE: HELD_OUT_UTTERANCES, CALIBRATION_CODE: CALIBRATION_UTTERANCES}
        if self.source in seeds:
            return code_utterances(seeds=seeds[self.source])
        return read_manifest(Path(self.source))

    @cached_property
    def sha256(self) -> str:
        """A hash of the contract with the files of its decoding, the manifest and its audio."""
        said, manifest = self.contract.decoding, Path(self.source)
        parts = (said.tokens, said.decoder, said.joiner) if said else ()
        beside = [self.contract_path.parent / part for part in parts if part]
        audio = {one.audio for one in self.utterances if one.audio}
        files = [one for one in (self.contract_path, *beside, manifest, *sorted(audio)) if one.is_file()]
        return hash_document({**{str(file): hash_file(file) for file in files}, "source": self.source})

    def speech(self, utterances: Sequence[Utterance]) -> Speech:
        """Return some of the utterances, to be transcribed. Raises UsageProblem as `Speech`."""
        chunking = self.contract.chunking
        seconds = chunking.frame_seconds
        hop_s = None if seconds is None else chunking.later.hop * seconds
        asked = Listening(self.source, self.plain_texts)
        return Speech(self.contract, self.contract_path, utterances, hop_s, asked)

    def chunks(self, utterance: Utterance) -> list[Chunk]:
        """Return the chunks of an utterance. Raises UsageProblem where its audio cannot be used."""
        return list(self.contract.chunks(self._signal(utterance).shape[self.contract.signal[1].time_axis]))

    def calls(self, session: Session, utterance: Utterance, wanted: Sequence[int]) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the inputs of some of an utterance's chunks, with the states that the model reaches by then.

        Raises:
            UsageProblem: the audio, the contract and the model do not fit one another.
        """
        contract, state = self.contract, None
        for chunk, values, fed in self._fed(utterance):
            state = contract.initial_state(values, self.contract_path.parent) if state is None else state
            feed = {**fed, **state}
            if chunk.index in wanted:
                yield feed
            if chunk.index >= max(wanted):
                return
            state = contract.next_state(session.run(feed))

    def pieces(self, utterance: Utterance) -> Iterator[NDArray[Any]]:
        """Yield the signal of each chunk of an utterance, as the model is fed it. Raises UsageProblem."""
        name, _ = self.contract.signal
        yield from (fed[name] for _, _, fed in self._fed(utterance))

    def _fed(self, utterance: Utterance) -> Iterator[tuple[Chunk, dict[str, int], dict[str, NDArray[Any]]]]:
        contract, signal = self.contract.with_constants(utterance.constants), self._signal(utterance)
        for chunk in contract.chunks(signal.shape[contract.signal[1].time_axis]):
            values = contract.chunk_values(chunk)
            yield chunk, values, contract.feed(chunk, signal, values)

    def _signal(self, utterance: Utterance) -> NDArray[Any]:
        return heard_signal(self.contract, utterance.name, utterance.samples())


def spoken_by(model: Path, source: str, contract: Path | None, plain_texts: bool = False) -> Spoken | None:
    """Return the utterances of a manifest as a model hears them; None where no contract makes it one of streams.

    Args:
        model: its file; the embedded encoder has its own contract and utterances.
        source: as of `Spoken`.
        contract: of any other model.
        plain_texts: as of `Spoken`.
    """
    if contract is None:
        try:
            ours, contract = embedded_model(ENCODER), embedded_contract()
        except ComponentMissing:  # then it is another model
            return None
        if sha256_of(model) != sha256_of(ours):
            return None
    return Spoken(contract, source, plain_texts)


def write_words(session: Session, load: Load, speech: Speech, folder: Path) -> None:
    """Transcribe utterances, and write words.json.

    Args:
        session: of the encoder.
        load: opens the decoder's files.
        speech: the utterances.
        folder: for the file.

    Raises:
        UsageProblem: audio or files of the decoder do not fit the contract.
        DeviceFailure: the device failed.
    """
    with speech.ear(session, load) as (ear, _, _):
        hearing = ear.hear(speech.signals())
    judged, (words, tokens) = speech.judge(hearing.heard), speech.lengths
    found = WordScores(
        names=[one.name for one in speech.utterances],
        right=speech.right,
        found=judged.texts,
        words=words,
        word_errors=judged.word_errors,
        tokens=tokens,
        token_errors=judged.tokens,
        call_ms=hearing.work_s * 1e3 / max(hearing.rounds, 1),
    )
    write_json(folder / WORDS, found)


def read_words(folder: Path) -> WordScores:
    """Return what `write_words` wrote. Raises UsageProblem."""
    return read_document(folder / WORDS, WordScores)
