import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.core.errors import CheckFailed, ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench.engine.builder import build, export, prepare_build
from trt_workbench.engine.manifest import manifest_path, read_manifest
from trt_workbench.engine.options import BuildSettings
from trt_workbench.model.opened import Model

MakeModel = Callable[..., Path]


def test_a_second_build_comes_from_the_cache(make_model: MakeModel, native_double: Any) -> None:
    model = make_model(external=True)
    first = build(prepare_build(Model.open(model), BuildSettings(precision="fp16")))
    assert first.built
    made = first.manifest
    assert made.model.external_files == ("model.onnx.data",)
    assert made.model.metadata["imgsz"] == "[4, 4]"
    assert made.tensorrt_version == "10.16.1"
    assert made.driver_version == "580.1"
    assert made.gpu.compute_capability == "9.0"
    assert made.warnings == ("slow",)
    plan = prepare_build(Model.open(model), BuildSettings(precision="fp16"))
    assert plan.cached == first.path
    second = build(plan)
    assert not second.built
    assert second.manifest == made
    assert build(plan, force=True).built
    assert len(native_double.builds) == 2


def test_a_tampered_cache_entry_is_built_again_and_said(make_model: MakeModel, native_double: Any) -> None:
    plan = prepare_build(Model.open(make_model()), BuildSettings())
    first = build(plan)
    first.path.write_bytes(b"tampered")
    notes: list[str] = []
    again = build(plan, note=notes.append)
    assert again.built
    assert "tampered with" in notes[0]
    assert len(native_double.builds) == 2


def test_settings_reach_the_native_core(make_model: MakeModel, native_double: Any) -> None:
    settings = BuildSettings(
        precision="fp16+tf32", workspace_mib=64, profiles=["x:1x4/2x4/8x4"], tactic_sources=["-CUDNN"]
    )
    build(prepare_build(Model.open(make_model(batch="N")), settings))
    options = native_double.builds[0][1]
    assert (options.fp16, options.tf32, options.int8) == (True, True, False)
    assert options.memory_pools == {"workspace": 64 << 20}
    assert options.tactic_sources == {"cudnn": False}
    assert options.profiles[0].shapes == {"x": ([1, 4], [2, 4], [8, 4])}


def test_contexts_share_a_profile_on_every_version(make_model: MakeModel, native_double: Any) -> None:
    model, profiles = make_model(batch="N"), ["x:1x4/2x4/8x4"]
    asked = (("10.16.1", {}, {}), ("8.6.0", {}, {"profile_sharing": True}))
    for version, given, expected in (*asked, ("8.6.0", {"profile_sharing": False}, {"profile_sharing": False})):
        native_double.version = version
        plan = prepare_build(Model.open(model), BuildSettings(profiles=profiles, preview_features=given))
        build(plan)
        assert native_double.builds[-1][1].preview_features == expected
    native_double.version = "8.6.0"
    build(prepare_build(Model.open(make_model()), BuildSettings()))
    assert native_double.builds[-1][1].preview_features == {}


def test_timings_are_shared_between_builds(make_model: MakeModel, native_double: Any) -> None:
    build(prepare_build(Model.open(make_model(scale=1.0)), BuildSettings()))
    build(prepare_build(Model.open(make_model(scale=2.0)), BuildSettings()))
    assert [options.timing_cache for _, options in native_double.builds] == [b"", b"t"]
    build(prepare_build(Model.open(make_model(scale=3.0)), BuildSettings(timing_cache="off")))
    assert native_double.builds[2][1].disable_timing_cache


def test_timings_of_a_concurrent_build_are_merged_by_the_build_itself(
    make_model: MakeModel, native_double: Any, tmp_path: Path
) -> None:
    path = tmp_path / "shared.timing"
    native_double.before_build = lambda: path.write_bytes(b"x")
    assert build(prepare_build(Model.open(make_model()), BuildSettings(timing_cache=path))).notes == ()
    assert path.read_bytes() == b"x+t"


def test_a_failed_build_leaves_nothing(make_model: MakeModel, native_double: Any, tmp_path: Path) -> None:
    def fail() -> None:
        raise DeviceFailure("out of memory")

    native_double.before_build = fail
    plan = prepare_build(Model.open(make_model()), BuildSettings())
    with pytest.raises(DeviceFailure):
        build(plan)
    assert [path.name for path in (tmp_path / "out" / "engines").iterdir() if not path.name.endswith(".lock")] == []
    native_double.before_build = lambda: None
    assert build(plan).built


