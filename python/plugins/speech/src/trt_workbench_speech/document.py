"""What `eval-stream --transcribe` finds, and how it is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from trt_workbench.console.common import print_line, print_table
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import Strict
from trt_workbench.core.percent import share, signed
from trt_workbench.core.statistics.summary import Summary, claimed
from trt_workbench.report.tables import Table
from trt_workbench.stream.document import DECODING_FAULTS, HEARINGS, WORDS
from trt_workbench.stream.gate_result import GateResult
from trt_workbench.stream.transcribe.error_rate import Score

if TYPE_CHECKING:
    pass

_SHOWN = 3


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


class Transcribed(Strict):
    """Texts of a manifest's utterances.

    Attributes:
        source: the manifest, or the code.
        normalized: whether case and punctuation are left out of both texts.
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
    normalized: bool
    at_once: PositiveInt
    sides: list[Side]
    differences: dict[str, WordDifference]
    changes: dict[str, list[ChangedText]]
    ways: list[OtherHearing] = []
    faults: list[PlantedError] = []
    faults_wer: NonNegativeFloat | None = None


class TranscriptRecord(Strict):
    """A line of transcripts.jsonl: an utterance, what was right, and what each side wrote with its errors."""

    schema_version: Literal[1] = 1
    utterance: str
    text: str
    seconds: NonNegativeFloat
    found: dict[str, str]
    errors: dict[str, NonNegativeInt]


def show_transcribed(document: Mapping[str, Any]) -> None:
    """Print a `Transcribed`: error rates by side, differences, the first texts that changed, and planted faults."""
    found = Transcribed.model_validate(document)
    said = f"{counted(found.utterances, 'utterance')}, {counted(found.words, 'word')}, {found.audio_seconds:.0f} s"
    pairs = [(side, found.differences.get(side.name)) for side in found.sides]
    print_table(Table(WORDS, pairs, f"Word error rate: {said}"))
    for side in found.sides:
        print_line(_speed(side, found.at_once))
    if found.ways:
        print_table(Table(HEARINGS, found.ways, "The same audio heard in other ways"))
    for name, one in found.differences.items():
        print_line(
            f"{name}: WER {_difference(one.wer.value)}{_interval(one.wer, ' ({} to {})', _difference)} compared "
            f"with the reference; {counted(one.utterances_changed, 'utterance')} changed"
        )
        for change in found.changes[name][:_SHOWN]:
            print_line(f"  {change.utterance}: {change.text!r}: {change.reference!r} became {change.found!r}")
    if found.faults:
        title = f"Self-test of decoding; WER without a fault: {_percent(found.faults_wer or 0.0)}"
        print_table(Table(DECODING_FAULTS, found.faults, title))


def _speed(side: Side, at_once: int) -> str:
    if side.real_time_factor is None:
        return f"{side.name}: simulated, so its times say nothing"
    late = side.word_latency_ms
    known = [] if late is None else [(name, claimed(late, name)) for name in ("p50", "p99")]
    shown = ", ".join(f"{name} {figure:.1f} ms" for name, figure in known if figure is not None)
    words = f"; latency of a word from due time: {shown}" if shown else ""
    waits = side.word_delay_ms
    words += f"; a word waits {waits['p50']:.0f} ms for its chunk" if waits else ""
    return f"{side.name} on {side.backend}: real-time factor {side.real_time_factor:.4f}, {at_once} at once{words}"


def _interval(score: Score, form: str, text: Callable[[float], str]) -> str:
    return "" if score.ci95 is None else form.format(*map(text, score.ci95))


_percent = partial(share, digits=2)
_difference = partial(signed, digits=2)
