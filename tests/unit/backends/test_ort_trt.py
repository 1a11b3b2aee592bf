import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime as ort
import pytest
from tests.texts import refused
from tests.unit.backends.small_models import linear

from trt_workbench.backends import tf32
from trt_workbench.backends.base import Availability, SessionOptions
from trt_workbench.backends.ort import plugin
from trt_workbench.backends.ort.backend import LoadRequest
from trt_workbench.backends.ort.plugin import TENSORRT_PLUGIN, plugin_file
from trt_workbench.backends.ort.trt import OrtTrtBackend
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.engine.profiles import Profile

TRT, CUDA, CPU = "TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"
V10 = {"tensorrt": "101601", "onnxruntime": "1.31.1"}
V11 = {"tensorrt": "110100", "onnxruntime": "1.31.1"}
BY_PLUGIN = {**V11, "ort_trt_plugin": "ep-tensorrt-1.31.1-11.so"}
SHAPES = {
    "trt_profile_min_shapes": "x:1x4",
    "trt_profile_opt_shapes": "x:4x4",
    "trt_profile_max_shapes": "x:8x4",
}


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.setenv("TRTW_ROOT", str(tmp_path))  # no plug-in that somebody built
    return tmp_path / "out"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return linear(tmp_path / "m.onnx")


def plan(model: Path, precision: str = "fp32", versions: dict[str, str] = V10, **extra: Any) -> LoadRequest:
    return OrtTrtBackend().request(model, SessionOptions(precision=precision, extra=extra), versions)


@pytest.mark.skipif(TRT in ort.get_available_providers(), reason="this ONNX Runtime has the TensorRT provider")
def test_without_the_provider_loading_is_an_error(model: Path, gpus: Callable[..., None]) -> None:
    gpus("9.0")
    with refused(ComponentMissing):
        OrtTrtBackend().load(model)


@pytest.fixture
def built(gpus: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Path]:
    """Put a file where the plug-in for one ONNX Runtime and one TensorRT belongs; TensorRT 11.1 is set up."""
    gpus("12.0")
    monkeypatch.setenv("TENSORRT_HOME", str(tmp_path / "trt"))
    (tmp_path / "trt" / "include").mkdir(parents=True)
    parts = enumerate(("MAJOR", "MINOR", "PATCH"), start=11)
    text = "".join(f"#define NV_TENSORRT_{name} {number}\n" for number, name in parts)
    (tmp_path / "trt" / "include" / "NvInferVersion.h").write_text(text)

    def build(onnxruntime: str, tensorrt: int) -> Path:
        file = plugin_file(onnxruntime, tensorrt)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("no library")
        return file

    return build


needs_plain_wheel = pytest.mark.skipif(
    TRT in ort.get_available_providers(), reason="the wheel's own provider may serve"
)


