"""A model scored by `--score`, as `decide` scores each of its rows: the check of what is asked, the run, its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from trt_workbench.backends.preparation import Preparation
from trt_workbench.backends.registry import require_backend
from trt_workbench.bench import BenchConfig, ModelEntry, RuntimeEntry, ScenarioEntry, expand, session_options
from trt_workbench.console.options import spelled
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import reader, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_there
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.settings import with_flags
from trt_workbench.model.opened import sha256_of
from trt_workbench.model.precision import precision_label
from trt_workbench.quantize import (
    PERPLEXITY,
    SCORED_SAMPLES,
    CalibrationSettings,
    Likeness,
    ScoreMetrics,
    calibration_data,
    metric_for,
    metric_of,
)
from trt_workbench.report.verdict import NOT_PROVEN, Headline
from trt_workbench.verify import let_through, own_model
from trt_workbench.vision import CocoSettings, DataSettings

RUN: Final = "eval-vision"
"""What such a run is called, apart from those of `eval-coco`."""
# What a score of samples has no use for: of boxes, of a pipeline that reads images, or of an annotation file.
_OF_COCO: Final = (
    "conf",
    "iou",
    "max_dets",
    "threads",
    "preprocess",
    "postprocess",
    "workers",
    "concurrency",
    "classes",
    "allow_missing",
    "threshold",
)


def task_of(
    model: Path,
    place: DataSettings,
    settings: CocoSettings,
    score: str | None,
    better: str | None,
    given: Mapping[str, Any],
) -> Likeness:
    """Return what is scored, and by what.

    Args:
        model: the ONNX file, or a plan beside the model of its manifest.
        place: where the samples and their targets are.
        settings: how they are read, and how many.
        score: as `--score` names it.
        better: as `--better` says it.
        given: further options by their names, which have no meaning here.

    Raises:
        UsageProblem: the score is of another command, an option would be ignored, or model, data and score do not fit
            each other.
    """
    if (metric := metric_of(score, better)).elsewhere:
        raise UsageProblem(f"--score {score} is not evaluated alone; that is for {metric.elsewhere}.")
    own = (
        (flag, getattr(settings, name), getattr(CocoSettings, name))
        for name, flag in spelled(CocoSettings).items()
        if name in _OF_COCO
    )
    others = ((flag, value, None) for flag, value in {"--split": place.split, **given}.items())
    if flags := [flag for flag, value, default in (*own, *others) if value != default]:
        raise UsageProblem(f"Remove {', '.join(flags)}: unused with --score {score}.")
    if place.data is None:
        raise UsageProblem(f"--score {score} needs --data: {metric.of}.")
    require_there("data", place.data)
    samples = CalibrationSettings(
        **vars(Preparation.of(settings)),
        calibration=str(place.data),
        samples=settings.limit or SCORED_SAMPLES,
        seed=settings.seed,
    )
    if (graph := own_model(model)) is None:
        raise UsageProblem(
            "--score reads samples by the inputs of the model that the plan was built from; keep it, and the plan's "
            f"manifest, beside the plan: {model}"
        )
    return Likeness.checked(graph, samples, metric_for(PERPLEXITY, score, better), place.annotations)


def score_model(
    path: Path, task: Likeness, settings: CocoSettings, folder: Path, note: Callable[[str], None]
) -> ScoreMetrics:
    """Score a model and write the files of the run into `folder`.

    Args:
        path: the model or plan.
        task: of `task_of`.
        settings: the runtime and how it is asked.
        folder: an existing one.
        note: called with what was chosen.

    Raises:
        UsageProblem: the samples do not fit the model, or the function fails on one, which is named.
        CheckFailed: an output is NaN or infinite, or an engine is wrong or not verified.
        ComponentMissing: the backend cannot serve here.
    """
    batch = settings.batch or 1
    backend = require_backend(settings.backend, path.suffix, note)
    options = with_flags(settings.options, backend.url_option(settings.url))
    config = BenchConfig(  # of one point, whose session is that of the row of `decide`
        models={"model": ModelEntry(path=path)},
        runtimes=(
            RuntimeEntry(
                backend=backend.name,
                precision=settings.precision,
                options={key: [value] for key, value in options.items()},
            ),
        ),
        scenarios={"score": ScenarioEntry(batch=batch, **task.sizes())},
    )
    asked = session_options(expand(config)[0], path, {})
    (files := folder / task.metric.files).mkdir()
    answer = task.run(
        task.request(path, files, None, backend.name, asked, batch, allow_unverified=settings.allow_unverified)
    )
    found = task.scores(files, settings.seed)
    metrics = ScoreMetrics(
        model=str(path.absolute()),
        model_sha256=sha256_of(path),
        backend=backend.name,
        settings={"precision": settings.precision, "options": options, "batch": batch, "seed": settings.seed},
        provenance=answer["provenance"],
        verification=answer["verification"],
        figure=task.figure,
        better="higher" if found.worse == "falls" else "lower",
        score=found.against(None).model_copy(update={"figures": {}}),  # these compare it with itself
        data=task.data,
        data_sha256=hash_document({"data": task.asks["sha256"], "samples": found.samples}),
        samples=found.count,
        available=calibration_data(task.model, task.samples).available,
    )
    write_json(folder / "metrics.json", metrics)
    return metrics


read = reader("metrics.json", ScoreMetrics)


def answer(found: ScoreMetrics) -> Headline:
    """Only what guessing reaches, and an engine that is not verified, has a verdict: no bound is asked for."""
    mark, asked, (name, value, ends) = found.verification, found.settings["precision"], found.rows[0]
    drawn = f" of {found.available:,} (drawn by seed; --limit takes more)" if found.samples < found.available else ""
    said = [
        f"{Path(found.model).name} on {found.backend}: {name} {value} (95 % interval {ends}) on "
        f"{counted(found.samples, 'sample')}{drawn}; {found.better} is better."
    ]
    if ran := precision_label(found.provenance, "text"):
        said.append(f"It computes in {ran}{'' if asked == CocoSettings.precision else f'; {asked} was requested'}.")
    allowed = mark["verdict"] if mark and mark["allowed"] else None
    return Headline([*found.guessed, *let_through([mark]), *said], NOT_PROVEN if found.guessed else allowed)
