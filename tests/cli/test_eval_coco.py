"""eval-coco through its command line, on a tiny detector whose score is the brightness of the image."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from trt_workbench.cli.common import single_command_app
from trt_workbench.cli.eval_coco import eval_coco
from trt_workbench.evaluate.coco_scores import FIGURES

SIDE = 32
GREY_LEVELS = (40, 120, 200, 80)
# x, y, width, height: the object of every image, and where the detector always sees it.
BOX = [4, 6, 16, 12]
CATEGORIES = [{"id": 3, "name": "square"}, {"id": 17, "name": "circle"}]
STAGES = ("load", "preprocess", "inference", "postprocess", "total")


def write_detector(
    path: Path,
    *,
    batch: int | str = "N",
    size: int | str = SIDE,
    classes: str = "['square', 'circle']",
    gain: float = 1,
    label: int = 0,
) -> Path:
    """A yolov10-like model: three boxes, the first one BOX with the image's mean value as its score."""
    x, y, width, height = BOX
    rows = [[x, y, x + width, y + height, 0, label], [0, 0, 9, 9, 0, 1], [1, 1, 8, 8, 0, 0]]
    constants = {
        "axes": np.array([1, 2, 3], np.int64),
        "shape": np.array([-1, 1, 1], np.int64),
        "rows": np.array([rows], np.float32),
        "gain": np.array([[[0, 0, 0, 0, gain, 0]], [[0] * 6], [[0] * 6]], np.float32).reshape(1, 3, 6),
    }
    nodes = [
        helper.make_node("ReduceMean", ["images", "axes"], ["mean"]),
        helper.make_node("Reshape", ["mean", "shape"], ["score"]),
        helper.make_node("Mul", ["score", "gain"], ["scores"]),
        helper.make_node("Add", ["rows", "scores"], ["output0"]),
    ]
    graph = helper.make_graph(
        nodes,
        "brightness",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, size, size])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [batch, 3, 6])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(model, {"names": classes, "family": "yolov10"} if classes else {"family": "yolov10"})
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


class Setup(NamedTuple):
    root: Path
    model: Path
    images: Path
    annotations: Path

    @property
    def output(self) -> Path:
        return self.root / "runs" / "one"

    def arguments(self, *more: str) -> list[str]:
        given = {"--model": self.model, "--images": self.images, "--annotations": self.annotations}
        fixed = [str(part) for pair in given.items() for part in pair]
        return [*fixed, "--output", str(self.output), *more]

    def rewrite(self, **parts: Any) -> None:
        document = json.loads(self.annotations.read_text())
        self.annotations.write_text(json.dumps({**document, **parts}))


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    images = tmp_path / "images"
    images.mkdir()
    (tmp_path / "runs").mkdir()
    document: dict[str, Any] = {"images": [], "annotations": [], "categories": CATEGORIES}
    for number, level in enumerate(GREY_LEVELS, start=1):
        name = f"{number}.png"
        cv2.imwrite(str(images / name), np.full((SIDE, SIDE, 3), level, np.uint8))
        document["images"].append({"id": number, "file_name": name, "width": SIDE, "height": SIDE})
        annotation = {"id": number, "image_id": number, "category_id": 3, "bbox": BOX, "area": 192, "iscrowd": 0}
        document["annotations"].append(annotation)
    (tmp_path / "annotations.json").write_text(json.dumps(document))
    return Setup(tmp_path, write_detector(tmp_path / "model.onnx"), images, tmp_path / "annotations.json")


def invoke(arguments: list[str]) -> Result:
    return CliRunner().invoke(single_command_app(eval_coco), arguments, catch_exceptions=False)


def assert_refused(setup: Setup, result: Result, *texts: str, exit_code: int = 2) -> None:
    """One clear paragraph on stderr, nothing on stdout, nothing left behind."""
    assert result.exit_code == exit_code, result.output
    for text in texts:
        assert text in result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert list((setup.root / "runs").iterdir()) == []


