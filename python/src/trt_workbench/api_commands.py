"""The functions of the Python API that do what a command does; `api` imports them when they are first asked for.

`progress` is called with a line every few seconds, from another thread; by default progress is shown in a terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar, overload

from trt_workbench.bench import cli as _bench
from trt_workbench.console.called import Finished, call_command
from trt_workbench.console.keywords import described
from trt_workbench.console.progress import Listener, pulse
from trt_workbench.core.artefacts import BenchArtefacts, read_bench_run
from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.decide import cli as _decide
from trt_workbench.decide.document import Decision
from trt_workbench.evaluate import cli as _evaluate
from trt_workbench.quantize import ScoreMetrics
from trt_workbench.verify import VerifyFindings
from trt_workbench.verify import cli as _verify
from trt_workbench.vision import CocoMetrics, FoundObjects, LoadedModel

__all__ = ["Finished", "FoundObjects", "LoadedModel", "bench", "decide", "evaluate", "verify"]
T = TypeVar("T")
Takes = tuple[Callable[..., Any], tuple[str, ...]]
TAKES: Final[dict[str, Takes]] = {
    "evaluate": (_evaluate.eval_coco, ("model", "images")),
    "verify": (_verify.verify, ()),
    "decide": (_decide.decide, ()),
    "bench": (_bench.bench, ()),
}
"""By function: the command that has its settings, and those without a meaning here."""


@overload
def evaluate(
    model: str | Path | None = None, *, score: str | Callable[..., Any], progress: Listener | None = None, **given: Any
) -> Finished[ScoreMetrics]: ...


@overload
def evaluate(
    model: str | Path | None = None, *, score: None = None, progress: Listener | None = None, **given: Any
) -> Finished[CocoMetrics]: ...


def evaluate(model: str | Path | None = None, *, progress: Listener | None = None, **given: Any) -> Finished[Any]:
    """Score a vision model on annotated images, as `trtw eval-coco` does; the document is `metrics.json`.

    Without a model, an embedded detector runs on an embedded dataset. With `score`, a function of yours, the model may
    be any, and the document is a `ScoreMetrics`: `document.score.value`, `.ci95`, `.others`. That guessing reaches its
    score is the result's `failure`.

    Raises:
        WorkbenchError: of the kind that the exit code names, where the command writes nothing.
    """
    kind = CocoMetrics if given.get("score") in (None, "ap") else ScoreMetrics
    return _call("evaluate", progress, _reads("metrics.json", kind), model, **given)


def verify(target: str | Path, *, progress: Listener | None = None, **given: Any) -> Finished[VerifyFindings]:
    """Check that an engine computes what its model says, as `trtw verify` does; the document is `verify.json`.

    A wrong engine is no exception: it is the result's `failure`.

    Raises:
        WorkbenchError: of the kind that the exit code names, where the command writes nothing.
    """
    return _call("verify", progress, _reads("verify.json", VerifyFindings), target, **given)


def decide(model: str | Path | None = None, *, progress: Listener | None = None, **given: Any) -> Finished[Decision]:
    """Score and time every precision of a model, and recommend one, as `trtw decide` does; it is `decision.json`.

    Its halves are `accuracy` (of each precision), `speed` and `recommendation`. That no lower precision may be shipped
    is the result's `failure`.

    Raises:
        WorkbenchError: of the kind that the exit code names, where the command writes nothing.
    """
    return _call("decide", progress, _reads("decision.json", Decision), model, **given)


def bench(config: str | Path = "smoke", *, progress: Listener | None = None, **given: Any) -> Finished[BenchArtefacts]:
    """Measure models on runtimes, as `trtw bench` does; the document is the configuration with every record.

    Wrong outputs are the result's `failure`.

    Raises:
        WorkbenchError: of the kind that the exit code names, where the command writes nothing.
    """
    return _call("bench", progress, read_bench_run, str(config), **given)


for _name, (_takes, _without) in TAKES.items():
    described(globals()[_name], _takes, _without)


def _reads(name: str, kind: type[T]) -> Callable[[Path], T]:
    return lambda directory: read_document(directory / name, kind)


def _call(name: str, progress: Listener | None, read: Callable[[Path], T], place: Any, **given: Any) -> Finished[T]:
    command, without = TAKES[name]
    if progress is not None and not callable(progress):
        raise UsageProblem(f"progress is a function that is called with a line, such as print, not {progress!r:.80}.")
    with pulse(progress) if progress else nullcontext():
        return call_command(command, read, *(() if place is None else (place,)), without=without, **given)
