"""Transcribes utterances with the reference and with every precision, and compares their error rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import append_lines, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_file
from trt_workbench.core.percent import share, signed
from trt_workbench.core.statistics.summary import summarize
from trt_workbench.stream.gate_result import GateResult
from trt_workbench.stream.opening import OpenedStream
from trt_workbench.stream.pool import StreamPool
from trt_workbench.stream.settings import CODE
from trt_workbench_speech.decoding import Decoder, Token, Transducer
from trt_workbench_speech.document import (
    ChangedText,
    OtherHearing,
    PlantedError,
    Side,
    SpeechMetrics,
    TranscriptRecord,
    WordDifference,
)
from trt_workbench_speech.error_rate import Rates, Score, errors_between, normalized
from trt_workbench_speech.faults import decoder_faults
from trt_workbench_speech.hearing import Frames, Heard, Hearing
from trt_workbench_speech.manifest import Utterance, code_utterances, read_manifest
from trt_workbench_speech.parts import TextPredictor
from trt_workbench_speech.settings import SpeechSettings
from trt_workbench_speech.speech import AT_ONCE, JudgedTexts, Listening, Speech
from trt_workbench_speech.ways import HeardWay, hear, way_of

REFERENCE = "reference"
TRANSCRIPTS = "transcripts.jsonl"
# Utterances that faults are planted on, and changes that metrics.json shows.
_FOR_FAULTS, _SHOWN = 32, 20


class Transcription:
    """The utterances of an evaluation.

    Attributes:
        notes: on them.
    """

    def __init__(self, opened: OpenedStream, settings: SpeechSettings) -> None:
        """Read the manifest.

        Args:
            opened: the sessions.
            settings: what is asked for.

        Raises:
            UsageProblem: the manifest, the contract or the settings do not allow it.
        """
        self._opened, self._settings = opened, settings
        asked = Listening(str(settings.data or CODE), settings.normalize, settings.tail_ms, settings.hop_ms)
        self._speech = Speech(opened.contract, opened.contract_path, self._read(), asked)
        self.notes = list(self._unwritten())
        if opened.is_compared_with_itself:
            self.notes.append(
                "Target and reference are the same model on the same runtime. Name another with --backend or "
                "--reference."
            )
        model = opened.reference_file
        self._ways = [way_of(one, model, opened.contract_path, self._speech) for one in settings.also]

    def run(self, folder: Path, progress: Callable[[int, int], None]) -> SpeechMetrics:
        """Transcribe, and write transcripts.jsonl and metrics.json.

        Args:
            folder: an existing folder.
            progress: called with the utterances that ended, of every side, and their total.

        Raises:
            UsageProblem: audio or files of the decoder do not fit the contract.
            DeviceFailure: the device failed.
        """
        done, total = 0, len(self._speech.utterances) * (1 + len(self._settings.precision) + len(self._ways))

        def count(ended: int) -> None:
            nonlocal done
            done += ended
            progress(done, total)

        faults: list[PlantedError] = []
        opened, asked, keep = self._opened, self._settings.data, _FOR_FAULTS if self._settings.faults else 0
        words, tokens = (Rates(lengths, self._settings.seed) for lengths in self._speech.lengths)
        judged, sides = {}, []
        with self._speech.ear(opened.reference_session(), opened.reference_part) as (ear, decoder, pool):
            hearing = ear.hear(self._speech.signals(), keep=keep, progress=count)
            judged[REFERENCE] = self._speech.judge(hearing.heard)
            sides.append(
                self._side(
                    REFERENCE, opened.settings.reference, judged[REFERENCE], hearing, words, tokens, (decoder, pool)
                )
            )
            if keep:
                faults = list(self._planted(decoder, hearing.heard[:keep], judged[REFERENCE]))
        ways = [self._heard(way, judged[REFERENCE], words, count) for way in self._ways]
        for precision in self._settings.precision:
            session = opened.joined_session(precision)
            with self._speech.ear(session, opened.part(precision)) as (ear, decoder, pool):
                hearing = ear.hear(self._speech.signals(), progress=count)
            found = self._speech.judge(hearing.heard)
            judged[precision] = found
            side = self._side(precision, opened.backend, found, hearing, words, tokens, (decoder, pool))
            sides.append(self._gated(side, words.difference(found.word_errors, judged[REFERENCE].word_errors)))
        append_lines(
            folder / TRANSCRIPTS,
            [
                TranscriptRecord(
                    utterance=one.name,
                    text=self._speech.right[place],
                    seconds=self._speech.seconds[place],
                    found={name: side.texts[place] for name, side in judged.items()},
                    errors={name: side.words[place].total for name, side in judged.items()},
                )
                for place, one in enumerate(self._speech.utterances)
            ],
        )
        reference = judged[REFERENCE]
        others = {name: one for name, one in judged.items() if name != REFERENCE}
        first = range(min(keep, len(self._speech.utterances)))
        metrics = SpeechMetrics(
            **opened.facts(self._settings, list(_failures(sides, faults)), self.notes),
            source={"kind": "manifest", "path": str(asked), "sha256": hash_file(asked)} if asked else {"kind": CODE},
            kind=self._speech.said.kind,
            utterances=len(self._speech.utterances),
            words=sum(self._speech.lengths[0]),
            tokens=sum(self._speech.lengths[1]),
            audio_seconds=sum(self._speech.seconds),
            at_once=AT_ONCE,
            sides=sides,
            differences={name: _difference(one, reference, words) for name, one in others.items()},
            changes={name: list(self._changes(one, reference))[:_SHOWN] for name, one in others.items()},
            ways=ways,
            faults=faults,
            faults_wer=self._wer_of([reference.word_errors[place] for place in first]) if keep else None,
        )
        write_json(folder / "metrics.json", metrics)
        return metrics

    def _read(self) -> list[Utterance]:
        asked, most = self._settings.data, self._settings.utterances
        if asked:
            return read_manifest(asked, most)
        if not self._opened.is_embedded:
            raise UsageProblem("Pass a manifest with --data: only the embedded encoder has utterances of its own.")
        return code_utterances(most)

    def _unwritten(self) -> Iterator[str]:
        found = (self._speech.vocabulary.unwritten(self._speech.plain(one.text)) for one in self._speech.utterances)
        if lacking := [letters for letters in found if letters]:
            letters = "".join(dict.fromkeys("".join(lacking)))
            yield (
                f"The vocabulary cannot write {letters[:20]!r}, which {counted(len(lacking), 'text')} of the manifest "
                f"{'has' if len(lacking) == 1 else 'have'}: each is an error."
                f"{'' if self._settings.normalize else ' Pass --normalize to leave out case and punctuation.'}"
            )
        if empty := sum(not one.text.split() for one in self._speech.utterances):
            yield (
                f"{counted(empty, 'text')} of the manifest {'is' if empty == 1 else 'are'} empty: any word is an error."
            )

    def _side(
        self,
        name: str,
        backend: str,
        judged: JudgedTexts,
        hearing: Hearing,
        words: Rates,
        tokens: Rates,
        parts: tuple[Decoder, StreamPool],
    ) -> Side:
        decoder, pool = parts
        session = None if name == REFERENCE else self._opened.joined_session(name)
        simulated = session is not None and session.simulated
        late = [ms for one in hearing.heard for ms in one.late_ms]
        delays = [ms for one in hearing.heard for ms in one.delay_ms]
        predictor = decoder.predictor if isinstance(decoder, Transducer) else None
        return Side(
            name=name,
            backend=backend,
            wer=words.rate(judged.word_errors),
            token_error_rate=tokens.rate(judged.tokens),
            substitutions=sum(one.substitutions for one in judged.words),
            deletions=sum(one.deletions for one in judged.words),
            insertions=sum(one.insertions for one in judged.words),
            plain_wer=None if self._settings.normalize else self._plain_wer(judged.texts),
            real_time_factor=None if simulated else hearing.work_s / sum(self._speech.seconds),
            word_latency_ms=summarize(late) if late and not simulated else None,
            word_delay_ms=summarize(delays) if delays and not simulated else None,
            state_on_device=pool.on_device,
            provenance={} if session is None else self._opened.record(session),
            predictor_on_device=predictor.on_device if isinstance(predictor, TextPredictor) else None,
        )

    def _plain_wer(self, texts: Sequence[str]) -> float | None:
        pairs = [
            (normalized(right).split(), normalized(text).split())
            for right, text in zip(self._speech.right, texts, strict=True)
        ]
        count = sum(len(right) for right, _ in pairs)
        return sum(errors_between(*pair).total for pair in pairs) / count if count else None

    def _heard(
        self, way: HeardWay, reference: JudgedTexts, words: Rates, progress: Callable[[int], None]
    ) -> OtherHearing:
        """Hear the utterances in another way."""
        opened, speech, chunking = self._opened, way.speech, way.speech.contract.chunking
        session = opened.reference_part(way.model, None) if way.model else opened.reference_session()
        hearing = hear(way, session, opened.reference_part, progress)
        judged = speech.judge(hearing.heard)
        tokens = Rates(speech.lengths[1], self._settings.seed)
        delays = [ms for one in hearing.heard for ms in one.delay_ms]
        seconds = chunking.frame_seconds or 0.0
        return OtherHearing(
            name=way.name,
            model=str(way.model) if way.model else None,
            hop_seconds=None if way.whole else chunking.later.hop * seconds,
            ahead_seconds=chunking.right_context * seconds,
            wer=words.rate(judged.word_errors),
            token_error_rate=tokens.rate(judged.tokens),
            difference=words.difference(judged.word_errors, reference.word_errors),
            utterances_changed=sum(one != other for one, other in zip(judged.texts, reference.texts, strict=True)),
            real_time_factor=hearing.work_s / sum(speech.seconds),
            word_delay_ms=summarize(delays) if delays else None,
        )

    def _gated(self, side: Side, loss: Score) -> Side:
        asked, gates = self._settings, []
        if asked.max_wer is not None:
            gates.append(_gate("wer", side.wer.value, asked.max_wer, f"WER {share(side.wer.value, 2)}"))
        text = f"WER is {signed(loss.value, 2)} compared with the reference"
        gates.append(_gate("wer_loss", loss.value, asked.max_wer_loss, text))
        return side.model_copy(update={"gates": gates})

    def _changes(self, found: JudgedTexts, reference: JudgedTexts) -> Iterator[ChangedText]:
        for place, one in enumerate(self._speech.utterances):
            if found.texts[place] != reference.texts[place]:
                yield ChangedText(
                    utterance=one.name,
                    text=self._speech.right[place],
                    reference=reference.texts[place],
                    found=found.texts[place],
                    reference_errors=reference.words[place].total,
                    errors=found.words[place].total,
                )

    def _planted(self, decoder: Decoder, heard: Sequence[Heard], healthy: JudgedTexts) -> Iterator[PlantedError]:
        """Decode the reference's frames again with each fault."""
        whole = [np.concatenate(one.frames) for one in heard]
        limit = self._wer_of(healthy.word_errors[: len(heard)]) + self._settings.max_wer_loss
        for fault in decoder_faults(decoder):
            if fault.decoder is None:
                yield PlantedError(fault=fault.name, text=fault.text, reason=fault.reason)
                continue
            shifted = [np.roll(one, fault.shift, 0) for one in whole]
            texts = [self._speech.text(one, faulty=True) for one in _decoded(fault.decoder, shifted)]
            errors = [
                errors_between(right.split(), text.split()).total
                for right, text in zip(self._speech.right, texts, strict=False)
            ]
            wer = self._wer_of(errors)
            yield PlantedError(fault=fault.name, text=fault.text, wer=wer, caught=wer > limit)

    def _wer_of(self, errors: Sequence[int]) -> float:
        """Return the WER of the first utterances."""
        words = sum(len(text.split()) for text in self._speech.right[: len(errors)])
        return sum(errors) / max(words, 1)


