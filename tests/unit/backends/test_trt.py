"""The backend trt on a double of the native core that runs the model."""

import dataclasses
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import held, refused

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.images import DetectingSession, Head, ImageSession, ImageTransform, Place
from trt_workbench.backends.measuring import MeasuringSession, SamplingLimits
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.state_session import StateSession
from trt_workbench.backends.trt.backend import TrtBackend
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.engine import native
from trt_workbench.engine.builder import build, export, prepare_build
from trt_workbench.engine.options import BuildSettings
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.opened import Model
from trt_workbench.vision.letterbox import preprocess

pytestmark = pytest.mark.usefixtures("doubled_core")


def write_model(path: Path, batch: int | str = "N") -> Path:
    """The mean of every channel of images [batch, 3, 8, 8]."""
    graph = f"""means (float[{batch},3,8,8] images) => (float[{batch},3] means) <int64[2] axes = {{2, 3}}> {{
      means = ReduceMean<keepdims = 0>(images, axes)
    }}"""
    model = parse_onnx(graph, opset=18)
    helper.set_model_props(model, {"names": "{0: 'cube'}"})
    onnx.save(model, path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "means.onnx")


@pytest.fixture
def images() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (height, 6, 3), np.uint8) for height in (4, 9)]


TRANSFORM = ImageTransform(8, 8)


@pytest.mark.parametrize(
    ("version", "extra", "converted"),
    [("10.16.0", {}, False), ("10.16.0", {"strongly_typed": True}, True), ("11.1.0", {}, True)],
)
def test_fp16_where_types_come_from_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, extra: dict[str, Any], converted: bool
) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_VERSION", version)
    path, notes = tmp_path / "linear.onnx", []
    weights = np.random.default_rng(0).standard_normal((16, 5), np.float32)
    write_onnx(path, "linear (float[4,16] x) => (float[4,5] y) { y = MatMul(x, w) }", {"w": weights})
    x = np.random.default_rng(1).standard_normal((4, 16), np.float32)
    options = SessionOptions(precision="fp16", extra=extra, note=notes.append)
    with TrtBackend().load(path, options) as session:
        assert {spec.dtype for spec in (*session.inputs, *session.outputs)} == {"float32"}
        difference = np.abs(session.run({"x": x})["y"] - x @ weights).max()
        provenance = session.provenance
    assert provenance["precision"] == "fp16"
    assert (1e-5 < difference < 1e-2) == converted  # the double has no fp16 of its own
    assert ("converted_by" in provenance) == converted
    assert any(f"TensorRT {version} takes types from the graph" in note for note in notes) == converted
    with TrtBackend().load(path, SessionOptions(extra=extra)) as session:
        assert np.abs(session.run({"x": x})["y"] - x @ weights).max() < 1e-5


def test_a_session_takes_the_state_of_another(tmp_path: Path) -> None:
    """One engine adds x to the sum, the other twice x."""
    paths = []
    for times in (1.0, 2.0):
        nodes = "part = Mul(x, times) next = Add(sum, part) told = Identity(next)"
        text = f"running (float[2] x, float[2] sum) => (float[2] next, float[2] told) {{ {nodes} }}"
        paths.append(write_onnx(tmp_path / f"{times}.onnx", text, {"times": np.array(times, np.float32)}))
    options, x = SessionOptions(extra={"state": {"next": "sum"}}), np.array([1.0, 10.0], np.float32)
    with TrtBackend().load(paths[0], options) as once, TrtBackend().load(paths[1], options) as twice:
        assert isinstance(once, StateSession)
        assert isinstance(twice, StateSession)
        once.run({"x": x})
        twice.run({"x": -x})
        twice.take_state(once)
        assert twice.run({"x": x})["told"].tolist() == [3.0, 30.0]
        assert once.run({"x": x})["told"].tolist() == [2.0, 20.0]


