"""The package as a library: each function does what its command does, and returns what that writes.

    import trt_workbench.api as tw

    with tw.load("detector.onnx", backend="trt", precision="fp16") as model:
        found = model("street.jpg")  # boxes, scores, names, masks, keypoints
        found.save("picture.png")  # a notebook shows it
        outputs = model.run({"images": batch})  # arrays or tensors of PyTorch, in and out

    tw.evaluate("detector.onnx", data="coco/").document["AP"]
    tw.verify("detector.onnx", precision="fp16").require()
    tw.decide("detector.onnx", data="coco/", max_loss=0.01).document.recommendation.sentence
    tw.bench("smoke").document.records

A setting has the name of the command's option with underscores. It takes Python's value, or the text that the option
takes. The import itself loads no runtime. As the commands do, functions say on stderr what they choose, and show their
progress in a terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from trt_workbench.bench import cli as _bench
from trt_workbench.console.called import Finished, call_command, checked, described, keywords, settings
from trt_workbench.console.common import say, with_embedded
from trt_workbench.core.artefacts import BenchArtefacts, read_bench_run
from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import CheckFailed, ComponentMissing, DeviceFailure, UsageProblem, WorkbenchError
from trt_workbench.decide import cli as _decide
from trt_workbench.decide.document import Decision
from trt_workbench.verify import VerifyFindings
from trt_workbench.verify import cli as _verify
from trt_workbench.vision import CocoMetrics, FoundObjects, LoadedModel
from trt_workbench.vision import cli as _vision
from trt_workbench.vision.settings import PredictSettings

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
T = TypeVar("T")
Takes = tuple[Callable[..., Any], tuple[str, ...]]
TAKES: Final[dict[str, Takes]] = {
    "load": (PredictSettings, ("limit",)),
    "evaluate": (_vision.eval_coco, ("model", "images")),
    "verify": (_verify.verify, ()),
    "decide": (_decide.decide, ()),
    "bench": (_bench.bench, ()),
}
"""By function: what has its settings, and those without a meaning here."""


def load(model: str | Path, **given: Any) -> LoadedModel:
    """Load a model on a backend: `model.run({...})` for arrays or tensors, `model(images)` for a vision model.

    Raises:
        UsageProblem: the file or a setting cannot be used.
        ComponentMissing: the backend cannot serve here; the message names the command that fixes it.
        DeviceFailure: the device failed while loading the model.
    """
    file = with_embedded({"model": checked(Path, model, "model")})["model"]
    return LoadedModel(file, settings(PredictSettings, given, TAKES["load"][1]), say)


def evaluate(model: str | Path | None = None, **given: Any) -> Finished[CocoMetrics]:
    """Score a vision model on annotated images, as `trtw eval-coco` does; the document is `metrics.json`.

    Without a model, an embedded detector runs on an embedded dataset.

    Raises:
        WorkbenchError: of the kind that the exit code names, where the command writes nothing.
    """
    places = () if model is None else (model,)
    return _call("evaluate", _reads("metrics.json", CocoMetrics), *places, **given)


def verify(target: str | Path, **given: Any) -> Finished[VerifyFindings]:
    """Check that an engine computes what its model says, as `trtw verify` does; the document is `verify.json`.

    A wrong engine is no exception: it is the result's `failure`.

    Raises:
        WorkbenchError: of the kind that the exit code names, where the command writes nothing.
    """
    return _call("verify", _reads("verify.json", VerifyFindings), target, **given)


def decide(model: str | Path | None = None, **given: Any) -> Finished[Decision]:
    """Score and time every precision of a model, and recommend one, as `trtw decide` does; it is `decision.json`.

    That no lower precision keeps the score is the result's `failure`.

    Raises:
        WorkbenchError: of the kind that the exit code names, where the command writes nothing.
    """
    places = () if model is None else (model,)
    return _call("decide", _reads("decision.json", Decision), *places, **given)


def bench(config: str | Path = "smoke", **given: Any) -> Finished[BenchArtefacts]:
    """Measure models on runtimes, as `trtw bench` does; the document is the configuration with every record.

    Wrong outputs are the result's `failure`.

    Raises:
        WorkbenchError: of the kind that the exit code names, where the command writes nothing.
    """
    return _call("bench", read_bench_run, str(config), **given)


for _name, (_takes, _without) in TAKES.items():
    described(globals()[_name], keywords(_takes, _without))


def _reads(name: str, kind: type[T]) -> Callable[[Path], T]:
    return lambda directory: read_document(directory / name, kind)


def _call(name: str, read: Callable[[Path], T], *places: Any, **given: Any) -> Finished[T]:
    command, without = TAKES[name]
    return call_command(command, read, *places, without=without, **given)
