"""The whole module over a stub of TensorRT's libraries, as `tasks/sanitize-native` builds and runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

native: Any = pytest.importorskip("trt_workbench_native", reason="run by tasks/sanitize-native")
STUB = Path(native.__file__).parents[2] / "stub/lib"
if not STUB.is_dir() or not hasattr(native, "build_engine"):
    pytest.skip("this is not the module over the stub of TensorRT", allow_module_level=True)

PROFILES = [native.Profile(shapes={"x": ((1,), (4,), (8,))})]


@pytest.fixture(scope="module", autouse=True)
def status() -> Any:
    return native.load_tensorrt(str(STUB))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_text("twice -1")
    return path


def options(**wanted: Any) -> Any:
    made = native.BuildOptions()
    for name, value in {"profiles": PROFILES, **wanted}.items():
        setattr(made, name, value)
    return made


def run(engine: Any, *values: float, **how: Any) -> list[float]:
    with native.Runner(engine, native.RunnerOptions(**how)) as runner:
        return runner.run({"x": np.array(values, np.float32)})["y"].tolist()


def test_the_stub_is_of_the_version_of_the_headers(status: Any) -> None:
    assert status["available"]
    assert status["version"] == native.build_info()["tensorrt_headers"]
    assert status["parser"]


def test_a_plan_goes_from_a_model_to_outputs(model: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    built = native.build_engine(model, options(), lambda *phase: seen.append(phase))
    assert ("parse", 1, 1) in seen
    assert [tensor.name for tensor in built.inputs + built.outputs] == ["x", "y"]
    plan = tmp_path / "model.plan"
    plan.write_bytes(built.plan)
    engine = native.Engine.from_file(plan)
    assert engine.inputs[0].profiles == (((1,), (4,), (8,)),)
    assert run(engine, 1, 2) == [3, 5]
    assert run(engine, 1, 2, cuda_graph=False, state=None) == [3, 5]
    measured = native.bench(
        engine, {"x": np.ones(4, np.float32)}, native.BenchOptions(iterations=2, duration_s=0, warmup_ms=0)
    )
    assert len(measured) >= 2
    assert native.inspect_engine(engine)["layers_json"] == '{"Layers": ["of the stub"]}'
    (layer,) = native.profile_layers(engine, {"x": np.ones(4, np.float32)}, iterations=2)
    assert layer.milliseconds.tolist() == [0.5, 0.5]


def test_options_are_keyword_arguments_of_known_names_and_types() -> None:
    held = native.RunnerOptions(slots=3, outputs=["y"], state={"h_next": "h"})
    assert (held.slots, held.outputs, held.state, held.profile) == (3, ["y"], {"h_next": "h"}, None)
    for wrong in ({"slot": 1}, {"slots": "1"}, {"state": 3}):
        with pytest.raises(TypeError):
            native.RunnerOptions(**wrong)
    with pytest.raises(TypeError):
        native.RunnerOptions(3)


def test_an_engine_takes_options_by_name(model: Path, tmp_path: Path) -> None:
    plan = native.build_engine(model, options()).plan
    path = tmp_path / "model.plan"
    path.write_bytes(plan)
    for load, source in ((native.Engine, plan), (native.Engine.from_file, path)):
        assert load(source, device=-1, plugins=[], library_dir=STUB, weight_streaming_budget=None).device == 0
        assert load(source, allow_host_code=True, library_dir=None).num_profiles == 1
        for wrong in ({"device": "0"}, {"plugin": []}, {"plugins": None}):
            with pytest.raises(TypeError):
                load(source, **wrong)
        for budget, text in (("a", "is 'auto' or a number of bytes, not 'a'"), (-1, "is a number of bytes, not -1")):
            with pytest.raises(native.UsageProblem, match=f"weight_streaming_budget {text}"):
                load(source, weight_streaming_budget=budget)
    with pytest.raises(TypeError):
        native.Engine(plan, True)


def test_a_letterbox_is_made_of_words_and_numbers_and_stays_as_it_is() -> None:
    spec = native.LetterboxSpec(8, 6, mean=[1, 2, 3], dtype="float16")
    assert (spec.height, spec.width, spec.placement, spec.pad_value, spec.scale_up) == (8, 6, "centre", 114, True)
    assert (spec.rounding, spec.channels, spec.scale, spec.layout) == ("nearest", "rgb", 1 / 255, "nchw")
    assert (spec.mean, spec.std, spec.dtype) == ((1, 2, 3), (1, 1, 1), "float16")
    assert native.LetterboxSpec(8, 6, placement="top-left").placement == "top-left"
    with pytest.raises(AttributeError):
        spec.pad_value = 3
    with pytest.raises(TypeError):
        native.LetterboxSpec(8, 6, "centre")
    with pytest.raises(native.UsageProblem, match=r"There is no layout 'hw'; there are: nchw, nhwc, hwc8\."):
        native.LetterboxSpec(8, 6, layout="hw")


def test_a_build_ends_where_its_callback_says_so(model: Path) -> None:
    with pytest.raises(native.Cancelled):
        native.build_engine(model, options(), lambda *_: False)
    with pytest.raises(ZeroDivisionError):
        native.build_engine(model, options(), lambda *_: 1 // 0)


def test_what_is_no_model_and_what_is_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    path.write_text("something else")
    with pytest.raises(native.UsageProblem, match="model_deserialize_failed"):
        native.build_engine(path, options())
    with pytest.raises(native.UsageProblem, match="damaged"):
        native.Engine(b"neither this nor that")


def test_timing_caches_are_bytes_that_can_be_merged(model: Path) -> None:
    built = native.build_engine(model, options())
    again = native.build_engine(model, options(timing_cache=built.timing_cache))
    assert len(again.timing_cache) > len(built.timing_cache)
    assert again.merge_timing_caches([built.timing_cache] * 2) == again.timing_cache
    assert native.build_engine(model, options(disable_timing_cache=True)).timing_cache is None


@pytest.mark.skipif(int(native.build_info()["tensorrt_headers"].split(".")[0]) > 10, reason="needs calibrators")
def test_calibration_reads_batches_or_a_cache_and_ends_with_what_is_raised(model: Path) -> None:
    def cache_of(**given: Any) -> Any:
        return native.build_engine(model, options(int8=True, calibration=native.Calibration(**given))).calibration_cache

    def batch(*values: float) -> dict[str, Any]:
        return {"x": np.array(values, np.float32)}

    def broken() -> Any:
        yield batch(1, 2)
        raise ZeroDivisionError

    cache = cache_of(batches=lambda: [batch(1, 2), batch(7, 3)], algorithm="minmax")
    assert float(cache) == 7
    assert cache_of(cache=cache) == cache
    with pytest.raises(ZeroDivisionError):
        cache_of(batches=broken)
    for batches, text in (
        ([], "no batches"),
        ([{"y": np.ones(2)}], "is missing"),
        ([batch(1, 2), batch(3)], "all batches must have the same shape"),
        ([{"x": np.ones(2, ">f4")}], "byte order"),
    ):
        with pytest.raises(native.UsageProblem, match=text):
            cache_of(batches=lambda batches=batches: batches)


def test_a_refit_gives_runners_and_the_new_plan_other_weights(model: Path) -> None:
    engine = native.Engine(native.build_engine(model, options(refit="full")).plan)
    assert native.refittable_weights(engine) == ["scale", "scale_again"]
    with native.Runner(engine) as runner:
        x = {"x": np.ones(1, np.float32)}
        assert runner.run(x)["y"] == [3]
        ticket = runner.submit(x)
        weights = {name: np.array([10], np.float32) for name in ("scale", "scale_again")}
        with pytest.raises(native.UsageProblem, match="in flight"):
            native.refit(engine, weights=weights)
        ticket.result()
        plan = native.refit(engine, weights=weights)
        assert runner.run(x)["y"] == [12]
    assert run(native.Engine(plan), 1) == [12]
    with pytest.raises(native.UsageProblem, match="scale_again"):
        native.refit(engine, weights={"scale": weights["scale"]})