@pytest.mark.parametrize(
    ("extra", "config", "profile"),
    [
        ({}, "", "images:2x3x8x8"),
        ({}, "optimization_level: 1", "images:2x3x8x8"),
        ({"max_batch": 4}, "", "images:1x3x8x8/4x3x8x8/4x3x8x8"),
        ({"profiles": ["images:3x3x8x8"]}, "", "images:3x3x8x8"),
        ({}, "profiles: ['images:3x3x8x8']", "images:3x3x8x8"),
    ],
)
def test_an_engine_is_built_for_the_shapes_of_the_caller_unless_options_name_others(
    model: Path, tmp_path: Path, extra: dict[str, Any], config: str, profile: str
) -> None:
    (tmp_path / "build.yaml").write_text(config)
    options = {**extra, **({"config": tmp_path / "build.yaml"} if config else {})}
    shapes = Profile.model_validate("images:2x3x8x8")
    with TrtBackend().load(model, SessionOptions(extra=options, shapes=shapes)) as session:
        assert session.provenance["manifest"]["options"]["profiles"] == [profile]


def test_a_model_is_built_kept_and_run(model: Path) -> None:
    notes: list[str] = []
    options = SessionOptions(extra={"max_batch": 4}, note=notes.append)
    inputs = {"images": np.random.default_rng(1).random((3, 3, 8, 8), np.float32)}
    with TrtBackend().load(model, options) as session, OrtCpuBackend().load(model) as reference:
        np.testing.assert_array_equal(session.run(inputs)["means"], reference.run(inputs)["means"])
        assert session.inputs == reference.inputs
        assert session.metadata == {"names": "{0: 'cube'}"}
        assert json.loads(json.dumps(session.provenance)) == session.provenance
        assert session.provenance["manifest"]["profiles"] == ["images:1x3x8x8/4x3x8x8/4x3x8x8"]
        assert session.provenance["cuda_graph"] == "on: 1 graph captured"
    assert "Building a TensorRT engine (fp32)" in notes[0]
    assert session.provenance["cuda_graph"] == "on: 1 graph captured"
    notes.clear()
    TrtBackend().load(model, options).close()
    assert notes == []


def test_a_plan_refuses_what_only_a_build_could_honour(model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "means.plan"
    export(build(prepare_build(Model.open(model), BuildSettings(profiles=["images:1x3x8x8"]))).plan, plan)
    TrtBackend().load(plan, SessionOptions(extra={"device": 0, "max_batch": 4, "spin": False})).close()
    for name, value in (("optimization_level", 5), ("precision", "fp16"), ("force", True)):
        with refused(UsageProblem):
            TrtBackend().load(plan, SessionOptions(extra={name: value}))


def test_a_closed_session_says_so(model: Path, images: list[Any]) -> None:
    session = TrtBackend().load(model)
    assert isinstance(session, ImageSession)
    session.close()
    session.close()
    with refused(UsageProblem):
        session.run({"images": np.zeros((1, 3, 8, 8), np.float32)})
    with refused(UsageProblem):
        session.run_images(images[:1], TRANSFORM)


def test_one_index_of_an_output(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    asked: list[dict[str, Any]] = []
    with TrtBackend().load(model, SessionOptions(extra={"max_batch": 2})) as session:
        run = native.require("Runner").run
        monkeypatch.setattr(
            native.require("Runner"), "run", lambda self, inputs, **how: asked.append(how) or run(self, inputs, **how)
        )
        whole = session.run({"images": x})["means"]
        for index in (-1, 0, 2):
            np.testing.assert_array_equal(session.run_at({"images": x}, "means", index), whole[:, index])
        assert asked[-1] == {"outputs": [], "at": {"means": 2}}
        with refused(UsageProblem):
            session.run_at({"images": x}, "means", 3)
        with refused(UsageProblem):
            session.run_at({"images": x}, "mean", 0)


def test_images_are_letterboxed_by_the_session(model: Path, images: list[Any]) -> None:
    expected = np.stack([preprocess(image, TRANSFORM)[0] for image in images])
    with TrtBackend().load(model, SessionOptions(extra={"max_batch": 2})) as session:
        assert isinstance(session, ImageSession)
        found = session.run_images(images, TRANSFORM)
        np.testing.assert_array_equal(found["means"], session.run({"images": expected})["means"])
        with refused(UsageProblem):
            session.run_images(images, dataclasses.replace(TRANSFORM, antialias=True))


def test_every_call_has_its_own_transform(model: Path, images: list[Any]) -> None:
    other = dataclasses.replace(TRANSFORM, pad_value=TRANSFORM.pad_value + 1)
    with TrtBackend().load(model, SessionOptions(extra={"max_batch": 2})) as session:
        assert isinstance(session, ImageSession)
        for transform in (TRANSFORM, dataclasses.replace(TRANSFORM), other, TRANSFORM):
            expected = np.stack([preprocess(image, transform)[0] for image in images])
            found = session.run_images(images, transform)["means"]
            np.testing.assert_array_equal(found, session.run({"images": expected})["means"])


def test_a_fixed_batch_is_filled_up(tmp_path: Path, images: list[Any]) -> None:
    with TrtBackend().load(write_model(tmp_path / "fixed.onnx", 4)) as session:
        assert isinstance(session, ImageSession)
        found = session.run_images(images, TRANSFORM)
        assert found["means"].shape == (2, 3)
        with refused(UsageProblem):
            session.run_images(images * 3, TRANSFORM)


def test_many_threads_get_their_own_answers(model: Path) -> None:
    with TrtBackend().load(model, SessionOptions(concurrency=4)) as session:
        assert session.concurrency == 4

        def work(number: int) -> None:
            for _ in range(20):
                value = np.full((1, 3, 8, 8), number, np.float32)
                np.testing.assert_allclose(session.run({"images": value})["means"], number, rtol=1e-5, atol=1e-8)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))


