"""What `eval-coco` prints: COCO scores, speed and a report of a detector, the embedded one unless another is named."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.console.common import interrupted, note, say
from trt_workbench.console.drawing import present
from trt_workbench.console.progress import at_stage, progress_bar
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.shard import exclude_each_other
from trt_workbench.report.tables import Table

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.core.shard import Shard
    from trt_workbench.core.spread import Spread
    from trt_workbench.vision.forms.found import DataPlace
    from trt_workbench.vision.run import CocoRequest
    from trt_workbench.vision.scoring import CocoOutcome
    from trt_workbench.vision.settings import CocoSettings, DataSettings


def evaluate_coco(
    model: Path | None,
    place: DataSettings,
    settings: CocoSettings,
    output: Path | None,
    *,
    shard: Shard | None = None,
    gpus: tuple[int, ...] | None = None,
    report: bool = True,
    as_json: bool = False,
    debug: bool = False,
) -> None:
    """Do what `eval-coco` does without `--score`: by the figures of the model's task, in whole or a shard."""
    from trt_workbench.vision.run import CocoRequest

    if shard:
        from trt_workbench.console.shards import required_folder, run_shard

        exclude_each_other(shard, gpus)
        required_folder(output)
    model, data = _inputs(model, place)
    request = CocoRequest(
        model=model,
        images=data.images,
        annotations=data.annotations,
        split=data.split,
        find_out=True,
        shard=shard,
        **vars(settings),
    )
    if shard:
        from trt_workbench.vision.sharding import COMMAND, what_decides

        run_shard(
            output,
            shard,
            COMMAND,
            partial(what_decides, request),
            lambda folder: _evaluate(request, folder)[1],
            as_json=as_json,
        )
        return
    spread = None if gpus is None else _spread(request, output, gpus)
    found, directory = spread or _evaluate(request, output)
    metrics = found.metrics
    for text in metrics["notes"]:
        note(text)
    drawing = present(directory, metrics, partial(show, metrics), as_json=as_json, debug=debug, report=report)
    if spread:
        from trt_workbench.console.shards import require_whole

        require_whole(spread[0], directory)
    if found.status == "partial":
        done, of = metrics["images"], metrics["images_requested"]
        raise interrupted(directory, f" after {done:,} of {counted(of, 'image')}; those are scored and kept")
    drawing.end()


def _inputs(model: Path | None, given: DataSettings) -> tuple[Path, DataPlace]:
    """Fill in the embedded model and dataset."""
    from trt_workbench.core.workspace import embedded_model
    from trt_workbench.vision.scenes.dataset import embedded_name

    data, model = _given(given), model or embedded_model()
    if data is not None:
        return model, data
    name = embedded_name(model)
    if name is None:
        problem = "The embedded datasets fit only the embedded models; pass --data for this one"
        raise UsageProblem(f"{problem if model.exists() else 'The model file does not exist'}: {model}")
    return model, _embedded(name)


def _given(given: DataSettings) -> DataPlace | None:
    """Return the data set that was named; None for the embedded one."""
    from trt_workbench.vision.forms.found import DataPlace, find_data
    from trt_workbench.vision.forms.yolo import SUFFIXES

    images = given.data
    if given.annotations is not None:
        if images is None or images.is_file():
            what = "the folder of its images" if images is None else f"a folder, as a file names its own: {images}"
            alone = images is None and given.annotations.suffix.lower() in SUFFIXES
            hint = f", or --data {given.annotations} alone" if alone else ""
            raise UsageProblem(f"--annotations needs --data with {what}{hint}")
        if given.split is not None:
            raise UsageProblem("--split needs a data set given by --data; omit --annotations.")
        return DataPlace(images, given.annotations)
    if images is None:
        if given.split is not None:
            raise UsageProblem("--split needs --data.")
        return None
    data = find_data(images, given.split)
    say(f"Data: {data.words}")
    return data


