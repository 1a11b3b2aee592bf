"""Utterances as data of other commands: as the model hears them, and its calls along them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.core.hashing import hash_document, hash_file
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.parts import Chunk
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.settings import CALIBRATION_CODE, CODE
from trt_workbench_speech.manifest import Utterance, code_utterances, read_manifest
from trt_workbench_speech.speech import Listening, Speech, heard_signal
from trt_workbench_speech.spoken_code import CALIBRATION_UTTERANCES, HELD_OUT_UTTERANCES


@dataclass(frozen=True)
class Spoken:
    """Where utterances are, and by which contract a model hears them.

    Attributes:
        contract_path: its file.
        source: the manifest; "code" for utterances of the embedded code that are transcribed, "calibration code" for
            others of it.
    """

    contract_path: Path
    source: str

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
        return Speech(self.contract, self.contract_path, utterances, Listening(self.source))

    def shares(self, other: Spoken) -> bool:
        """Return whether the other one may have an utterance of this one. Raises UsageProblem."""
        places = (
            {(one.audio and one.audio.resolve(), one.seed, one.offset) for one in each.utterances}
            for each in (self, other)
        )
        return self.source == other.source or bool(set.intersection(*places))

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
