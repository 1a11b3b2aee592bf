"""Utterances: of a manifest, a line of JSON each as NeMo writes them, or of the embedded code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasChoices, Field

from trt_workbench.core.documents import Open, read_lines
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file
from trt_workbench.stream.audio import read_audio
from trt_workbench.stream.contract.log_mel import SAMPLE_RATE
from trt_workbench_speech.spoken_code import HELD_OUT_UTTERANCES, utterance

_Seconds = Annotated[float, Field(ge=0, le=1e6)]


class ManifestLine(Open):
    """A line of a manifest; what else is in it is left alone."""

    audio: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("audio", "audio_filepath"))]
    text: str
    offset: _Seconds = 0.0
    duration: Annotated[_Seconds, Field(gt=0)] | None = None
    constants: Annotated[dict[str, float | str], Field(default_factory=dict)]


@dataclass(frozen=True)
class Utterance:
    """What was said, and where it is.

    Attributes:
        name: of it in records.
        text: that is right.
        audio: WAV or FLAC file; None for the utterance of the code with the number `seed`.
        offset: seconds from the start of the file.
        duration: in seconds; None to the end of the file.
        seed: of the code.
        constants: values of the contract's constants in place of its own, such as a language.
    """

    name: str
    text: str
    audio: Path | None = None
    offset: float = 0.0
    duration: float | None = None
    seed: int = 0
    constants: Mapping[str, float | str] = field(default_factory=dict)

    def samples(self) -> tuple[NDArray[np.float32], int]:
        """Return the audio and its sample rate. Raises UsageProblem as `read_audio`."""
        if self.audio is None:
            return utterance(self.seed).samples, SAMPLE_RATE
        return read_audio(self.audio, self.offset, self.duration)


def read_manifest(path: Path, most: int | None = None) -> list[Utterance]:
    """Return the utterances of a manifest, in its order.

    Args:
        path: of lines such as `{"audio": "a.wav", "text": "…", "offset": 0, "duration": 2.5}`; audio is beside it.
        most: how many of them.

    Raises:
        UsageProblem: the manifest cannot be read, has no utterance, or an audio file does not exist.
    """
    require_file("manifest", path)
    lines: list[ManifestLine] = read_lines(path, ManifestLine, 'a line is {"audio": "a.wav", "text": "what was said"}')
    found = list(_named(lines[:most], path.parent))
    if not found:
        raise UsageProblem(f"The manifest has no utterance: {path}")
    if absent := next((one.audio for one in found if one.audio and not one.audio.is_file()), None):
        raise UsageProblem(f"An audio file of the manifest does not exist: {absent}")
    return found


def code_utterances(most: int | None = None, seeds: Sequence[int] = HELD_OUT_UTTERANCES) -> list[Utterance]:
    """Return the embedded utterances, on which nothing was trained, or others of the code."""
    return [Utterance(f"code {place}", utterance(seed).text, seed=seed) for place, seed in enumerate(seeds[:most])]


def _named(lines: list[ManifestLine], folder: Path) -> Iterator[Utterance]:
    for one in lines:
        part = f" from {one.offset:g} s" if one.offset else ""
        yield Utterance(f"{one.audio}{part}", one.text, folder / one.audio, one.offset, one.duration, 0, one.constants)
