"""Triton's own server runs what export-triton writes, and finds what the model's file finds; faults are refused."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.in_app import json_of, stdout_of
from tests.plugins.serving.plans import PROFILE, plan
from tests.tritonserver import Running, needs_tritonserver, tritonserver

from trt_workbench.backends.base import SessionOptions
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem, WorkbenchError
from trt_workbench.core.workspace import models_dir
from trt_workbench.vision.scenes import dataset as embedded
from trt_workbench_serving.backends.v2 import V2Backend

pytest.importorskip("tritonclient.http")
pytestmark = needs_tritonserver

DETECTOR = models_dir() / "shapes-yolov10" / "shapes-yolov10.onnx"
_IMAGES = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        made = tmp_path_factory.mktemp("triton")
        patch.setenv("TRTW_TMP", str(made / "out"))
        patch.setattr(embedded, "HELD_OUT_IMAGES", _IMAGES)
        yield made


@pytest.fixture(scope="module")
def repository(folder: Path) -> Path:
    words = ("--python", "--max-batch", 8, "--name", "shapes")
    stdout_of("export-triton", DETECTOR, "-o", folder / "repository", *words)
    _edited("max_queue_delay_microseconds: 100", "max_queue_delay_microseconds: 5000")(folder / "repository" / "shapes")
    return folder / "repository"


@pytest.fixture(scope="module")
def server(repository: Path, folder: Path) -> Iterator[Running]:
    with tritonserver(repository, folder) as running:
        yield running


@pytest.fixture(scope="module")
def expected(folder: Path) -> Path:
    stdout_of("eval-coco", "--backend", "ort-cpu", "--output", folder / "expected")
    return folder / "expected" / "predictions.json"


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_served_detector_has_the_boxes_of_its_file(
    server: Running, expected: Path, folder: Path, protocol: str
) -> None:
    run = folder / protocol
    words = ("--backend", "v2", "--url", getattr(server, protocol), "--option", "model=shapes", "--concurrency", 6)
    found = json_of("eval-coco", *words, "--output", run)
    assert (run / "predictions.json").read_bytes() == expected.read_bytes()
    record = found["provenance"]
    assert (record["server"], record["server_version"], record["model_version"]) == ("triton", "2.51.0", "1")
    assert record["max_batch_size"] == 8
    assert record["exported"]["trtw.model_sha256"] == found["model"]["sha256"]
    assert int(record["dynamic_batching"]["max_queue_delay_microseconds"]) == 5000
    assert record["platform"] == "" or "python" in record["platform"]


def test_it_is_verified_as_served(server: Running) -> None:
    words = ("--backend", "v2", "--url", server.http, "--option", "model=shapes", "--dim", "batch=1:2:3")
    found = json_of("verify", DETECTOR, *words)
    assert found["verdict"] == "right"
    assert next((way["way"], way["reason"]) for way in found["ways"]) == ("single rows at once", "")


def _edited(pattern: str, new: str) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        text = (model / "config.pbtxt").read_text()
        changed = re.sub(pattern, new, text, count=1)
        assert changed != text
        (model / "config.pbtxt").write_text(changed)

    return change


_Wrong = tuple[str, Callable[[Path], None], type[WorkbenchError], str]
# What is changed, in which model, and what refuses it: the server, whose reason is shown, or we, by its description.
WRONG: dict[str, _Wrong] = {
    "dims": ("shapes", _edited("dims: 320\n", "dims: 321\n"), UsageProblem, r"images float32 \[\?, 3, 321, 320\]"),
    "type": ("shapes", _edited("TYPE_FP32", "TYPE_FP16"), UsageProblem, "images float16"),
    "name": ("shapes", _edited('name: "output0"', 'name: "output"'), UsageProblem, "has outputs output, the file"),
    "no file": ("shapes", lambda model: (model / "1" / "model.onnx").unlink(), ComponentMissing, "does not exist"),
    "backend": ("shapes", _edited('backend: "python"', 'backend: "tensorrt"'), ComponentMissing, "tensorrt"),
    "version": ("shapes", _edited('string_value: "[0-9.]+"\n', 'string_value: "9.9"\n'), ComponentMissing, "9.9"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_configuration_is_refused_with_its_reason(wrong: str, tmp_path: Path) -> None:
    name, change, kind, says = WRONG[wrong]
    words = ("--python", "--max-batch", 8, "--name", "shapes", "--no-warmup")
    stdout_of("export-triton", DETECTOR, "-o", tmp_path / "repository", *words)
    change(tmp_path / "repository" / name)
    with tritonserver(tmp_path / "repository", tmp_path) as running, pytest.raises(kind, match=says):
        V2Backend().load(DETECTOR, SessionOptions(extra={"url": running.http, "model": name}))


def test_a_server_that_is_killed_during_a_run_is_named(repository: Path, tmp_path: Path) -> None:
    images = {"images": np.zeros((1, 3, 320, 320), np.float32)}
    with tritonserver(repository, tmp_path) as running:
        for url in (running.http, running.grpc):
            session = V2Backend().load(DETECTOR, SessionOptions(extra={"url": url, "model": "shapes"}))
            session.run(images)
            if url == running.grpc:
                running.end()
                with pytest.raises(DeviceFailure, match="does not answer"):
                    session.run(images)
            session.close()
        options = SessionOptions(extra={"url": running.http, "model": "shapes"})
        with pytest.raises(ComponentMissing, match="No server answers"):
            V2Backend().load(DETECTOR, options)


def test_the_server_takes_the_configuration_of_plans_up_to_its_missing_backend(folder: Path, tmp_path: Path) -> None:
    """This server has no backend for plans. It checks the configuration before it looks for one."""
    names, profiles = ("h", "b"), (PROFILE, "images:1x3x640x320/2x3x640x320/8x3x640x320")
    plans = [
        plan(folder / f"{name}.plan", cc, profiles=profiles) for name, cc in zip(names, ("9.0", "12.0"), strict=True)
    ]
    words = ("-o", folder / "plans")
    stdout_of("export-triton", *plans, *words, "--name", "right")
    stdout_of("export-triton", *plans, *words, "--name", "wrong")
    _edited("max_queue_delay_microseconds: 100", "preferred_batch_size: 99")(folder / "plans" / "wrong")
    with tritonserver(folder / "plans", tmp_path) as server:
        said = server.log.read_text()
    assert "failed to load 'right' version 1: Invalid argument: unable to find backend library for backend 't" in said
    assert "'wrong': dynamic batching preferred size must be <= max batch size" in said