def _embedded(name: str) -> DataPlace:
    from trt_workbench.vision.forms.found import DataPlace
    from trt_workbench.vision.scenes.dataset import embedded_dataset, make_embedded_dataset

    place = embedded_dataset(name)
    if not place.exists:
        say(f"Generating the embedded dataset (only once): {place.root}")
    with at_stage(lambda: "Generating the embedded dataset"):
        place = make_embedded_dataset(name)
    return DataPlace(place.images, place.annotations)


def _evaluate(request: CocoRequest, output: Path | None) -> tuple[CocoOutcome, Path]:
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.shard_files import SHARD
    from trt_workbench.core.work import continued
    from trt_workbench.core.workspace import embedded_model
    from trt_workbench.vision.run import CocoEvaluation
    from trt_workbench.vision.sharding import PART, identified

    with at_stage(lambda: "Opening the model"):  # this first reports a GPU that `auto` leaves unused
        opened = CocoEvaluation(request, say)
    with opened as evaluation:
        if request.model == embedded_model():
            say(f"Model: the embedded detector {request.model}")
        chosen = " (chosen by auto)" if request.backend != evaluation.backend else ""
        detector = evaluation.detector
        where = "; images are letterboxed on the device" if detector.feed.place == "device" else ""
        where += ", which finds the boxes" if detector.feed.boxes_place == "device" else ""
        say(f"Backend: {evaluation.backend}{chosen}; family: {detector.family.name}{where}")
        with run_directory("eval-coco", output) as run:
            earlier = continued(run, identified(evaluation), say, SHARD if request.shard else PART)
            with progress_bar("images") as start:
                outcome = evaluation.run(run.path, start("Evaluating"), earlier=earlier)
            facts = {key: outcome.metrics[key] for key in ("images", "verification", "shard") if key in outcome.metrics}
            return outcome, run.commit(outcome.status, allow_unverified=request.allow_unverified, **facts)


def _spread(request: CocoRequest, output: Path | None, numbers: tuple[int, ...]) -> tuple[Spread, Path]:
    """Evaluate on several GPUs."""
    from trt_workbench.backends.on_gpus import gpus_for
    from trt_workbench.backends.registry import require_backend
    from trt_workbench.console.shards import spread_over
    from trt_workbench.vision.shard_worker import job_of

    backend = require_backend(request.backend, request.model.suffix, say)
    devices = gpus_for([backend], numbers, device="--option device" if "device" in request.options else "")
    return spread_over(
        devices,
        job_of(request),
        "eval-coco",
        output,
        "images",
        ("images", "verification"),
        request.allow_unverified,
    )


def show(metrics: dict[str, Any], _directory: Path) -> Parts:
    """Return the scores and times of a run."""
    from trt_workbench.core.statistics.summary import DRAWN, too_few
    from trt_workbench.model.precision import precision_label
    from trt_workbench.verify import let_through
    from trt_workbench.vision.document import TIMES, figures_of
    from trt_workbench.vision.operating import in_words
    from trt_workbench.vision.tasks.registry import task_of

    mark, latency, task = metrics["verification"], metrics["latency_ms"], task_of(metrics["model"]["task"])
    few = too_few(latency["total"], ("p50", "p90", "p99"), "images") if latency else ""
    ran = precision_label(metrics, "text")
    speed = "" if metrics["images_per_s"] is None else f" at {metrics['images_per_s']:.1f} images/s"
    found = "" if task.of_images else f", {counted(metrics['detections'], 'detection')}"
    return [
        *let_through([mark]),
        figures_of(metrics, task.figures, f"{task.rules} metrics"),
        f"95 % intervals: {DRAWN.format(unit='images')}.",
        in_words(metrics),
        Table(TIMES, latency.items(), "Latency per image, ms") if latency else None,
        f"note: {few}." if few else "",
        f"Precision: {ran} (requested: {metrics['settings']['precision']})" if ran else "",
        f"Engine: {mark['text']}" if mark else "",
        f"{counted(metrics['images'], 'image')}{speed}{found}",
    ]
