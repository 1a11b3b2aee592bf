"""The gallery of an eval-coco report: predictions next to ground truth on the best, worst and some random images."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trt_workbench.core.directory import finished_run
from trt_workbench.core.errors import UsageProblem, printable
from trt_workbench.core.files import path_within, write_bytes
from trt_workbench.core.input_files import read_bytes
from trt_workbench.vision.artefacts import CocoArtefacts, predictions_of, read_ground_truth
from trt_workbench.vision.boxes import DrawnBox, bgr, draw_boxes, frame_box
from trt_workbench.vision.document import Box, Fault, ImageRecord, f1

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trt_workbench.backends.preparation import Exif
    from trt_workbench.vision.tasks.base import VisionTask

PER_GROUP = 4
PANEL_WIDTH = 520  # pixels, wide enough to read a label on
FOUND, MISSED, WRONG = 2, 0, 3
"""Places of their colours: green, blue and red that people who see no red and green distinguish, too."""
_GAP = 8
_MOST_KEPT = 2**24  # bytes of a picture


@dataclass(frozen=True)
class GalleryEntry:
    """One entry: the caption and the picture as a JPEG data URL."""

    caption: str
    data_url: str


def build_gallery(run: CocoArtefacts, folder: Path) -> dict[str, list[GalleryEntry]]:
    """Draw the gallery, write its pictures into `folder` and return them by group ("best", "worst", "random").

    Returns:
        An empty dictionary if the images or annotations are no longer where the run found them, or the pictures of an
        earlier command are not there.
    """
    dataset = run.metrics["dataset"]
    images, annotations = Path(dataset["images"]), Path(dataset["annotations"])
    made_here = is_made_here(run.directory)
    if made_here and not (images.is_dir() and annotations.exists()):
        return {}
    # a classifier's images are chosen by their scores, too
    every = {one["image_id"] for one in run.records} if run.task.of_images else set[int]()
    everything = predictions_of(run.directory, every) if every else {}
    sure = {image_id: boxes[0].get("score", 0.0) for image_id, boxes in everything.items() if boxes}
    groups = choose(run.records, run.metrics["settings"]["seed"], sure)
    draw = _drawn(run, groups, everything, images) if made_here else lambda _, path: kept_picture(path)
    found: dict[str, list[GalleryEntry]] = {group: [] for group in groups}
    for group, chosen in groups.items():
        for number, record in enumerate(chosen, 1):
            if url := draw(record, folder / f"{group}-{number}.jpg"):
                caption = f"{printable(record['file_name'])}: {run.task.verdict(record)}"
                found[group].append(GalleryEntry(caption, url))
    return found if made_here or any(found.values()) else {}


def _drawn(
    run: CocoArtefacts, groups: Mapping[str, list[ImageRecord]], everything: dict[int, list[Box]], images: Path
) -> Callable[[ImageRecord, Path], str | None]:
    """Return what draws an image of the gallery into a file, and returns its picture."""
    import numpy as np

    ids = {record["image_id"] for chosen in groups.values() for record in chosen}
    predictions, truths = everything or predictions_of(run.directory, ids), read_ground_truth(run, ids)
    exif = run.metrics["settings"].get("exif", "ignore")
    threshold = float(np.float32(run.confusion["score_threshold"]))  # as `at_least`

    def draw(record: ImageRecord, path: Path) -> str | None:
        image_id = record["image_id"]
        found = [item for item in predictions[image_id] if item.get("score", 0.0) >= threshold]
        apart = (record["missed"], record["wrong"]) if run.task.tells_apart(record) else None
        place = image_path(images, record)
        picture = side_by_side(place, truths[image_id], found, run.class_names, run.task, exif, apart)
        return None if picture is None else save_picture(picture, path)

    return draw


def build_faults(run: CocoArtefacts, folder: Path) -> list[tuple[Fault, GalleryEntry | None]]:
    """Draw an example of each fault of the annotations, in red, and write the pictures into `folder`.

    Returns:
        The faults, each with its picture; None where the images have moved, or the picture of an earlier command is
        not there.
    """
    records = {record["image_id"]: record for record in run.records}
    drawn: list[tuple[Fault, GalleryEntry | None]] = []
    for number, fault in enumerate(run.metrics.get("faults", ()), 1):
        record, path = records.get(fault["image_id"]), folder / f"fault-{number}.jpg"
        if record is None:
            raise UsageProblem(f"A fault is of an image that has no record; the run was changed: {run.directory}")
        url = _fault_picture(run, record, fault, path) if is_made_here(run.directory) else kept_picture(path)
        drawn.append((fault, GalleryEntry(printable(record["file_name"]), url) if url else None))
    return drawn


def _fault_picture(run: CocoArtefacts, record: ImageRecord, fault: Fault, path: Path) -> str | None:
    images = Path(run.metrics["dataset"]["images"])
    panel = _panel(image_path(images, record), run.metrics["settings"].get("exif", "ignore"))
    if panel is None:
        return None
    picture, scale = panel
    for box in fault["boxes"]:
        x, y, width, height = (value * scale for value in box)
        frame_box(picture, (x, y, x + width, y + height))
    return save_picture(picture, path)


def is_made_here(directory: Path) -> bool:
    """Whether this process made a run, and so may read the images that its record names.

    Somebody else's run may name any folder, whose pictures would end up in a page that is shared.
    """
    made = finished_run()
    return made is not None and directory.exists() and made.samefile(directory)


def kept_picture(path: Path) -> str | None:
    """Return a picture that an earlier command has drawn, as a data URL; None where there is none, or a link."""
    if path.is_symlink() or not path.is_file():
        return None
    data = read_bytes(path, _MOST_KEPT)
    return _data_url(data) if data.startswith(b"\xff\xd8\xff") else None


def image_path(folder: Path, record: ImageRecord) -> Path:
    """Return the file of a record's image. Raises UsageProblem if it is outside of the dataset's folder."""
    try:
        return path_within(folder, record["file_name"])
    except ValueError as error:
        raise UsageProblem(
            f"A record of the run names an image outside the dataset's folder ({error}); the run was modified: {folder}"
        ) from error


def choose(
    records: list[ImageRecord], seed: int, sure: Mapping[int, float] | None = None
) -> dict[str, list[ImageRecord]]:
    """Pick the records of the gallery: highest and lowest F1 among images with objects, and random ones.

    Args:
        records: of all images.
        seed: of the random ones.
        sure: score of the best class, by image: it makes a right image better and a wrong one worse.
    """
    scored = [record for record in records if record["ground_truths"]]

    def rank(record: ImageRecord) -> tuple[float, ...]:
        # Of two equally good images, the one with more objects says more.
        score, image_id = (sure or {}).get(record["image_id"], 0.0), record["image_id"]
        return f1(record), record["ground_truths"], score if record["true_positives"] else -score, image_id

    scored.sort(key=rank, reverse=True)
    best = scored[:PER_GROUP]
    worst = [record for record in reversed(scored) if record not in best][:PER_GROUP]
    rest = [record for record in records if record not in best and record not in worst]
    return {"best": best, "worst": worst, "random": random.Random(seed).sample(rest, min(PER_GROUP, len(rest)))}


def side_by_side(
    path: Path,
    truths: list[Box],
    found: list[Box],
    names: dict[int, str],
    task: VisionTask,
    exif: Exif = "ignore",
    apart: tuple[Sequence[int], Sequence[int]] | None = None,
) -> NDArray[np.uint8] | None:
    """Return the image twice, with the first objects on the left and the second on the right; None where it is gone.

    Args:
        path: of the image.
        truths: on the left.
        found: on the right.
        names: of the classes by category id.
        task: of the model.
        exif: what becomes of an EXIF orientation.
        apart: places of missed and of wrong objects, whose colours differ from what was found; None to colour classes.
    """
    import numpy as np

    if (found_panel := _panel(path, exif)) is None:
        return None
    panel, scale = found_panel
    left, right = panel.copy(), panel.copy()
    missed, wrong = apart or (None, None)
    _draw(left, truths, scale, names, task, missed, MISSED)
    _draw(right, found, scale, names, task, wrong, WRONG)
    return np.hstack([left, np.full((panel.shape[0], _GAP, 3), 255, np.uint8), right])


def _panel(path: Path, exif: Exif) -> tuple[NDArray[np.uint8], float] | None:
    """Return an image in the size of a panel, and its scale; None where it is gone or was changed since the run."""
    import cv2
    import numpy as np

    from trt_workbench.vision.decode import read_image

    try:
        image = read_image(path, exif)
    except UsageProblem:
        return None
    # the height counts too: an image one pixel wide would become millions of pixels high
    scale = min(PANEL_WIDTH / image.shape[1], 2 * PANEL_WIDTH / image.shape[0])
    size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8), scale


def _draw(
    image: NDArray[np.uint8],
    objects: list[Box],
    scale: float,
    names: dict[int, str],
    task: VisionTask,
    apart: Sequence[int] | None,
    other: int,
) -> None:
    order = {category: index for index, category in enumerate(names)}
    boxes = []
    for number, item in enumerate(objects):
        x, y, width, height = (value * scale for value in item["bbox"])
        label = names.get(item["category_id"], str(item["category_id"]))
        if "score" in item:
            label = f"{printable(label, 90)} {item['score']:.2f}"
        place, line = order.get(item["category_id"], 0), 1 if item.get("iscrowd") else 2
        if apart is not None:
            place = other if number in apart else FOUND
        task.paint(image, item, scale, bgr(place))
        line = line if task.framed else 0
        boxes.append(DrawnBox(task.label_place((x, y, x + width, y + height), number), label, place, line))
    draw_boxes(image, boxes)


def save_picture(picture: NDArray[np.uint8], path: Path) -> str:
    """Write a picture as a JPEG and return it as a data URL."""
    import cv2

    _, encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 85])
    write_bytes(path, encoded.tobytes())
    return _data_url(encoded.tobytes())


def _data_url(data: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(data).decode()