def test_a_whole_run(setup: Setup) -> None:
    result = invoke(setup.arguments())
    assert result.exit_code == 0, result.output
    metrics = json.loads((setup.output / "metrics.json").read_text())
    # Every object is found with the right box: AP 1 at every threshold.
    assert metrics["AP"] == pytest.approx(1.0)
    assert metrics["AP_large"] is None
    assert metrics["images"] == 4
    assert metrics["detections"] == 4
    assert metrics["status"] == "complete"
    assert metrics["backend"] == "ort-cpu"
    assert metrics["backend_requested"] == "auto"
    assert metrics["model"]["family"] == "yolov10"
    assert metrics["settings"]["imgsz"] == [SIDE, SIDE]
    for stage in STAGES:
        assert metrics["latency_ms"][stage]["count"] == 4
    made = {path.name for path in setup.output.iterdir()}
    assert made >= {"curves.json", "confusion.json", "records.jsonl", "predictions.json", "env.json", "run.json"}
    assert made >= {"report.html", "plots"}
    for text in (*FIGURES, *STAGES, "images/s", str(setup.output), "report.html"):
        assert text in result.stdout
    assert "ort-cpu (chosen by auto)" in result.stderr


def test_the_score_of_each_image_is_its_own(setup: Setup) -> None:
    assert invoke(setup.arguments("--no-report", "--batch", "3")).exit_code == 0
    rows = json.loads((setup.output / "predictions.json").read_text())
    assert [row["image_id"] for row in rows] == [1, 2, 3, 4]
    assert [row["category_id"] for row in rows] == [3] * 4
    assert [row["score"] for row in rows] == pytest.approx([level / 255 for level in GREY_LEVELS], abs=1e-5)
    assert rows[0]["bbox"] == pytest.approx(BOX)
    records = [json.loads(line) for line in (setup.output / "records.jsonl").read_text().splitlines()]
    # Image 1 is darker than the threshold at which detections are shown.
    assert [record["true_positives"] for record in records] == [0, 1, 1, 1]
    assert [record["false_negatives"] for record in records] == [1, 0, 0, 0]
    assert not (setup.output / "report.html").exists()


def test_json_is_one_document_and_nothing_else(setup: Setup) -> None:
    result = invoke(setup.arguments("--json", "--no-report", "--conf", "0.2"))
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document.pop("directory") == str(setup.output)
    assert document == json.loads((setup.output / "metrics.json").read_text())
    assert "not comparable" in result.stderr
    assert any("not comparable" in note for note in document["notes"])


def test_classes_are_mapped_by_name(setup: Setup) -> None:
    write_detector(setup.model, classes="{0: 'circle', 1: 'square'}")
    assert invoke(setup.arguments("--no-report")).exit_code == 0
    rows = json.loads((setup.output / "predictions.json").read_text())
    assert {row["category_id"] for row in rows} == {17}


@pytest.mark.parametrize(("batch", "options"), [(4, []), (3, []), (4, ["--batch", "2"]), (1, ["--concurrency", "2"])])
def test_fixed_batches_give_the_same_scores(setup: Setup, batch: int, options: list[str]) -> None:
    write_detector(setup.model, batch=batch)
    assert invoke(setup.arguments("--no-report", *options)).exit_code == 0
    rows = json.loads((setup.output / "predictions.json").read_text())
    assert [row["score"] for row in rows] == pytest.approx([level / 255 for level in GREY_LEVELS], abs=1e-5)


def test_nothing_detected_is_a_score_of_zero_and_a_note(setup: Setup) -> None:
    write_detector(setup.model, gain=0)
    result = invoke(setup.arguments())
    assert result.exit_code == 0, result.output
    metrics = json.loads((setup.output / "metrics.json").read_text())
    assert metrics["AP"] == 0.0
    assert metrics["detections"] == 0
    assert "detected nothing" in result.stderr
    assert json.loads((setup.output / "predictions.json").read_text()) == []


def test_limit_and_imgsz(setup: Setup) -> None:
    write_detector(setup.model, size="side")
    result = invoke(setup.arguments("--no-report", "--json", "--limit", "2", "--imgsz", f"{2 * SIDE}x{SIDE}"))
    metrics = json.loads(result.stdout)
    assert metrics["images"] == 2
    assert metrics["settings"]["limit"] == 2
    assert metrics["settings"]["imgsz"] == [2 * SIDE, SIDE]


def test_absent_images_can_be_left_out(setup: Setup) -> None:
    (setup.images / "2.png").unlink()
    result = invoke(setup.arguments("--no-report", "--json", "--allow-missing"))
    metrics = json.loads(result.stdout)
    assert metrics["images"] == 3
    assert metrics["dataset"]["missing"] == ["2.png"]
    assert "1 absent images" in result.stderr


