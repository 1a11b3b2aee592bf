"""`trtw predict` as a program: the same boxes as eval-coco, on images, folders and videos."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from tests.cli.conftest import CocoSetup
from tests.in_app import trtw
from typer.testing import Result

from trt_workbench.core.documents import read_document, read_lines
from trt_workbench.core.errors import INTERRUPTED
from trt_workbench.vision.document import DetectionRecord, Prediction

SHARED = Path(os.environ.get("TRTW_SHARED") or Path(__file__).parents[2].parent / "shared")
YOLOX, COCO_TINY = SHARED / "models" / "yolox_nano.onnx", SHARED / "data" / "coco-tiny"


def predict(*words: object) -> Result:
    call = ["predict", *map(str, words), "--backend", "ort-cpu"]
    return trtw(*call)


def lines(folder: Path) -> list[Any]:
    return read_lines(folder / "detections.jsonl", DetectionRecord)


def scored(folder: Path, file_names: dict[int, str]) -> list[tuple[Any, ...]]:
    """eval-coco's predictions: image, box as x, y, width, height, score."""
    entries = json.loads((folder / "predictions.json").read_text())
    return [(file_names[one["image_id"]], *one["bbox"], one["score"]) for one in entries]


def sized(found: list[Any]) -> list[tuple[Any, ...]]:
    """predict's lines in the same form, computed in float32 as eval-coco does."""
    rows = []
    for one in found:
        box = np.array(one["box"], np.float32)
        rows.append((Path(one["image"]).name, *box[:2].tolist(), *(box[2:] - box[:2]).tolist(), one["score"]))
    return rows


@pytest.mark.long
@pytest.mark.skipif(not (YOLOX.is_file() and COCO_TINY.is_dir()), reason=f"needs yolox_nano and coco-tiny in {SHARED}")
def test_the_boxes_are_those_that_eval_coco_scores(tmp_path: Path) -> None:
    annotations = COCO_TINY / "annotations" / "instances_val2017.json"
    names = {one["id"]: one["file_name"] for one in json.loads(annotations.read_text())["images"]}
    images = [COCO_TINY / "val2017" / names[key] for key in sorted(names)[:5]]
    words = ["eval-coco", YOLOX, "--data", COCO_TINY / "val2017", "--annotations", annotations, "--limit", 5]
    words += ["--backend", "ort-cpu", "--no-report", "--output", tmp_path / "scored", "--conf", 0.01]
    assert trtw(*words).exit_code == 0

    done = predict(YOLOX, *images, "--conf", 0.01, "--output", tmp_path / "seen")
    assert done.exit_code == 0, done.output
    found = lines(tmp_path / "seen")
    assert sized(found) == scored(tmp_path / "scored", names)
    assert len(found) > 50
    # class index to category id is COCO's, by the annotations' own names
    categories = {one["id"]: one["name"] for one in json.loads(annotations.read_text())["categories"]}
    entries = json.loads((tmp_path / "scored" / "predictions.json").read_text())
    assert [one["class_name"] for one in found] == [categories[one["category_id"]] for one in entries]
    assert "interpreted as COCO's" in done.stderr


def test_a_folder_gives_lines_pictures_and_a_document(coco: CocoSetup) -> None:
    (coco.images / "notes.txt").write_text("no image")
    done = predict(coco.model, coco.images, "--output", coco.output, "--json")
    assert done.exit_code == 0, done.output
    document = read_document(coco.output / "predict.json", Prediction)
    assert json.loads(done.stdout) == {**json.loads(json.dumps(document)), "directory": str(coco.output)}
    # the detector's score is the brightness: the image of 40 of 255 is below 0.25
    assert (document["images"], document["detections"], document["images_without"]) == (4, 3, 1)
    assert document["by_class"] == {"square": 3}
    assert document["model"]["family"] == "yolov10"
    found = lines(coco.output)
    assert [Path(one["image"]).name for one in found] == ["2.png", "3.png", "4.png"]
    assert [one["score"] for one in found] == pytest.approx([120 / 255, 200 / 255, 80 / 255], rel=1e-4)
    x, y, width, height = coco.box
    assert all(one["box"] == (x, y, x + width, y + height) for one in found)
    assert {(one["class_id"], one["class_name"], one["frame"]) for one in found} == {(0, "square", None)}
    pictures = sorted((coco.output / "pictures").iterdir())
    assert [path.name for path in pictures] == ["00001-1.jpg", "00002-2.jpg", "00003-3.jpg", "00004-4.jpg"]
    drawn = [cv2.imread(str(path)) for path in pictures]
    assert np.ptp(drawn[0]) < 10  # grey all over
    assert np.ptp(drawn[1][y : y + height, x]) > 50 or np.ptp(drawn[1][y, x : x + width]) > 20  # the box's line


def test_pictures_may_be_left_out_and_few_be_looked_at(coco: CocoSetup) -> None:
    done = predict(coco.model, coco.images, "--limit", 2, "--no-pictures", "--output", coco.output)
    assert done.exit_code == 0
    assert not (coco.output / "pictures").exists()
    assert [Path(one["image"]).name for one in lines(coco.output)] == ["2.png"]
    assert "Objects: 1; images: 2 (1 without objects at --conf 0.25)" in done.stdout


