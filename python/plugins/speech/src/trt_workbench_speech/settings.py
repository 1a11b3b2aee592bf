"""What `eval-speech` can be asked for, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.settings import Setting
from trt_workbench.stream.settings import StreamedModel, StreamSettings

WHOLE: Literal["whole"] = "whole"
_WORDS = "Transcription"


class Also(NamedTuple):
    """How the same audio is also heard.

    Attributes:
        name: of it.
        chunks: frames of a chunk, or `whole` utterances; None for those of the contract.
        contract: another one than that of the command; "" for that.
        model: another one; "" for the reference's.
    """

    name: str
    chunks: int | Literal["whole"] | None = None
    contract: str = ""
    model: str = ""


def read_also(option: str, texts: Sequence[str]) -> tuple[Also, ...]:
    """Return other ways to hear of a repeated option. Raises UsageProblem for text that is none."""
    return tuple(_also(option, text) for text in dict.fromkeys(texts))


def _also(option: str, text: str) -> Also:
    model, _, contract = text.rpartition("=")
    if text == WHOLE:
        return Also("whole utterances", WHOLE)
    if frames := whole_number(text):
        return Also(f"chunks of {frames} frames", frames)
    if contract.endswith(".json") and (model.endswith(".onnx") or not model):
        return Also(f"{text}, whole utterances" if model else text, WHOLE if model else None, contract, model)
    raise UsageProblem(
        f"{option} takes a number of frames, whole, CONTRACT.json, or MODEL.onnx=CONTRACT.json of an offline encoder, "
        f"not {text!r}."
    )


@dataclass(frozen=True)
class SpeechSettings(StreamedModel):
    """Which utterances a model transcribes, how they are heard, and by which gates."""

    data: Annotated[
        Path | None,
        Setting("Manifest of the utterances; without one, the embedded code's.", _WORDS, metavar="MANIFEST"),
    ] = None
    utterances: Annotated[int | None, Setting("Transcribe at most this many.", _WORDS, min=1)] = None
    normalize: Annotated[bool, Setting("Leave out case and punctuation of both texts.", _WORDS)] = False
    tail_ms: Annotated[float, Setting("Silence after each utterance.", _WORDS, min=0, max=60_000)] = 0.0
    also: Annotated[
        tuple[Also, ...],
        Setting(
            "Also hear the audio in chunks of so many frames, as whole utterances, by another contract, or whole with "
            "an offline encoder: 121, whole, CONTRACT.json, MODEL.onnx=CONTRACT.json; repeatable.",
            _WORDS,
            kind=list[str],
            read=read_also,
            metavar="WAY",
        ),
    ] = ()
    max_wer: Annotated[float | None, Setting("Highest acceptable word error rate.", _WORDS, min=0)] = None
    max_wer_loss: Annotated[
        float, Setting("By how much the word error rate may be above the reference's.", _WORDS, min=0)
    ] = 0.005

    @property
    def opened(self) -> StreamSettings:
        """What is opened for it, as of `eval-stream`."""
        return StreamSettings(**{one.name: getattr(self, one.name) for one in fields(StreamedModel)})
