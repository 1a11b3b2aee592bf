"""eval-coco's options: what is refused, and what reaches the backend."""

import dataclasses
import json
from typing import Any

import cv2
import numpy as np
import pytest

from trt_workbench.backends.images import ImageTransform
from trt_workbench.backends.ort import cpu as ort_cpu
from trt_workbench.backends.ort.cpu import OrtCpuSession
from trt_workbench.backends.registry import availabilities, availability
from trt_workbench.vision.letterbox import preprocess


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
def test_arguments_out_of_range(coco: Any, option: tuple[str, ...]) -> None:
    result = coco.invoke(*option)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert list((coco.root / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("absent", "text"),
    [("--data", "--annotations needs --data with the folder"), ("--annotations", "given by --annotations")],
)
def test_half_a_dataset(coco: Any, absent: str, text: str) -> None:
    arguments = coco.arguments()
    place = arguments.index(absent)
    result = coco.invoke_exactly(arguments[:place] + arguments[place + 2 :])
    coco.assert_refused(result, text)


def test_annotations_need_a_folder_and_the_old_word_for_it_is_told(coco: Any) -> None:
    arguments = coco.arguments()
    refused = coco.invoke_exactly([*arguments, "--images", "x"])
    assert (refused.exit_code, "of earlier releases; use --data here" in refused.stderr) == (2, True), refused.stderr
    arguments[arguments.index("--data") + 1] = str(coco.annotations)
    coco.assert_refused(coco.invoke_exactly(arguments), "--annotations needs --data with a folder")


def test_a_model_without_a_dataset(coco: Any) -> None:
    result = coco.invoke_exactly(["--model", str(coco.model), "--output", str(coco.output)])
    coco.assert_refused(result, "pass --data", str(coco.model))


def test_debug_shows_the_traceback(coco: Any) -> None:
    coco.annotations.unlink()
    result = coco.invoke("--debug")
    assert result.exit_code == 2
    assert "UsageProblem" in result.stderr
    assert "error: The annotation file cannot be read" in result.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--option", "allow_spining=true"], "did you mean allow_spinning"),
        (["--option", "allow_spinning=maybe"], "allow_spinning"),
        (["--option", "allow_spinning"], "KEY=VALUE"),
        (["--option", "=1"], "KEY=VALUE"),
        (["--option", "a=1", "--option", "a=2"], "twice"),
        (["--precision", "fp16"], "fp16"),
        (["--preprocess", "device"], "--preprocess host"),
        (["--postprocess", "device"], "--postprocess host"),
    ],
    ids=" ".join,
)
def test_what_the_backend_cannot_do_is_refused(coco: Any, options: list[str], text: str) -> None:
    coco.assert_refused(coco.invoke(*options), text)


def test_options_reach_the_backend_and_are_recorded(coco: Any) -> None:
    result = coco.invoke("--no-report", "--json", "--option", "allow_spinning=true", "--preprocess", "host")
    metrics = json.loads(result.stdout)
    assert metrics["provenance"]["allow_spinning"] is True
    assert metrics["settings"]["options"] == {"allow_spinning": True}
    assert metrics["settings"]["preprocess"] == "host"
    assert metrics["settings"]["precision"] == "fp32"


@pytest.mark.parametrize("name", [name for name, state in availabilities().items() if not state.ok])
def test_a_backend_that_cannot_serve_says_why(coco: Any, name: str) -> None:
    result = coco.invoke("--backend", name)
    coco.assert_refused(result, f"Backend {name} is not available", availability(name).reason, exit_code=3)


@pytest.mark.parametrize("backend", ["auto", "trt"])
def test_a_plan_is_for_tensorrt(coco: Any, backend: str) -> None:
    plan = coco.model.with_suffix(".plan")
    plan.write_bytes(b"ftrt")
    result = dataclasses.replace(coco, model=plan).invoke("--backend", backend)
    found = availability("trt")
    if found.ok:
        coco.assert_refused(result, str(plan))
    else:
        coco.assert_refused(result, found.reason, exit_code=3)


def test_a_plan_is_not_for_onnx_runtime(coco: Any) -> None:
    moved = dataclasses.replace(coco, model=coco.model.with_suffix(".plan"))
    coco.assert_refused(moved.invoke("--backend", "ort-cpu"), "loads .onnx files, not .plan; leave out --backend")


def test_images_are_letterboxed_on_the_device_where_the_session_offers_it(
    coco: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime's session with `run_images`, which stands for a device."""
    batches = []

    class ImageSession(OrtCpuSession):
        def run_images(self, images: list[np.ndarray], transform: ImageTransform) -> dict[str, np.ndarray]:
            batches.append([image.shape for image in images])
            return self.run({"images": np.stack([preprocess(image, transform)[0] for image in images])})

    cv2.imwrite(str(coco.images / "2.png"), np.full((60, 50, 3), 120, np.uint8))
    host = json.loads(coco.invoke("--no-report", "--json", "--batch", "3").stdout)
    rows = (coco.output / "predictions.json").read_text()
    monkeypatch.setattr(ort_cpu, "OrtCpuSession", ImageSession)
    result = coco.invoke("--no-report", "--json", "--batch", "3")
    device = json.loads(result.stdout)
    assert (host["settings"]["preprocess"], device["settings"]["preprocess"]) == ("host", "device")
    assert "letterboxed on the device" in result.stderr
    assert (coco.output / "predictions.json").read_text() == rows
    assert device["AP"] == host["AP"]
    # The run before the loop, then images as they were decoded.
    assert batches[0] == [(32, 32, 3)] * 3
    assert sorted(map(len, batches[1:])) == [1, 3]
    assert (60, 50, 3) in batches[1] + batches[2]
    assert device["latency_ms"]["inference"]["count"] == 4


@pytest.mark.usefixtures("doubled_core")
def test_boxes_are_found_on_the_device_where_the_session_offers_it(coco: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert coco.predictions("device") == coco.predictions("host")
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "boxes")
    words = ["--backend", "trt", "--allow-unverified", "--postprocess", "device"]
    coco.assert_refused(coco.invoke(*words), "differ from those that the CPU finds", exit_code=1, left=["one"])


def test_a_split_is_of_a_data_set_without_annotations(coco: Any) -> None:
    coco.assert_refused(coco.invoke("--split", "test"), "--split needs a data set given by --data")