@needs_plain_wheel
def test_the_plug_in_serves_where_the_wheels_own_provider_does_not(
    built: Callable[[str, int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    found = {"devices": 1, "tensorrt": 110100}
    monkeypatch.setattr(plugin, "probe_plugin", lambda *words: asked.append(words) or found)
    assert "has no TensorrtExecutionProvider" in OrtTrtBackend().availability().reason
    file = built(ort.__version__, 11)
    served = OrtTrtBackend().availability()
    assert served.ok
    assert served.versions == {
        "onnxruntime": ort.__version__,
        "tensorrt": "110100",
        "ort_trt_plugin": f"ep-tensorrt-{ort.__version__}-11.so",
    }
    assert asked == [(TENSORRT_PLUGIN, str(file))]


@needs_plain_wheel
@pytest.mark.parametrize("built_for", [("1.30.0", 11), ("", 10)])
def test_a_plug_in_for_another_tensorrt_or_onnx_runtime_is_a_sentence(
    built: Callable[[str, int], Path], model: Path, built_for: tuple[str, int]
) -> None:
    built(built_for[0] or ort.__version__, built_for[1])
    with refused(ComponentMissing):
        OrtTrtBackend().load(model)


@needs_plain_wheel
def test_a_plug_in_that_is_no_library_is_what_onnx_runtime_says(built: Callable[[str, int], Path]) -> None:
    built(ort.__version__, 11)
    found = OrtTrtBackend().availability()
    assert f"ONNX Runtime {ort.__version__} cannot open the provider" in found.reason
    assert "file too short" in found.reason


@pytest.mark.parametrize(("versions", "whose"), [(V10, "ONNX Runtime's own"), (BY_PLUGIN, "plug-in")])
def test_a_run_records_whose_provider_serves(
    model: Path, versions: dict[str, str], whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(tf32.VARIABLE, raising=False)
    monkeypatch.setattr(OrtTrtBackend, "availability", lambda _: Availability(ok=True, versions=versions))
    assert OrtTrtBackend().prepare(model, SessionOptions(tf32=True)).provenance["provider_is"] == whose


@pytest.mark.parametrize(
    ("versions", "extra"),
    [
        (BY_PLUGIN, {"trt_preview_features": "ALIASED_PLUGIN_IO_10_03"}),
        (BY_PLUGIN, {"cuda_graph": True}),
        (BY_PLUGIN, {"trt_cuda_graph_enable": True}),
        (V11, {"trt_dla_adjust_for_dla": True}),
    ],
)
def test_an_option_that_the_serving_provider_lacks_is_a_sentence(
    model: Path, versions: dict[str, str], extra: dict[str, Any]
) -> None:
    with refused(UsageProblem):
        plan(model, versions=versions, **extra)


def test_providers_in_order_and_only_tensorrt_accepted(model: Path) -> None:
    made = plan(model, **SHAPES, trt_min_subgraph_size=3, trt_op_types_to_exclude="TopK,NonZero")
    assert [name for name, _ in made.providers] == [TRT, CUDA, CPU]
    assert made.accepted == (TRT,)
    options = made.providers[0][1]
    assert options["trt_min_subgraph_size"] == "3"
    assert options["trt_op_types_to_exclude"] == "TopK,NonZero"
    assert options["trt_profile_max_shapes"] == "x:8x4"
    assert options["trt_cuda_graph_enable"] == "False"
    assert made.providers[1][1] == {"device_id": "0", "use_tf32": "False"}


@pytest.mark.parametrize(("precision", "flag"), [("fp16", "trt_fp16_enable"), ("bf16", "trt_bf16_enable")])
def test_precision_is_a_flag_up_to_tensorrt_10(model: Path, precision: str, flag: str) -> None:
    made = plan(model, precision)
    assert made.providers[0][1][flag] == "True"
    assert made.model.path == model
    assert precision in made.provenance["how"]


def test_precision_is_in_the_graph_from_tensorrt_11_on(model: Path) -> None:
    made = plan(model, "fp16", V11)
    assert "trt_fp16_enable" not in made.providers[0][1]
    assert made.model.path != model
    assert made.provenance["converted_sha256"]
    assert plan(model, "fp16", V11).provenance == made.provenance
    with refused(UsageProblem):
        plan(model, "bf16", V11)


@pytest.mark.parametrize("name", ["model.onnx", "conversion.json", "model.onnx.seal.json"])
def test_a_converted_file_that_changed_is_made_anew(model: Path, tmp_path: Path, name: str) -> None:
    made = plan(model, "fp16", V11).model
    kept, sha256 = made.path.with_name(name), made.sha256
    other = linear(tmp_path / "other.onnx", scale=3).read_bytes()
    for harm in (b"", b"{}", kept.read_bytes()[:-1], other):
        kept.write_bytes(harm)
        again = plan(model, "fp16", V11)
        assert again.model.sha256 == sha256 == again.provenance["converted_sha256"]


def test_one_cache_folder_for_everything_that_changes_an_engine(model: Path, tmp_path: Path, output: Path) -> None:
    def folder(made: LoadRequest) -> str:
        options = made.providers[0][1]
        assert options["trt_engine_cache_enable"] == options["trt_timing_cache_enable"] == "True"
        assert options["trt_engine_cache_path"] == options["trt_timing_cache_path"]
        assert Path(options["trt_engine_cache_path"]).parent == output / "ort-trt"
        return options["trt_engine_cache_path"]

    table = tmp_path / "table"
    table.write_bytes(b"1")
    different = [
        plan(model),
        plan(linear(tmp_path / "w.onnx", scale=3)),  # the same graph, other weights
        plan(linear(tmp_path / "s.onnx", batch=2)),  # another static shape
        plan(model, "fp16"),
        plan(model, **SHAPES),
        plan(model, trt_builder_optimization_level=5),
        plan(model, trt_op_types_to_exclude="Relu"),
        plan(model, versions={**V10, "tensorrt": "101602"}),
        OrtTrtBackend().request(model, SessionOptions(tf32=True), V10),
        plan(model, trt_int8_calibration_table_name=str(table)),
    ]
    table.write_bytes(b"2")
    different.append(plan(model, trt_int8_calibration_table_name=str(table)))
    assert len({folder(made) for made in different}) == len(different)
    assert folder(plan(model)) == folder(plan(model, trt_detailed_build_log=True))


def profiles(made: LoadRequest) -> dict[str, str]:
    return {name: value for name, value in made.providers[0][1].items() if "_profile_" in name}


def test_one_engine_is_built_for_the_shapes_that_the_caller_will_use(model: Path, tmp_path: Path) -> None:
    assert profiles(plan(model, max_batch=8)) == {**SHAPES, "trt_profile_opt_shapes": "x:8x4"}
    ranges = Profile.model_validate("x:1x4/4x4/8x4")
    asked = SessionOptions(shapes=ranges, extra={"max_batch": 2})
    assert profiles(OrtTrtBackend().request(model, asked, V10)) == SHAPES
    assert plan(model, max_batch=8).provenance["cache_key"] != plan(model, max_batch=4).provenance["cache_key"]
    # what the user names counts, and a fixed model has no range
    assert profiles(plan(model, max_batch=2, **SHAPES)) == SHAPES
    assert profiles(plan(linear(tmp_path / "fixed.onnx", batch=2), max_batch=8)) == {}


@pytest.mark.parametrize(
    ("shapes", "extra"), [("x:1x4/4x4/8x4", {"allow_fallback": True}), ("y:3", {}), ("x:1x4/4x4/8x4,y=3", {})]
)
def test_without_a_range_of_each_dynamic_input_the_provider_looks_for_itself(
    model: Path, shapes: str, extra: dict[str, Any]
) -> None:
    asked = SessionOptions(shapes=Profile.model_validate(shapes), extra=extra)
    assert profiles(OrtTrtBackend().request(model, asked, V10)) == {}


@pytest.mark.parametrize(
    "extra",
    [
        {"trt_fp16": True},
        {"trt_onnx_bytestream": "1"},
        {"trt_engine_decryption_lib_path": "x.so"},
        {"trt_fp16_enable": True},
        {"trt_profile_min_shapes": "x:1x4"},
        {**SHAPES, "trt_profile_min_shapes": "x=1"},
        {**SHAPES, "trt_profile_min_shapes": "z:1x4"},
        {**SHAPES, "trt_profile_min_shapes": "x:9x4"},
    ],
)
def test_what_does_not_fit_is_refused(model: Path, extra: dict[str, Any]) -> None:
    with refused(UsageProblem):
        plan(model, **extra)


def test_tf32_cannot_be_forbidden_once_tensorrt_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT 8.6 asks for the variable when it is opened, as a library that lists these calls shows."""
    monkeypatch.setattr(tf32, "mapped_file", {"libnvinfer.so": "/lib/libnvinfer.so.8"}.get)
    monkeypatch.delenv(tf32.VARIABLE, raising=False)
    with refused(UsageProblem):
        tf32.forbid_tf32()
    monkeypatch.setenv(tf32.VARIABLE, "0")
    tf32.forbid_tf32()


def test_tf32_is_forbidden_for_the_process_where_the_provider_has_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tf32.VARIABLE, raising=False)
    monkeypatch.setenv(tf32.VARIABLE, "1")
    with refused(UsageProblem):
        tf32.forbid_tf32()
    monkeypatch.setenv(tf32.VARIABLE, "0")
    assert "NVIDIA_TF32_OVERRIDE=0" in tf32.forbid_tf32()
    assert os.environ[tf32.VARIABLE] == "0"