def test_images_of_another_size_than_annotated_are_noted(setup: Setup) -> None:
    cv2.imwrite(str(setup.images / "3.png"), np.full((SIDE, SIDE // 2, 3), 90, np.uint8))
    result = invoke(setup.arguments("--no-report"))
    assert result.exit_code == 0
    assert "1 images are not of the size that the annotations give (3.png)" in result.stderr


def test_an_older_run_is_replaced_only_by_a_whole_one(setup: Setup) -> None:
    assert invoke(setup.arguments("--no-report")).exit_code == 0
    before = (setup.output / "metrics.json").read_bytes()
    (setup.images / "4.png").write_bytes(b"broken")
    assert invoke(setup.arguments("--no-report")).exit_code == 2
    assert (setup.output / "metrics.json").read_bytes() == before
    assert [path.name for path in (setup.root / "runs").iterdir()] == ["one"]


def test_corrupt_image(setup: Setup) -> None:
    path = setup.images / "3.png"
    path.write_bytes(path.read_bytes()[:40])
    assert_refused(setup, invoke(setup.arguments()), str(path))


def test_missing_images(setup: Setup) -> None:
    (setup.images / "2.png").unlink()
    (setup.images / "4.png").unlink()
    texts = ("2 of 4 images", "2.png, 4.png", "--allow-missing", str(setup.images))
    assert_refused(setup, invoke(setup.arguments()), *texts)


@pytest.mark.parametrize(
    ("content", "text"),
    [("{", "not JSON"), (b"\xff\xfe\x00", "not JSON"), ("[]", "not in COCO's"), ('{"images": []}', "no 'categories'")],
)
def test_annotation_file_that_cannot_be_used(setup: Setup, content: str | bytes, text: str) -> None:
    setup.annotations.write_bytes(content.encode() if isinstance(content, str) else content)
    assert_refused(setup, invoke(setup.arguments()), text, str(setup.annotations))


def test_absent_annotation_file(setup: Setup) -> None:
    setup.annotations.unlink()
    assert_refused(setup, invoke(setup.arguments()), "cannot be read (No such file or directory)")


def test_absent_images_folder(setup: Setup) -> None:
    moved = setup._replace(images=setup.root / "elsewhere")
    assert_refused(setup, invoke(moved.arguments()), "images folder does not exist", "elsewhere")


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.95])
def test_truncated_model(setup: Setup, keep: float) -> None:
    data = setup.model.read_bytes()
    setup.model.write_bytes(data[: int(len(data) * keep)])
    assert_refused(setup, invoke(setup.arguments()), str(setup.model))


def test_absent_model(setup: Setup) -> None:
    setup.model.unlink()
    assert_refused(setup, invoke(setup.arguments()), "does not exist", str(setup.model))


def test_model_with_other_outputs(setup: Setup) -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["images"], ["copy"])],
        "other",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("copy", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), setup.model)
    assert_refused(setup, invoke(setup.arguments()), "copy float32 [1, 3, 32, 32]", "--family")


def test_other_class_count(setup: Setup) -> None:
    write_detector(setup.model, classes="['square', 'circle', 'star']")
    assert_refused(setup, invoke(setup.arguments()), "3 classes", "2 categories", "only the model has star")


def test_a_class_beyond_the_annotations_of_a_model_that_does_not_tell_its_classes(setup: Setup) -> None:
    write_detector(setup.model, classes="", label=2)
    assert_refused(setup, invoke(setup.arguments()), "class 2", "2 categories")


def test_batch_beyond_a_fixed_one(setup: Setup) -> None:
    write_detector(setup.model, batch=2)
    assert_refused(setup, invoke(setup.arguments("--batch", "3")), "batches of exactly 2", "--batch 3")


def test_imgsz_that_disagrees_with_the_model(setup: Setup) -> None:
    assert_refused(setup, invoke(setup.arguments("--imgsz", "640")), "32x32", "640x640")


def test_imgsz_missing_for_a_model_of_any_size(setup: Setup) -> None:
    write_detector(setup.model, size="side")
    assert_refused(setup, invoke(setup.arguments()), "--imgsz")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_output_without_permission(setup: Setup) -> None:
    (setup.root / "runs").chmod(0o500)
    result = invoke(setup.arguments())
    (setup.root / "runs").chmod(0o700)
    assert_refused(setup, result, "cannot be written", str(setup.output))


