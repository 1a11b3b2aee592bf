"""What runs in the process in which a precision is scored on a runtime.

A crash of a runtime ends this process and becomes a row with its reason.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from trt_workbench.engine.profiles import Profile
from trt_workbench.engine.several_builds import several_builds
from trt_workbench.quantize.figures import score_arrays
from trt_workbench.quantize.words import score_words
from trt_workbench.vision import CocoEvaluation, CocoRequest

TARGET = "trt_workbench.quantize.worker:ScoringWorker"


def _coco(request: dict[str, Any]) -> dict[str, Any]:
    """Score a detector and write the files of the score into a folder. Raises WorkbenchError."""
    asked: dict[str, Any] = {name: Path(request[name]) for name in ("model", "images", "annotations")}
    asked |= {name: tuple(one) if isinstance(one, list) else one for name, one in request["settings"].items()}
    asked["shapes"] = request["shapes"] and Profile.model_validate(request["shapes"])
    with CocoEvaluation(CocoRequest(**asked)) as evaluation:
        evaluation.run(Path(request["folder"]))
        return {"provenance": evaluation.detector.session.record(), "overflow": evaluation.overflow}


class ScoringWorker:
    """Answers with the score of arrays, a detector or transcripts, whose files it writes."""

    arrays, words, coco = map(staticmethod, (score_arrays, score_words, _coco))

    def __init__(self) -> None:
        """Keep TensorRT's builder between requests: making one takes longer than building a small engine."""
        self._builds = ExitStack()
        self._builds.enter_context(several_builds())

    def close(self) -> None:
        """Let go of the builder."""
        self._builds.close()
