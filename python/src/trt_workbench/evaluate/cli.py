"""`eval-coco`, `eval-vision`: a model scored as COCO does, or by `--score`; the embedded detector by default."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    say,
    say_if_allowed,
    single_command_app,
)
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.settings import MORE, Report, Setting
from trt_workbench.core.shard import GpusOption, ShardOption
from trt_workbench.quantize import Better, Score
from trt_workbench.vision import CocoSettings, DataSettings

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.quantize import ScoreMetrics


@handled
def eval_coco(
    file: Annotated[
        Path | None, Setting("Model file; the embedded detector by default.", argument=True, metavar="MODEL")
    ] = None,
    *,
    model: Annotated[Path | None, Setting("MODEL as an option.", MORE)] = None,
    place: DataSettings,
    score: Score = None,
    better: Better = None,
    settings: CocoSettings,
    shard: ShardOption = None,
    gpus: GpusOption = None,
    report: Report = True,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Score a detector on images with COCO annotations or Ultralytics labels, or a classifier on folders of classes.

    Reports the twelve COCO metrics, of masks too where the model finds them, or top-1 and top-5, and the time per
    stage. Without MODEL, an embedded detector runs on an embedded dataset of generated scenes; with shapes-segmenter,
    an embedded model for masks on the same scenes, with shapes-classifier, an embedded classifier on their objects.
    With --score, a model of any kind is scored by a function of yours; exit code 1 if guessing is as good.
    """
    say_if_allowed(allow_unverified=settings.allow_unverified)
    if file is not None and model is not None:
        raise UsageProblem(f"The model was given twice; leave out --model: {model}")
    from trt_workbench.quantize import ANNOTATED, metric_of

    if metric_of(score, better) is ANNOTATED:
        from trt_workbench.vision import evaluate_coco

        return evaluate_coco(
            file or model,
            place,
            settings,
            output,
            shard=shard,
            gpus=gpus,
            report=report,
            as_json=as_json,
            debug=debug,
        )
    from trt_workbench.console.drawing import present
    from trt_workbench.console.progress import waiting
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.workspace import embedded_model
    from trt_workbench.evaluate.score import RUN, score_model, task_of

    path = file or model or embedded_model()
    task = task_of(path, place, settings, score, better, {"--shard": shard, "--gpus": gpus})
    with run_directory(RUN, output) as run, waiting("Scoring"):
        found = score_model(path, task, settings, run.path, say)
        directory = run.commit("complete", samples=found.samples, allow_unverified=settings.allow_unverified)
    drawing = present(directory, found, partial(_shown, found), as_json=as_json, debug=debug, report=report)
    if found.guessed:
        raise CheckFailed(found.guessed[0])
    return drawing.end()


def _shown(found: ScoreMetrics, _directory: Path) -> Parts:
    from trt_workbench.evaluate.score import answer

    return [found.table, *answer(found).said[len(found.guessed) :]]  # the error says these


def main() -> None:
    """Run `eval-coco`."""
    single_command_app(eval_coco)()
