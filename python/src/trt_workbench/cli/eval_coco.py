"""`eval-coco`: COCO scores, speed and a report of a detector, the embedded one unless another is named."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trt_workbench.cli.common import (
    AllowUnverifiedOption,
    BackendExtraOption,
    BackendOption,
    DebugOption,
    JsonOption,
    OutputOption,
    SeedOption,
    handled,
    parse_options,
    print_json,
    print_line,
    say,
    say_if_allowed,
    single_command_app,
    stdout_console,
)
from trt_workbench.cli.drawing import Drawing, draw
from trt_workbench.errors import INTERRUPTED, UsageProblem, whole_number

if TYPE_CHECKING:
    from trt_workbench.evaluate.coco import CocoOutcome, CocoRequest


class PreprocessPlace(Enum):
    """Values of --preprocess."""

    DEVICE = "device"
    HOST = "host"


@handled
def eval_coco(
    *,
    model: Annotated[Path | None, typer.Option(help="Model file; the embedded detector by default.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the images; the embedded dataset by default.")] = None,
    annotations: Annotated[Path | None, typer.Option(help="COCO annotation file of the images.")] = None,
    family: Annotated[
        str | None, typer.Option(help="Detector family (yolov10, yolov8, yolox); recognised by default.")
    ] = None,
    backend: BackendOption = "auto",
    limit: Annotated[int | None, typer.Option(min=1, help="Evaluate only so many images, lowest ids first.")] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Images per inference; by default the model's own, or 1 on ort-cpu and 8 elsewhere."),
    ] = None,
    conf: Annotated[float, typer.Option(min=0.0, max=1.0, help="Lowest score that counts.")] = 0.001,
    iou: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="NMS threshold; the family's own by default.")
    ] = None,
    max_dets: Annotated[int, typer.Option(min=1, help="Most boxes per image.")] = 300,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Threads that read images; one per processor, at most 8, by default.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Processors that the runtime may use; all by default.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Inferences in flight; one per processor on ort-cpu, else 1, by default.")
    ] = None,
    imgsz: Annotated[
        str | None, typer.Option(help="Input size, 640 or 480x640 (height x width), of a model that takes any.")
    ] = None,
    precision: Annotated[str, typer.Option(help="Precision that the backend is asked for.")] = "fp32",
    preprocess: Annotated[
        PreprocessPlace | None,
        typer.Option(help="Where images are letterboxed; on the device by default where the backend offers it."),
    ] = None,
    option: BackendExtraOption = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Leave out images that are listed and absent.")
    ] = False,
    allow_unverified: AllowUnverifiedOption = False,
    report: Annotated[bool, typer.Option(help="Write report.html and plots/.")] = True,
    output: OutputOption = None,
    as_json: JsonOption = False,
    seed: SeedOption = 0,
    debug: DebugOption = False,
) -> None:
    """Evaluate a detector on a dataset in COCO's format: the twelve COCO figures, speed by stage, and a report.

    Without --model, an embedded detector runs on an embedded dataset of generated scenes.
    """
    say_if_allowed(allow_unverified=allow_unverified)
    from trt_workbench.evaluate.coco import CocoRequest

    model, images, annotations = _inputs(model, images, annotations)
    request = CocoRequest(
        model=model,
        images=images,
        annotations=annotations,
        family=family,
        backend=backend,
        limit=limit,
        batch=batch,
        conf=conf,
        iou=iou,
        max_dets=max_dets,
        workers=workers,
        threads=threads,
        concurrency=concurrency,
        imgsz=_parse_size(imgsz),
        precision=precision,
        options=parse_options(option),
        preprocess=preprocess.value if preprocess else None,
        allow_missing=allow_missing,
        allow_unverified=allow_unverified,
        seed=seed,
    )
    outcome, directory = _evaluate(request, output)
    from trt_workbench.report.coco import write_report

    drawing = draw(write_report, directory, debug=debug) if report else Drawing()
    for note in outcome.metrics["notes"]:
        say(f"note: {note}")
    if as_json:
        print_json({**outcome.metrics, "directory": str(directory)})
    else:
        _show(outcome.metrics, directory)
    if outcome.status == "partial":
        done, of = outcome.metrics["images"], outcome.metrics["images_requested"]
        say(f"Interrupted after {done} of {of} images; what was done is scored and kept, marked partial: {directory}")
        raise typer.Exit(INTERRUPTED)
    drawing.end()


def _inputs(model: Path | None, images: Path | None, annotations: Path | None) -> tuple[Path, Path, Path]:
    """Fill in the embedded model and dataset."""
    if (images is None) != (annotations is None):
        given, other = ("--images", "--annotations") if annotations is None else ("--annotations", "--images")
        raise UsageProblem(f"{given} was given without {other}; a dataset needs both.")
    from trt_workbench.evaluate.embedded import (
        embedded_dataset,
        embedded_model,
        fits_embedded_dataset,
        make_embedded_dataset,
    )

    if model is not None and images is None and not fits_embedded_dataset(model):
        problem = "The embedded dataset fits the embedded detector alone; pass --images and --annotations for"
        raise UsageProblem(f"{problem if model.exists() else 'The model file does not exist'}: {model}")
    if model is None:
        model = embedded_model()
    if images is None or annotations is None:
        place = embedded_dataset()
        if not place.exists:
            say(f"Making the embedded dataset, once: {place.root}")
        place = make_embedded_dataset()
        images, annotations = place.images, place.annotations
    return model, images, annotations


def _parse_size(text: str | None) -> tuple[int, int] | None:
    """(height, width) of "640" or "480x640"."""
    if text is None:
        return None
    sides = [whole_number(side) for side in text.lower().split("x")]
    if len(sides) > 2 or not all(sides):
        raise UsageProblem(f"--imgsz takes one number or height x width, such as 640 or 480x640, not {text!r}.")
    return sides[0] or 0, sides[-1] or 0


def _evaluate(request: CocoRequest, output: Path | None) -> tuple[CocoOutcome, Path]:
    from trt_workbench.cli.progress import progress_bar
    from trt_workbench.evaluate.coco import CocoEvaluation
    from trt_workbench.evaluate.embedded import embedded_model
    from trt_workbench.runs.directory import run_directory

    # first of all, this tells of a GPU that `auto` leaves unused
    with CocoEvaluation(request, say) as evaluation:
        if request.model == embedded_model():
            say(f"Model: the embedded detector {request.model}")
        chosen = " (chosen by auto)" if request.backend != evaluation.backend else ""
        where = "; images are letterboxed on the device" if evaluation.feed.place == "device" else ""
        say(f"Backend: {evaluation.backend}{chosen}; family: {evaluation.family.name}{where}")
        with run_directory("eval-coco", output) as run:
            with progress_bar("images") as start:
                outcome = evaluation.run(run.path, start("Evaluating"))
            return outcome, run.commit(
                outcome.status,
                images=outcome.metrics["images"],
                allow_unverified=request.allow_unverified,
                verification=outcome.metrics["verification"],
            )


def _show(metrics: dict[str, Any], directory: Path) -> None:
    from rich.table import Table

    from trt_workbench.onnxtools.precision import told
    from trt_workbench.runs.coco import FIGURES
    from trt_workbench.verify.unverified import let_through

    console = stdout_console(quiet=False)
    mark = metrics["verification"]
    for sentence in let_through([mark]):
        print_line(console, sentence)
    figures = Table("figure", "value", title="COCO figures")
    for name in FIGURES:
        figures.add_row(name, "-" if metrics[name] is None else f"{metrics[name]:.4f}")
    columns = ("mean", "p50", "p90", "p99", "max")
    latency = Table("stage", *columns, title="Latency per image, ms")
    for stage, summary in metrics["latency_ms"].items():
        latency.add_row(stage, *(f"{summary[column]:.2f}" for column in columns))
    console.print(figures, latency)
    if ran := told(metrics, "text"):
        print_line(console, f"Precision: {ran} (asked for: {metrics['settings']['precision']})")
    speed = f"{metrics['images']} images at {metrics['images_per_s']:.1f} images/s, {metrics['detections']} detections"
    if mark:
        print_line(console, f"Engine: {mark['text']}")
    print_line(console, speed)
    print_line(console, f"Run directory: {directory}")
    if (directory / "report.html").is_file():
        print_line(console, f"Report: {directory / 'report.html'}")


def main() -> None:
    """Run `eval-coco`."""
    single_command_app(eval_coco)()