def test_two_threads_give_one_build(make_model: MakeModel, native_double: Any) -> None:
    plan = prepare_build(Model.open(make_model()), BuildSettings())
    notes: list[str] = []
    entered, waited = threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        waited.wait(30)

    def note(text: str) -> None:
        notes.append(text)
        waited.set()

    native_double.before_build = slow
    first = threading.Thread(target=build, args=(plan,))
    first.start()
    assert entered.wait(10)
    second = build(plan, note=note)
    first.join(10)
    assert not second.built
    assert "Another process" in notes[0]


def test_a_model_that_changes_while_it_is_built_gives_no_engine(make_model: MakeModel, native_double: Any) -> None:
    model, other = make_model(), make_model("other.onnx", scale=2.0)
    native_double.before_build = lambda: model.write_bytes(other.read_bytes())
    with refused(UsageProblem):
        build(prepare_build(Model.open(model), BuildSettings()))
    native_double.before_build = lambda: None
    assert prepare_build(Model.open(model), BuildSettings()).cached is None


def test_export_copies_plan_and_manifest(make_model: MakeModel, native_double: Any, tmp_path: Path) -> None:
    engine = build(prepare_build(Model.open(make_model()), BuildSettings()))
    assert native_double.builds
    export(engine.plan, tmp_path / "deep" / "my.plan")
    assert (tmp_path / "deep" / "my.plan").read_bytes() == engine.path.read_bytes()
    assert read_manifest(tmp_path / "deep" / "my.plan") == engine.manifest
    assert manifest_path(tmp_path / "deep" / "my.plan").name == "my.plan.json"


def test_calibration_data_are_part_of_the_key(make_model: MakeModel, native_double: Any, tmp_path: Path) -> None:
    data = tmp_path / "calib.npy"
    np.save(data, np.zeros((16, 4), np.float32))
    settings = BuildSettings(precision="int8", calibration={"data": data}, profiles=["x:1x4/2x4/2x4"])
    model = make_model(batch="N")
    notes: list[str] = []
    build(prepare_build(Model.open(model), settings), note=notes.append)
    assert "only 16 samples" in notes[-1]
    batches = list(native_double.builds[0][1].calibration.batches())
    assert [batch["x"].shape for batch in batches] == [(8, 4), (8, 4)]
    assert not build(prepare_build(Model.open(model), settings)).built
    np.save(data, np.ones((16, 4), np.float32))
    assert build(prepare_build(Model.open(model), settings)).built


def test_the_calibration_batch_is_the_one_that_the_model_has(
    make_model: MakeModel, native_double: Any, tmp_path: Path
) -> None:
    data = tmp_path / "calib.npy"
    np.save(data, np.zeros((3, 4), np.float32))
    plan = prepare_build(Model.open(make_model(batch=1)), BuildSettings(precision="int8", calibration={"data": data}))
    assert plan.settings.calibration.batch == 1
    build(plan)
    assert [batch["x"].shape for batch in native_double.builds[0][1].calibration.batches()] == [(1, 4)] * 3
    asked = BuildSettings(precision="int8", calibration={"data": data, "batch": 1})
    assert prepare_build(Model.open(make_model(batch=1)), asked).cached  # one engine, however the batch was come by


def test_calibration_that_cannot_work_is_refused_before_the_build(make_model: MakeModel, tmp_path: Path) -> None:
    data = tmp_path / "calib.npy"
    settings = BuildSettings(precision="int8", calibration={"data": data, "batch": 8})
    np.save(data, np.zeros((16, 4), np.float32))
    with refused(UsageProblem):
        prepare_build(Model.open(make_model(batch=1)), settings)
    np.save(data, np.zeros((16, 5), np.float32))
    with refused(UsageProblem):
        prepare_build(Model.open(make_model(batch=8)), settings)
    np.save(data, np.zeros((16, 4)))
    with refused(UsageProblem):
        prepare_build(Model.open(make_model(batch=8)), settings)
    np.save(data, np.zeros((7, 4), np.float32))
    with refused(UsageProblem):
        prepare_build(Model.open(make_model(batch=8)), settings)


