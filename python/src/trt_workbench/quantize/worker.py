"""What runs in the process in which a precision is scored on a runtime.

A crash of a runtime ends this process and becomes a row with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.engine.profiles import Profile
from trt_workbench.engine.several_builds import KeepsBuilder
from trt_workbench.quantize.figures import score_arrays
from trt_workbench.stream import Spoken, write_words
from trt_workbench.verify import refuse_wrong
from trt_workbench.vision import CocoEvaluation, CocoRequest

TARGET = "trt_workbench.quantize.worker"
SHARED = f"{TARGET}:SharedScoring"
"""The same for several builds of an engine, which share TensorRT's builder."""
arrays = score_arrays


def words(request: Mapping[str, Any]) -> dict[str, Any]:
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


def coco(request: dict[str, Any]) -> dict[str, Any]:
    """Score a detector and write the files of the score into a folder. Raises WorkbenchError."""
    asked: dict[str, Any] = {name: Path(request[name]) for name in ("model", "images", "annotations")}
    asked |= {name: tuple(one) if isinstance(one, list) else one for name, one in request["settings"].items()}
    asked |= {name: request[name] for name in ("backend", "precision", "options", "allow_unverified")}
    asked["shapes"] = request["shapes"] and Profile.model_validate(request["shapes"])
    with CocoEvaluation(CocoRequest(**asked)) as evaluation:
        evaluation.run(Path(request["folder"]))
        return {"provenance": evaluation.detector.session.record(), "overflow": evaluation.overflow}


class SharedScoring(KeepsBuilder):
    """Answers as the module does; making a builder takes longer than building a small engine.

    It takes memory of the GPU while the engine is scored, too, so that it is for several builds alone.
    """

    arrays, words, coco = map(staticmethod, (arrays, words, coco))
