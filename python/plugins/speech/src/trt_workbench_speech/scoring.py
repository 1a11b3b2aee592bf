"""Words as a score of `decide`, `quantize` and `sensitivity`: the errors of each utterance, and their rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.opened import Model
from trt_workbench.quantize import SCORED_SAMPLES, TRANSCRIPTION, WER, Metric, ResampledScore, Sample, Task
from trt_workbench.report.tables import Table
from trt_workbench.stream.settings import RATES
from trt_workbench.verify import refuse_wrong
from trt_workbench_speech.error_rate import Rates
from trt_workbench_speech.spoken import Spoken as Spoken

WORDS = "words.json"


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


def changed_texts(before: Path, after: Path, names: Sequence[str], most: int) -> Table:
    """Return utterances that one of two folders writes in another way, those with most further errors first.

    Args:
        before: folder of the baseline's words.json.
        after: folder of the other one's.
        names: of the two, as the head of their columns.
        most: rows.

    Raises:
        UsageProblem: a file cannot be read.
    """
    old, new = (read_document(folder / WORDS, WordScores) for folder in (before, after))
    changed = [place for place, text in enumerate(old.found) if text != new.found[place]]
    changed.sort(key=lambda place: old.word_errors[place] - new.word_errors[place])
    rows = [(old.names[one], old.right[one], old.found[one], new.found[one]) for one in changed[:most]]
    return Table(("utterance", "right", *names), rows, "Texts that change most")


def words(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the words of a streaming encoder into a folder; the decoder's files run in float32 on the same backend.

    Args:
        request: `model`, `contract`, `source`, its `sha256`, `limit`, `chosen` (places of the
            utterances, or None), `folder`, `backend`, its `precision`, `options` and `shapes` (as text),
            `allow_unverified`.

    Returns:
        What executed the encoder.

    Raises:
        UsageProblem: the files do not fit the contract, or the audio cannot be used.
        CheckFailed: the engine is known to be wrong.
        DeviceFailure: the device failed.
    """
    spoken = Spoken(Path(request["contract"]), request["source"])
    asked = SessionOptions(
        precision=request["precision"],
        extra=request["options"],
        shapes=request["shapes"] and Profile.model_validate(request["shapes"]),
    )
    said, chosen = spoken.utterances[: request["limit"]], request["chosen"]
    speech = spoken.speech([one for place, one in enumerate(said) if chosen is None or place in chosen])
    runtime = require_backend(request["backend"])
    with ExitStack() as stack:
        session = stack.enter_context(runtime.load(Path(request["model"]), asked))
        refuse_wrong(session.provenance, allow_unverified=request["allow_unverified"])

        def load(path: Path, shapes: Profile | None) -> Session:
            return stack.enter_context(runtime.load(path, replace(asked, precision="fp32", shapes=shapes)))

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
        write_json(Path(request["folder"]) / WORDS, found)
        return {"provenance": session.record(), "overflow": ""}


def word_scores(folder: Path, seed: int, names: Sequence[str] = RATES) -> ResampledScore:
    """Return error rates that `words` wrote, the first name's with the others. Raises UsageProblem."""
    found, made = read_document(folder / WORDS, WordScores), {}
    samples = "\n".join(f"{name} {text}" for name, text in zip(found.names, found.right, strict=True))
    pairs = ((found.words, found.word_errors), (found.tokens, found.token_errors))
    for name, (lengths, errors) in zip(RATES, pairs, strict=True):
        rates, error = Rates(lengths, seed), len(lengths) / sum(lengths)  # by how much an error moves the mean
        made[name] = ResampledScore(
            name=name,
            value=rates.rate(errors).value,
            resampled=rates.resampled(errors),
            samples=samples,
            count=len(found.names),
            seed=seed,
            worse="rises",
            call_ms=found.call_ms,
            guess=1.0,  # of a text with nothing in it
            step=error,
            each=error * np.array(errors, np.float64),
        )
    return replace(made[names[0]], others={name: made[name] for name in names[1:]})


class _Heard(Metric):
    read = staticmethod(word_scores)


HEARD = _Heard(
    kind=WER,
    name=RATES[0],
    unit="utterances",
    of="utterances, with --contract",
    elsewhere="eval-speech",
    is_share=True,
)


@dataclass(frozen=True)
class WordsTask(Task):
    """The error rates of a streaming encoder whose frames become words.

    Attributes:
        spoken: the utterances.
        overlap: whether ranges are found on the utterances that are scored.
        keep: names of the rates that are to be kept, the first of which is shown everywhere.
        limit: most utterances.
        chosen: places of those among them that are scored; None for all.
    """

    spoken: Spoken
    overlap: bool = False
    keep: tuple[str, ...] = RATES[:1]
    limit: int | None = None
    chosen: tuple[int, ...] | None = None
    name: str = TRANSCRIPTION
    metric: Metric = HEARD

    @property
    def published(self) -> tuple[str, ...]:
        """All rates, those to be kept first."""
        return tuple(dict.fromkeys((*self.keep, *RATES)))

    @property
    def data(self) -> str:
        """Where the samples are."""
        return self.spoken.source

    @property
    def contract(self) -> Path:
        """Of the encoder."""
        return self.spoken.contract_path

    @property
    def asks(self) -> dict[str, Any]:
        """What the worker is asked for."""
        return {
            "verb": "words",
            "contract": str(self.contract),
            "source": self.spoken.source,
            "sha256": self.spoken.sha256,  # what a later run compares
            "limit": self.limit,
            "chosen": self.chosen,
        }

    def samples_of(self, model: Model) -> Iterator[Sample]:
        """Yield the signals of some utterances: what calibration feeds of them is compared, not the states."""
        del model
        name, _ = self.spoken.contract.signal
        for one in self.spoken.utterances[: self.limit][:SCORED_SAMPLES]:
            yield from ({name: piece.ravel()} for piece in self.spoken.pieces(one))

    def sizes(self) -> dict[str, Any]:
        """Return that a call is a chunk of streams, whose sizes the contract says."""
        return {"kind": "stream"}