@pytest.mark.parametrize("version", ["8.6.0", "10.16.1"])
def test_a_build_ends_at_its_limit(
    make_model: MakeModel, native_double: Any, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    monkeypatch.setattr("atexit.register", lambda *call: kept.append(call))  # as this process goes on
    native_double.version = version

    begun, ended, result = threading.Event(), threading.Event(), Future.result

    def slow(_: str, __: Any, progress: Any) -> Any:
        """Build for ever; with version 8, where nothing can end it, until the test is over."""
        while True:
            goes_on = progress("tactics", 7, 1000)
            begun.set()
            if ended.wait(0.01) or not (goes_on or version == "8.6.0"):
                raise RuntimeError("the build was cancelled")

    def once_begun(future: Any, limit_s: float) -> Any:
        begun.wait()
        return result(future, limit_s)

    native_double.build_engine = slow
    monkeypatch.setattr(Future, "result", once_begun)
    with pytest.raises(CheckFailed, match=r"limit of 0\.2 s, in the phase tactics 7 of 1000\. .*--time-limit"):
        build(prepare_build(Model.open(make_model()), BuildSettings()), time_limit_s=0.2)
    ended.set()
    assert [call[1:] for call in kept] == ([(CheckFailed.exit_code,)] if version == "8.6.0" else [])


def test_a_fault_of_the_optimiser_says_what_to_use_instead(make_model: MakeModel, native_double: Any) -> None:
    def lost(path: str, *_: Any) -> Any:
        text = "TensorRT 8.6.0 could not build the engine: 1: Unexpected exception _Map_base::at"
        raise UsageProblem(f"{text}. Model: {path}")

    native_double.build_engine = lost
    with refused(UsageProblem):
        build(prepare_build(Model.open(make_model()), BuildSettings()))


def test_requests_that_cannot_work(make_model: MakeModel, tmp_path: Path) -> None:
    with refused(UsageProblem):
        prepare_build(Model.open(make_model(batch="N")), BuildSettings())
    with refused(UsageProblem):
        prepare_build(Model.open(make_model(batch="N")), BuildSettings(profiles=["z:1/2/4"]))
    for profile in (
        "x:1x4x1/2x4x1/4x4x1",
        "x:1x3/2x4/4x4",
        "x=1/2/4",
    ):
        with refused(UsageProblem):
            prepare_build(Model.open(make_model(batch="N")), BuildSettings(profiles=[profile]))
    with refused(UsageProblem):
        prepare_build(Model.open(make_model()), BuildSettings(precision="int8+fp16"))
    with refused(UsageProblem):
        prepare_build(Model.open(make_model()), BuildSettings(plugins=[tmp_path / "none.so"]))


@pytest.mark.parametrize("version", ["8.6.0", "10.16.1"])
def test_a_quantized_model_needs_its_type_where_flags_allow_types(
    quantized_model: Path, native_double: Any, version: str
) -> None:
    native_double.version = version
    for precision in ("fp32", "fp16"):
        with refused(UsageProblem):
            prepare_build(Model.open(quantized_model), BuildSettings(precision=precision))
    for precision in ("int8", "int8+fp16", "fp8+fp16"):
        build(prepare_build(Model.open(quantized_model), BuildSettings(precision=precision)))
    options = native_double.builds[1][1]
    assert (options.int8, options.fp16, options.fp8) == (True, True, False)
    assert not hasattr(options, "calibration")


def test_a_quantized_model_keeps_its_own_scales(quantized_model: Path, native_double: Any, tmp_path: Path) -> None:
    data = tmp_path / "calib.npy"
    np.save(data, np.zeros((8, 4), np.float32))
    notes: list[str] = []
    settings = BuildSettings(precision="int8", calibration={"data": data})
    build(prepare_build(Model.open(quantized_model), settings), note=notes.append)
    assert "has its own scales" in notes[-1]
    assert not hasattr(native_double.builds[0][1], "calibration")


def test_a_machine_without_parts_says_what_is_missing(make_model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise ComponentMissing("The native core is not installed.")

    monkeypatch.setattr("trt_workbench.engine.native.native", absent)
    plan = prepare_build(Model.open(make_model()), BuildSettings())
    assert not plan.key.is_complete
    assert plan.cached is None
    with pytest.raises(ComponentMissing, match="not installed"):
        build(plan)


def test_a_numbered_build_takes_no_timings_and_gives_none(make_model: MakeModel, native_double: Any) -> None:
    settings = BuildSettings()
    build(prepare_build(Model.open(make_model()), settings))
    numbered = BuildSettings(build_number=3)
    assert "build_number" not in settings.key_fields()  # keys of other builds are as they were
    assert numbered.key_fields() == {**settings.key_fields(), "build_number": 3}
    native_double.layers = [{"Name": "a", "TacticName": "k"}]
    build(prepare_build(Model.open(make_model()), numbered))
    build(prepare_build(Model.open(make_model(scale=2.0)), settings))
    assert [options.timing_cache for _, options in native_double.builds] == [b"", b"", b"t"]
