"""The package as a library: each function does what its command does, and returns what that writes.

    import trt_workbench.api as tw

    with tw.load("detector.onnx", backend="trt", precision="fp16") as model:
        found = model("street.jpg")  # boxes, scores, names, masks, keypoints
        found.save("picture.png")  # a notebook shows it
        outputs = model.run({"images": batch})  # arrays or tensors of PyTorch, in and out

    tw.evaluate("detector.onnx", data="coco/").document["AP"]
    tw.verify("detector.onnx", precision="fp16").require()
    found = tw.decide("detector.onnx", data="coco/", max_loss=0.01, max_latency_ms=2.0).document
    found.accuracy[0].keeps, found.speed.measured, found.recommendation.sentence
    tw.bench("smoke").document.records

A setting has the name of the command's option with underscores. It takes Python's value, or the text that the option
takes. The import itself loads no runtime. As the commands do, functions say on stderr what they choose, and show their
progress in a terminal; elsewhere `tw.decide(…, progress=print)` is called with a line every few seconds.

Messages name settings as keywords, such as `backend="ort-cpu"`; a command in backquotes is for a shell.

`score` takes a function, too. Another process imports it again: it has to be in a file, not in a cell of a notebook or
a lambda, and a script that defines it and calls `tw.decide` needs `if __name__ == "__main__":`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.console.keywords import as_keywords, checked, described, settings
from trt_workbench.core.errors import CheckFailed, ComponentMissing, DeviceFailure, UsageProblem, WorkbenchError
from trt_workbench.core.workspace import with_embedded
from trt_workbench.vision.settings import PredictSettings

if TYPE_CHECKING:
    from trt_workbench.api_commands import Finished, FoundObjects, LoadedModel, bench, decide, evaluate, verify

__all__ = [
    "CheckFailed",
    "ComponentMissing",
    "DeviceFailure",
    "Finished",
    "FoundObjects",
    "LoadedModel",
    "UsageProblem",
    "WorkbenchError",
    "bench",
    "decide",
    "evaluate",
    "load",
    "verify",
]
WITHOUT = ("limit",)
"""Settings of `predict` without a meaning for `load`."""


def load(model: str | Path, **given: Any) -> LoadedModel:
    """Load a model on a backend: `model.run({...})` for arrays or tensors, `model(images)` for a vision model.

    Raises:
        UsageProblem: the file or a setting cannot be used.
        ComponentMissing: the backend cannot serve here; the message names the command that fixes it.
        DeviceFailure: the device failed while loading the model.
    """
    from trt_workbench.vision.loaded import LoadedModel

    with as_keywords(PredictSettings):
        file = with_embedded({"model": checked(Path, model, "model")})["model"]
        # what prints imports the command line, and few models have something to say
        return LoadedModel(
            file,
            settings(PredictSettings, given, WITHOUT),
            lambda text: import_module("trt_workbench.console.common").say(text),
        )


described(load, PredictSettings, WITHOUT)


def __getattr__(name: str) -> Any:
    """Import what runs commands when it is first asked for: it takes three times as long as to load a model."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("trt_workbench.api_commands"), name)


def __dir__() -> list[str]:
    """Return the names of all functions and types."""
    return __all__