def test_calls_are_measured_in_the_core(model: Path) -> None:
    with TrtBackend().load(model) as session:
        assert isinstance(session, MeasuringSession)
        plan = SamplingLimits(warmup_ms=0, duration_s=0, max_iterations=30)
        samples = session.measure({"images": np.zeros((1, 3, 8, 8), np.float32)}, plan)
    assert samples.latency_ms.shape == (30,)
    assert set(samples.split_ms) == {"enqueue", "host_to_device", "compute", "device_to_host"}
    assert samples.wall_s == pytest.approx(0.0302)


def test_a_plan_is_taken_with_its_own_precision_alone(model: Path, tmp_path: Path) -> None:
    engine = build(
        prepare_build(
            Model.open(model), BuildSettings.model_validate({"precision": "fp16", "profiles": ["images:1x3x8x8"]})
        )
    )
    plan = tmp_path / "means.plan"
    export(engine.plan, plan)
    TrtBackend().load(plan, SessionOptions(precision="fp16")).close()
    TrtBackend().load(plan).close()
    with refused(UsageProblem):
        TrtBackend().load(plan, SessionOptions(precision="bf16"))


def test_options_are_checked(model: Path, tmp_path: Path) -> None:
    with refused(UsageProblem):
        TrtBackend().load(model, SessionOptions(extra={"cuda_graf": False}))
    with refused(UsageProblem):
        TrtBackend().load(model, SessionOptions(extra={"max_batch": "many"}))
    with refused(UsageProblem):
        TrtBackend().load(model, SessionOptions(precision="fp17"))
    with refused(UsageProblem):
        TrtBackend().load(model, SessionOptions(concurrency=4, extra={"slots": 2}))
    with refused(UsageProblem):
        TrtBackend().load(tmp_path / "model.pt")


def test_the_core_errors_arrive_in_the_workbench_words(model: Path) -> None:
    with TrtBackend().load(model) as session, refused(UsageProblem):
        session.run({"images": np.zeros((9, 3, 8, 8), np.float32)})


def test_availability_names_the_first_missing_part(
    monkeypatch: pytest.MonkeyPatch, gpus: Callable[..., None], tmp_path: Path
) -> None:
    assert TrtBackend().availability().ok
    gpus("9.0")
    monkeypatch.setenv("TENSORRT_HOME", str(tmp_path))

    def absent() -> None:
        raise ComponentMissing("The native core is not installed.")

    with monkeypatch.context() as patch:
        patch.setattr("trt_workbench.engine.native.native", absent)
        found = TrtBackend().availability()
    assert not found.ok
    assert found.reason == "The native core is not installed."