@pytest.mark.parametrize(("classes", "count"), [("square", 3), (" Square , circle", 3), ("0", 3), ("circle", 0)])
def test_classes_are_kept_by_name_or_index(coco: CocoSetup, classes: str, count: int) -> None:
    assert predict(coco.model, coco.images, "--classes", classes, "--output", coco.output).exit_code == 0
    assert len(lines(coco.output)) == count


@pytest.mark.parametrize(
    ("classes", "text"), [("sqare", "did you mean square?"), ("2", "no class '2'"), (",", "not ','")]
)
def test_unknown_classes_are_refused(coco: CocoSetup, classes: str, text: str) -> None:
    coco.assert_refused(predict(coco.model, coco.images, "--classes", classes, "--output", coco.output), text)


def test_a_class_without_a_name_is_its_index(coco: CocoSetup) -> None:
    coco.write_model(classes="")
    assert predict(coco.model, coco.images, "--output", coco.output).exit_code == 0
    assert {one["class_name"] for one in lines(coco.output)} == {"class 0"}
    coco.assert_refused(
        predict(coco.model, coco.images, "--classes", "square", "--output", coco.root / "runs" / "two"),
        "has no class names",
        left=["one"],
    )


def test_a_model_of_a_fixed_batch_sees_single_images(coco: CocoSetup) -> None:
    coco.write_model(batch=3)
    assert predict(coco.model, coco.images, "--output", coco.output).exit_code == 0
    assert len(lines(coco.output)) == 3


@pytest.fixture
def video(coco: CocoSetup) -> Path:
    """Six frames of growing brightness."""
    path = coco.root / "v.mp4"
    size = (coco.side, coco.side)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 5, size)  # type: ignore[attr-defined]
    for level in range(0, 240, 40):
        writer.write(np.full((*size, 3), level, np.uint8))
    writer.release()
    return path


def test_a_video_is_seen_frame_by_frame(coco: CocoSetup, video: Path) -> None:
    done = predict(coco.model, video, coco.images / "3.png", "--output", coco.output)
    assert done.exit_code == 0, done.output
    found = lines(coco.output)
    assert [one["frame"] for one in found] == [2, 3, 4, 5, None]
    assert [one["score"] for one in found[:4]] == pytest.approx([80 / 255, 120 / 255, 160 / 255, 200 / 255], abs=0.02)
    drawn = cv2.VideoCapture(str(coco.output / "pictures" / "00001-v.mp4"))
    assert (drawn.get(cv2.CAP_PROP_FRAME_COUNT), drawn.get(cv2.CAP_PROP_FPS)) == (6, 5)
    assert (coco.output / "pictures" / "00002-3.jpg").is_file()
    assert read_document(coco.output / "predict.json", Prediction)["images_requested"] == 7


def test_ctrl_c_keeps_what_was_seen(coco: CocoSetup, video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trt_workbench.vision.looking import Looker

    seen, look = [], Looker.look

    def interrupted(self: Looker, image: Any) -> Any:
        if len(seen) == 4:
            raise KeyboardInterrupt
        seen.append(image)
        return look(self, image)

    monkeypatch.setattr(Looker, "look", interrupted)
    done = predict(coco.model, video, "--output", coco.output)
    assert done.exit_code == INTERRUPTED
    assert "after 4 of 6 images" in done.stderr
    assert read_document(coco.output / "predict.json", Prediction)["status"] == "partial"
    assert [one["frame"] for one in lines(coco.output)] == [2, 3]
    assert cv2.VideoCapture(str(coco.output / "pictures" / "00001-v.mp4")).get(cv2.CAP_PROP_FRAME_COUNT) == 4


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _junk(path: Path) -> None:
    path.with_suffix(".mp4").write_bytes(b"junk" * 100)


def _playlist(path: Path) -> None:
    """Names another file, which must not be read in its place."""
    text = f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{path}\n#EXT-X-ENDLIST\n"
    path.with_suffix(".mp4").write_text(text)


@pytest.mark.parametrize(("damage", "text"), [(_cut, "truncated"), (_junk, "the video"), (_playlist, "the video")])
def test_a_damaged_file_is_named(coco: CocoSetup, damage: Callable[[Path], None], text: str) -> None:
    damage(coco.images / "2.png")
    refused = predict(coco.model, coco.images, "--output", coco.output)
    coco.assert_refused(refused, text, "2.png" if damage is _cut else "2.mp4")


def test_what_is_no_picture_is_refused(coco: CocoSetup) -> None:
    empty = coco.root / "empty"
    empty.mkdir()
    (coco.root / "a.txt").write_text("text")
    for source, text in (
        (empty, "contains no images"),
        (coco.root / "a.txt", "no extension of an image or video"),
        (coco.root / "gone.png", "does not exist"),
    ):
        coco.assert_refused(predict(coco.model, source, "--output", coco.output), text)
    address = predict(coco.model, "http://127.0.0.1:9/v.mp4", "--output", coco.output)
    assert (address.exit_code, address.stdout) == (2, "")
    assert "http://127.0.0.1:9/v.mp4 is an address; only local files are read." in address.stderr
