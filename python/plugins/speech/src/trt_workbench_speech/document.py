"""What an eval-speech run writes; docs/reference/run-directory.md has all keys."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from trt_workbench.core.documents import Strict
from trt_workbench.core.statistics.summary import Summary
from trt_workbench.report.verdict import Reach
from trt_workbench.stream.document import ComparedStream
from trt_workbench.stream.gate_result import GateResult
from trt_workbench_speech.error_rate import Score


class Side(Strict):
    """One runtime in one precision.

    Attributes:
        name: of the lane: `reference`, or the precision that was asked for.
        wer: errors in relation to the words of the right texts.
        token_error_rate: the same of pieces of the vocabulary; both texts are split alike.
        substitutions: of words; so are deletions and insertions.
        plain_wer: without case and punctuation; None where `wer` is that.
        real_time_factor: time of the work in relation to the audio of all utterances; None where it is simulated.
        word_latency_ms: from the moment at which the audio of a word's last chunk is due until the word is shown.
        word_delay_ms: from the end of the frame that wrote a word's last token until the word is shown: with what it
            waits for the rest of its chunk, and for what the model looks ahead.
        state_on_device: of the encoder.
        predictor_on_device: of the decoder; None without one.
        provenance: what executed the encoder; that of the reference is in `reference`.
    """

    name: str
    backend: str
    wer: Score
    token_error_rate: Score
    substitutions: NonNegativeInt
    deletions: NonNegativeInt
    insertions: NonNegativeInt
    plain_wer: NonNegativeFloat | None = None
    real_time_factor: NonNegativeFloat | None
    word_latency_ms: Summary | None
    word_delay_ms: Summary | None = None
    state_on_device: bool
    predictor_on_device: bool | None
    provenance: dict[str, Any]
    gates: list[GateResult] = []


class OtherHearing(Strict):
    """The same audio heard in another way, in float32 on the reference's backend.

    Attributes:
        name: such as "chunks of 121 frames", or "whole utterances".
        model: another one than the reference's; None for that.
        hop_seconds: from one chunk to the next; None where a chunk is a whole utterance.
        ahead_seconds: that the model looks ahead.
        wer: errors in relation to the words of the right texts.
        token_error_rate: the same of pieces of its own vocabulary.
        difference: by how much higher the WER is than the reference's, of the same utterances.
        utterances_changed: whose texts differ from the reference's.
        real_time_factor: time of the work in relation to the audio of all utterances.
        word_delay_ms: as of `Side`.
    """

    name: str
    model: str | None
    hop_seconds: NonNegativeFloat | None
    ahead_seconds: NonNegativeFloat
    wer: Score
    token_error_rate: Score
    difference: Score
    utterances_changed: NonNegativeInt
    real_time_factor: NonNegativeFloat
    word_delay_ms: Summary | None


class WordDifference(Strict):
    """A precision compared with the reference on the same utterances.

    Attributes:
        wer: by how much higher the precision's is.
        utterances_changed: whose texts differ.
        tokens_changed: edits between the two texts' tokens, in relation to the reference's.
    """

    wer: Score
    utterances_changed: NonNegativeInt
    tokens_changed: NonNegativeFloat


class ChangedText(Strict):
    """An utterance whose text a precision changes."""

    utterance: str
    text: str
    reference: str
    found: str
    reference_errors: NonNegativeInt
    errors: NonNegativeInt


class PlantedError(Strict):
    """A fault that was planted into the decoding of the reference's frames.

    Attributes:
        reason: why it could not be planted; empty where it was.
        wer: with it.
        caught: whether the gate of WER fails.
    """

    fault: str
    text: str
    reason: str = ""
    wer: NonNegativeFloat | None = None
    caught: bool = False


class SpeechMetrics(ComparedStream):
    """metrics.json of eval-speech: texts of a manifest's utterances.

    Attributes:
        source: the manifest, or the code.
        at_once: utterances that ran together.
        sides: the reference, then each precision.
        differences: by precision.
        changes: by precision, the first utterances that changed.
        ways: in which the same audio was also heard, by `--also`.
        faults: that were planted, by `--faults`.
        faults_wer: of the same utterances without a fault.
    """

    source: dict[str, Any]
    kind: Literal["transducer", "tdt", "ctc"]
    utterances: PositiveInt
    words: PositiveInt
    tokens: PositiveInt
    audio_seconds: NonNegativeFloat
    at_once: PositiveInt
    sides: list[Side]
    differences: dict[str, WordDifference]
    changes: dict[str, list[ChangedText]]
    ways: list[OtherHearing]
    faults: list[PlantedError]
    faults_wer: NonNegativeFloat | None

    @property
    def pairs(self) -> list[tuple[Side, WordDifference | None]]:
        """Each side with its difference from the reference."""
        return [(side, self.differences.get(side.name)) for side in self.sides]

    @property
    def timed(self) -> list[Side]:
        """Those whose times say something."""
        return [side for side in self.sides if side.real_time_factor is not None]

    @property
    def reach(self) -> Reach:
        """What ran and could have failed: a model compared with itself by `--max-wer` alone."""
        count, limited = len(self.differences), self.settings["max_wer"] is not None
        return Reach(count, count, count if limited or not self.compared_with_itself else 0, len(self.failures))


class TranscriptRecord(Strict):
    """A line of transcripts.jsonl: an utterance, what was right, and what each side wrote with its errors."""

    schema_version: Literal[1] = 1
    utterance: str
    text: str
    seconds: NonNegativeFloat
    found: dict[str, str]
    errors: dict[str, NonNegativeInt]