def _failures(sides: Sequence[Side], faults: Sequence[PlantedError]) -> Iterator[str]:
    """Yield what failed, a sentence each."""
    for side in sides:
        for gate in side.gates:
            if gate.verdict == "failed":
                yield f"{side.name}: gate {gate.gate}: {gate.text} (limit {gate.limit:g})"
    for one in faults:
        if not one.reason and not one.caught:
            yield f"self-test: the gate of WER does not catch the fault {one.fault!r}"


def _decoded(decoder: Decoder, frames: Sequence[Frames]) -> Iterator[list[Token]]:
    for first in range(0, len(frames), AT_ONCE):
        some = frames[first : first + AT_ONCE]
        streams = [decoder.open() for _ in some]
        yield from decoder.push(streams, some)
        for stream in streams:
            decoder.close(stream)


def _difference(found: JudgedTexts, reference: JudgedTexts, words: Rates) -> WordDifference:
    changed = [one != other for one, other in zip(found.texts, reference.texts, strict=True)]
    edits = sum(errors_between(right, own).total for right, own in zip(reference.split, found.split, strict=True))
    return WordDifference(
        wer=words.difference(found.word_errors, reference.word_errors),
        utterances_changed=sum(changed),
        tokens_changed=edits / max(sum(map(len, reference.split)), 1),
    )


def _gate(name: str, value: float, limit: float, text: str) -> GateResult:
    return GateResult(gate=name, verdict="failed" if value > limit else "passed", value=value, limit=limit, text=text)
