"""What runs in the process in which a precision is scored on a runtime.

A crash of a runtime ends this process and becomes a row with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trt_workbench.engine.profiles import Profile
from trt_workbench.engine.several_builds import KeepsBuilder
from trt_workbench.quantize.data import speech
from trt_workbench.quantize.figures import score_arrays
from trt_workbench.vision import CocoEvaluation, CocoRequest

TARGET = "trt_workbench.quantize.worker"
SHARED = f"{TARGET}:SharedScoring"
"""The same for several builds of an engine, which share TensorRT's builder."""
arrays = score_arrays


def words(request: Mapping[str, Any]) -> Any:
    """Write the words of a streaming encoder into a folder, as the plug-in for speech does. Raises WorkbenchError."""
    return speech().words(request)


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
