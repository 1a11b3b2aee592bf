"""`trtw predict`: what a detector sees on images and videos; no annotations needed."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    note,
    print_json,
    print_line,
    print_table,
    say,
    say_if_allowed,
)
from trt_workbench.console.progress import at_stage, progress_bar
from trt_workbench.core.counts import counted, grouped
from trt_workbench.core.errors import INTERRUPTED
from trt_workbench.core.settings import Setting
from trt_workbench.model.precision import precision_label
from trt_workbench.report.tables import Column, Table
from trt_workbench.vision.settings import PredictSettings

if TYPE_CHECKING:
    from trt_workbench.vision.document import Prediction
    from trt_workbench.vision.predict import PredictRequest

PICTURES = "pictures"
_SHOWN = 10  # images whose classes are printed


@handled
def predict(
    model: Annotated[Path, typer.Argument(help="Model file or engine, or shapes-yolov10, the embedded detector.")],
    images: Annotated[list[Path], typer.Argument(help="Images, folders of images, videos.")],
    *,
    settings: PredictSettings,
    pictures: Annotated[bool, Setting("Write the pictures with their boxes drawn.")] = True,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Detect objects in images and videos.

    Writes the boxes as JSON Lines and draws them into the pictures. Preprocessing and decoding are the same as in
    eval-coco; no annotations are needed.
    """
    say_if_allowed(allow_unverified=settings.allow_unverified)
    from trt_workbench.vision.predict import PredictRequest

    document, directory = _run(PredictRequest(model=model, sources=tuple(images), **vars(settings)), output, pictures)
    for text in document["notes"]:
        note(text)
    if as_json:
        print_json({**document, "directory": str(directory)})
    else:
        _show(document, directory)
    if document["status"] == "partial":
        done, of = document["images"], document["images_requested"]
        say(
            f"Interrupted after {done:,} of {counted(of, 'image')}; the finished ones are kept, marked partial: "
            f"{directory}"
        )
        raise typer.Exit(INTERRUPTED)


def _run(request: PredictRequest, output: Path | None, pictures: bool) -> tuple[Prediction, Path]:
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.documents import write_json
    from trt_workbench.vision.predict import Predictor
    from trt_workbench.vision.predicted_pictures import PredictedPictures

    with at_stage(lambda: "Opening the model"):
        opened = Predictor(request, say)
    with opened as predictor:
        detector = predictor.detector
        chosen = " (chosen by auto)" if request.backend != detector.backend.name else ""
        say(f"Backend: {detector.backend.name}{chosen}; family: {detector.family.name}")
        with run_directory("predict", output) as run:
            with (
                progress_bar("images") as start,
                PredictedPictures(run.path / PICTURES, predictor.task) if pictures else nullcontext() as drawn,
            ):
                document = predictor.run(run.path, drawn.add if drawn else None, start("Looking"))
            write_json(run.path / "predict.json", document)
            facts = {"images": document["images"], "verification": document["verification"]}
            return document, run.commit(document["status"], **facts, allow_unverified=request.allow_unverified)


def _show(document: Prediction, directory: Path) -> None:
    from trt_workbench.verify import let_through
    from trt_workbench.vision.tasks.registry import task_of

    for sentence in let_through([document["verification"]]):
        print_line(sentence)
    of_images = task_of(document["model"]["task"]).of_images
    if of_images:
        _show_ranked(directory, document["images"])
    print_table(Table(("class", "images" if of_images else "found"), document["by_class"].items()))
    print_line(f"Precision: {precision_label(document, 'text') or 'unknown'}")
    bare, least = document["images_without"], document["settings"]["conf"]
    without = f" ({bare} without objects at --conf {least})" if bare else ""
    objects = "" if of_images else f"Objects: {document['detections']}; "
    print_line(f"{objects}images: {document['images']}{without}".capitalize())
    if document["latency_ms"]:
        median = document["latency_ms"]["detect"]["p50"]
        print_line(f"Time per image: {median:.2f} ms (median, from decoded image to result)")
    print_line(f"Detections: {directory / 'detections.jsonl'}")
    if (directory / PICTURES).is_dir():
        print_line(f"Pictures: {directory / PICTURES}")


def _show_ranked(directory: Path, images: int) -> None:
    """Print the classes of the first images, the best first."""
    from trt_workbench.core.documents import read_lines
    from trt_workbench.vision.document import DetectionRecord

    found = grouped(
        read_lines(directory / "detections.jsonl", DetectionRecord), lambda one: (one["image"], one["frame"])
    )
    more = f", first {_SHOWN} of {images}" if images > _SHOWN else ""
    rows = [
        (
            Path(image).name + ("" if frame is None else f" {frame}"),
            ", ".join(f"{one['class_name']} {one['score']:.3f}" for one in mine),
        )
        for (image, frame), mine in list(found.items())[:_SHOWN]
    ]
    print_table(Table((Column("image", "0", long=True), "classes"), rows, f"Best classes{more}"))