def test_a_gpu_that_fails_is_one_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from trt_workbench.engine import native

    core = native.native()

    def fail(_: int) -> None:
        raise core.DeviceFailure("cudaErrorECCUncorrectable.")

    monkeypatch.setattr(core, "devices", fail)
    found = TrtBackend().availability()
    assert not found.ok
    held(found.reason)


def test_the_cores_errors_become_ours_of_the_same_name() -> None:
    from trt_workbench.core import errors
    from trt_workbench.engine import native

    core = native.native()
    for name in ("UsageProblem", "ComponentMissing", "DeviceFailure", "OutOfMemory", "DeviceLost", "CheckFailed"):
        assert type(native.translation(getattr(core, name)("said"))) is getattr(errors, name)
    assert native.translation(ValueError("said")) is None


@pytest.mark.parametrize("calibrated", [True, False])
def test_an_engine_of_a_model_with_ranges_from_noise_is_labelled(model: Path, *, calibrated: bool) -> None:
    marked = onnx.load(model)
    helper.set_model_props(marked, {"trtw.quantization": json.dumps({"calibrated": calibrated})})
    onnx.save(marked, model)
    with TrtBackend().load(model, SessionOptions(extra={"max_batch": 4})) as session:
        ran = session.record()["precision_ran"]
    assert ran["calibrated"] is calibrated
    assert ran["label"].endswith(" (not calibrated)") is not calibrated


def test_boxes_are_found_by_the_session(tmp_path: Path, images: list[Any]) -> None:
    text = """rows (float[N,3,8,8] images) => (float[N,1,6] rows)
    { means = ReduceMean<keepdims = 0, axes = [2, 3]> (images)
      row = Concat<axis = 1> (means, means)
      rows = Unsqueeze (row, one) }"""
    write_onnx(tmp_path / "rows.onnx", text, {"one": np.array([1])})
    transform, rows = dataclasses.replace(TRANSFORM, scale=0.0, mean=(0.0, -0.5, -0.0)), Place("rows", 0, 6)
    head = Head(8, 8, 1, 0, "rows", rows, dataclasses.replace(rows, first=4), 0.25, 5, labels=Place("rows", 5, 6))
    with TrtBackend().load(tmp_path / "rows.onnx", SessionOptions(extra={"max_batch": 4})) as session:
        assert isinstance(session, DetectingSession)
        for with_outputs in (False, True):
            found = session.find_boxes(images, transform, head, with_outputs=with_outputs)
            assert found.boxes is not None
            assert [one[1].tolist() for one in found.boxes] == [[0.5]] * len(images)
            assert [*found.outputs] == (["rows"] if with_outputs else [])
        odd = dataclasses.replace(transform, mean=(0.0, -5.0, 0.0))
        found = session.find_boxes(images, odd, head, with_outputs=False)
        assert found.boxes is None
        assert found.outputs["rows"].shape == (len(images), 1, 6)
        other = dataclasses.replace(head, conf=0.75)
        found = session.find_boxes(images, transform, other, with_outputs=False)
        assert found.boxes is not None
        assert [len(one[1]) for one in found.boxes] == [0] * len(images)


def test_images_next_to_another_input(tmp_path: Path, images: list[Any]) -> None:
    text = """sized (float[N,3,8,8] images, float[N,3] sizes) => (float[N,3] means)
    { mean = ReduceMean<keepdims = 0, axes = [2, 3]> (images)
      means = Add (mean, sizes) }"""
    write_onnx(tmp_path / "sized.onnx", text)
    ones = np.ones((len(images), 3), np.float32)
    with TrtBackend().load(tmp_path / "sized.onnx", SessionOptions(extra={"max_batch": 4})) as session:
        assert isinstance(session, ImageSession)
        found = [session.run_images(images, TRANSFORM, {"sizes": times * ones})["means"] for times in (0, 1)]
        np.testing.assert_allclose(found[1], found[0] + 1, rtol=1e-6)
        with refused(UsageProblem):
            session.run_images(images, TRANSFORM)
