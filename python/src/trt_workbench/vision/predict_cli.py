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
    print_found,
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
    from trt_workbench.console.common import Parts
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
    found = {**document, "directory": str(directory)}
    print_found(found, lambda _: _shown(document, directory), as_json=as_json)
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


def _shown(document: Prediction, directory: Path) -> Parts:
    from trt_workbench.verify import let_through
    from trt_workbench.vision.tasks.registry import task_of

    of_images = task_of(document["model"]["task"]).of_images
    bare, least, latency = document["images_without"], document["settings"]["conf"], document["latency_ms"]
    without = f" ({bare} without objects at --conf {least})" if bare else ""
    objects = "" if of_images else f"Objects: {document['detections']}; "
    median = f"{latency['detect']['p50']:.2f} ms (median, from decoded image to result)" if latency else ""
    return [
        *let_through([document["verification"]]),
        _ranked(directory, document["images"]) if of_images else None,
        Table(("class", "images" if of_images else "found"), document["by_class"].items()),
        f"Precision: {precision_label(document, 'text') or 'unknown'}",
        f"{objects}images: {document['images']}{without}".capitalize(),
        f"Time per image: {median}" if latency else "",
        f"Detections: {directory / 'detections.jsonl'}",
        f"Pictures: {directory / PICTURES}" if (directory / PICTURES).is_dir() else "",
    ]


def _ranked(directory: Path, images: int) -> Table:
    """Return the classes of the first images, the best first."""
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
    return Table((Column("image", "0", long=True), "classes"), rows, f"Best classes{more}")
