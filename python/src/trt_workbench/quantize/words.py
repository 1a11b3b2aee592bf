"""Error rates of what a streaming model writes of utterances, as scores."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.engine.profiles import Profile
from trt_workbench.quantize.scores import ResampledScore
from trt_workbench.stream import RATES, Spoken, read_words, write_words
from trt_workbench.verify import refuse_wrong


def score_words(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the words of a streaming encoder into a folder; the decoder's files run in float32 on the same backend.

    Args:
        request: `model`, `contract`, `source`, its `sha256`, `plain_texts`, `limit`, `chosen` (places of the
            utterances, or None), `folder`, `backend`, its `precision`, `options` and `shapes` (as text),
            `allow_unverified`.

    Returns:
        What executed the encoder.

    Raises:
        UsageProblem: the files do not fit the contract, or the audio cannot be used.
        CheckFailed: the engine is known to be wrong.
    """
    spoken = Spoken(Path(request["contract"]), request["source"], request["plain_texts"])
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

        write_words(session, load, speech, Path(request["folder"]))
        return {"provenance": session.record(), "overflow": ""}


def word_scores(folder: Path, seed: int, names: tuple[str, ...] = RATES) -> ResampledScore:
    """Return error rates that `score_words` wrote, the first name's with the others. Raises UsageProblem."""
    found = read_words(folder)
    samples = "\n".join(f"{name} {text}" for name, text in zip(found.names, found.right, strict=True))
    made = {
        name: ResampledScore(
            value=value,
            resampled=drawn,
            samples=samples,
            count=len(found.names),
            seed=seed,
            worse="rises",
            call_ms=found.call_ms,
            guess=1.0,  # of a text with nothing in it
            step=step,
            each=each,
        )
        for name, (value, drawn, step, each) in found.rates(seed).items()
    }
    return replace(made[names[0]], others={name: made[name] for name in names[1:]})