@pytest.mark.parametrize("place", ["/proc/nowhere/run", "/dev/null/run", "/dev/null"])
def test_output_that_cannot_be_written(setup: Setup, place: str) -> None:
    result = invoke([*setup.arguments(), "--output", place])
    assert_refused(setup, result, place)


def test_disk_full(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = os.fsync, []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 2:  # env.json and the predictions still fit
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(handle)

    monkeypatch.setattr(os, "fsync", full)
    assert_refused(setup, invoke(setup.arguments()), "cannot be written (No space left on device)", "--output")


@pytest.mark.parametrize(
    "option",
    [
        ("--limit", "0"),
        ("--batch", "0"),
        ("--conf", "1.5"),
        ("--conf", "nan"),
        ("--conf", "1"),
        ("--iou", "-0.1"),
        ("--iou", "0"),
        ("--max-dets", "0"),
        ("--workers", "0"),
        ("--threads", "-1"),
        ("--concurrency", "0"),
        ("--imgsz", "0"),
        ("--imgsz", "6x4x4"),
        ("--imgsz", "big"),
        ("--backend", "ort-gpu"),
        ("--family", "yolo"),
        ("--precision", "fp13"),
        ("--seed", "x"),
        ("--nonsense",),
    ],
    ids=" ".join,
)
def test_arguments_out_of_range(setup: Setup, option: tuple[str, ...]) -> None:
    result = invoke(setup.arguments(*option))
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert list((setup.root / "runs").iterdir()) == []


@pytest.mark.parametrize("absent", ["--images", "--annotations"])
def test_half_a_dataset(setup: Setup, absent: str) -> None:
    arguments = setup.arguments()
    place = arguments.index(absent)
    result = invoke(arguments[:place] + arguments[place + 2 :])
    assert_refused(setup, result, f"without {absent}")


def test_a_model_without_a_dataset(setup: Setup) -> None:
    result = invoke(["--model", str(setup.model), "--output", str(setup.output)])
    assert_refused(setup, result, "--images and --annotations", str(setup.model))


def test_debug_shows_the_traceback(setup: Setup) -> None:
    setup.annotations.unlink()
    result = invoke(setup.arguments("--debug"))
    assert result.exit_code == 2
    assert "UsageProblem" in result.stderr
    assert "error: The annotation file cannot be read" in result.stderr


# Sends a real SIGINT when the fiftieth image is done. SIGINT is set up as in a terminal: shells have background jobs,
# such as a test run, ignore it.
INTERRUPTED_RUN = """
import os, signal
from trt_workbench.cli.eval_coco import main
from trt_workbench.evaluate.detections import DetectionStore

signal.signal(signal.SIGINT, signal.default_int_handler)
calls, original = [], DetectionStore.put

def put(*arguments):
    original(*arguments)
    calls.append(1)
    if len(calls) == 50:
        os.kill(os.getpid(), signal.SIGINT)

DetectionStore.put = put
main()
"""


def test_interrupt_keeps_a_partial_run(setup: Setup) -> None:
    count = 20_000
    setup.rewrite(images=[{"id": number, "file_name": "2.png"} for number in range(1, count + 1)])
    command = [sys.executable, "-c", INTERRUPTED_RUN, *setup.arguments("--no-report", "--json")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    stdout, stderr = process.stdout, process.stderr
    assert process.returncode == 130, stderr
    metrics = json.loads((setup.output / "metrics.json").read_text())
    assert metrics["status"] == "partial"
    assert 50 <= metrics["images"] < count
    assert metrics["images_requested"] == count
    assert json.loads((setup.output / "run.json").read_text())["status"] == "partial"
    assert json.loads(stdout)["status"] == "partial"
    assert f"Interrupted after {metrics['images']} of {count}" in stderr
    assert "Traceback" not in stderr
    lines = (setup.output / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["image_id"] for line in lines] == list(range(1, metrics["images"] + 1))


def test_help_names_every_option() -> None:
    result = CliRunner().invoke(single_command_app(eval_coco), ["--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for option in (
        "--model",
        "--images",
        "--annotations",
        "--family",
        "--backend",
        "--limit",
        "--batch",
        "--no-report",
    ):
        assert option in result.stdout
