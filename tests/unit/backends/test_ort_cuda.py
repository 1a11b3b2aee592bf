import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from tests.texts import refused
from tests.unit.backends.small_models import linear

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.backend import LoadRequest
from trt_workbench.backends.ort.common import session_config
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.ort.cuda import OrtCudaBackend
from trt_workbench.backends.ort.gpu import SESSION_OPTIONS, load_gpu_session
from trt_workbench.core.errors import CheckFailed, ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench.model.opened import Model

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
no_cuda = pytest.mark.skipif(CUDA in ort.get_available_providers(), reason="this ONNX Runtime has the CUDA provider")


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    return tmp_path / "out"


def test_weights_of_4_bits_meet_activations_as_they_are() -> None:
    """The graph of a provider, whose kernels may not read it, would else say that it rounds these to int8."""
    config, _ = session_config(ort, SessionOptions(), "all", allow_spinning=False)
    assert config.get_session_config_entry("session.qdq_matmulnbits_accuracy_level") == "1"


def extra(**given: Any) -> dict[str, Any]:
    return {**{name: option.default for name, option in SESSION_OPTIONS.items()}, **given}


def cpu_plan(model: Path, accepted: str, **given: Any) -> LoadRequest:
    """As on a GPU, with the one provider that every machine has."""
    opened = Model.open(model)
    return LoadRequest(
        "ort-cuda", opened, opened, ((CPU, {}),), (accepted,), extra(**given), {"precision": "as exported"}
    )


@no_cuda
def test_without_the_provider_loading_is_an_error_and_never_the_cpu(tmp_path: Path, gpus: Callable[..., None]) -> None:
    gpus("9.0")
    model = linear(tmp_path / "m.onnx")
    with refused(ComponentMissing) as caught:
        OrtCudaBackend().load(model)
    assert caught.value.exit_code == 3
    assert "onnxruntime-gpu" in str(caught.value)


def test_nodes_outside_the_provider_fail_the_load(tmp_path: Path) -> None:
    model = linear(tmp_path / "m.onnx")
    with refused(CheckFailed):
        load_gpu_session(cpu_plan(model, CUDA), SessionOptions())
    with load_gpu_session(cpu_plan(model, CUDA, allow_fallback=True), SessionOptions()) as session:
        assert len(session.provenance["fallback_nodes"]) == sum(session.provenance["nodes_by_provider"].values()) > 0


def test_options_reach_the_provider_by_its_own_names(tmp_path: Path) -> None:
    model = linear(tmp_path / "m.onnx")
    given = {"gpu_mem_limit": "1073741824", "prefer_nhwc": True, "device_id": 1, "cuda_graph": True}
    plan = OrtCudaBackend().request(model, SessionOptions(extra=given, tf32=True))
    assert plan.providers[0] == (
        CUDA,
        {
            "device_id": "1",
            "gpu_mem_limit": "1073741824",
            "prefer_nhwc": "True",
            "use_tf32": "True",
            "enable_cuda_graph": "True",
        },
    )
    assert OrtCudaBackend().request(model, SessionOptions()).providers[0][1]["use_tf32"] == "False"


@pytest.mark.parametrize(
    "options",
    [
        SessionOptions(extra={"gpu_memory_limit": 1}),
        SessionOptions(extra={"arena_extend_strategy": "big"}),
        SessionOptions(extra={"cuda_graph": True}, concurrency=2),
        SessionOptions(precision="int4"),
        SessionOptions(precision="int8"),
        SessionOptions(threads=0),
    ],
)
def test_what_it_cannot_do_is_refused(tmp_path: Path, options: SessionOptions) -> None:
    with refused(UsageProblem):
        OrtCudaBackend().request(linear(tmp_path / "m.onnx"), options)


def test_tf32_that_the_process_forbids_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    with refused(UsageProblem):
        OrtCudaBackend().request(linear(tmp_path / "m.onnx"), SessionOptions(tf32=True))


def test_fp16_of_an_fp32_graph_is_a_recorded_conversion(tmp_path: Path, output: Path) -> None:
    model = linear(tmp_path / "m.onnx")
    plan = OrtCudaBackend().request(model, SessionOptions(precision="fp16"))
    assert plan.model.path != model
    assert plan.model.path.is_relative_to(output)
    assert plan.provenance["precision"] == "fp16"
    assert plan.provenance["converted_sha256"]
    written = plan.model.path.stat().st_mtime_ns
    again = OrtCudaBackend().request(model, SessionOptions(precision="fp16"))
    assert again.model.path == plan.model.path
    assert plan.model.path.stat().st_mtime_ns == written  # converted once
    other = OrtCudaBackend().request(linear(tmp_path / "o.onnx", scale=2), SessionOptions(precision="fp16"))
    assert other.model.path != plan.model.path

    x = np.random.default_rng(0).random((3, 4), np.float32)
    with OrtCpuBackend().load(model) as full, OrtCpuBackend().load(plan.model.path) as half:
        assert half.inputs == full.inputs  # inputs and outputs keep their type
        exact, rounded = full.run({"x": x})["y"], half.run({"x": x})["y"]
    np.testing.assert_allclose(rounded, exact, rtol=2e-3)
    assert not np.array_equal(rounded, exact)
    # an fp16 file is taken as it is
    as_is = OrtCudaBackend().request(plan.model.path, SessionOptions(precision="fp16"))
    assert as_is.model.path == plan.model.path
    assert as_is.provenance["precision"] == "as exported"


# As onnxruntime-gpu 1.31.1 says it; tests/stand_ins asks the library itself.
REFUSED = (
    "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc:63 static [ONNXRuntimeError] : "
    '1 : FAIL : provider_options_utils.h:187 Parse Failed to parse provider option "{}": {}'
)
ABSENT = "provider_info.cc:71 operator() Invalid device ID: 63, must be between 0 (inclusive) and {} (exclusive)."
NO_VALUE = 'parse_string.h:116 ParseStringWithClassicLocale Failed to parse value: "0"'
WORDS = "[ERROR] [TensorRT] The value for the key 'prefer_nhwc' should be 'True' or 'False'. Default is 'False'.\n"


@pytest.mark.parametrize(
    ("error", "raised", "text"),
    [
        (RuntimeError(REFUSED.format("device_id", ABSENT.format(1))), UsageProblem, "device_id=63 .* sees only GPU 0"),
        (RuntimeError(REFUSED.format("device_id", ABSENT.format(4))), UsageProblem, "device_id=63 .* sees GPUs 0 to 3"),
        (RuntimeError(REFUSED.format("device_id", ABSENT.format(0))), UsageProblem, "device_id=63 .* sees no such GPU"),
        (RuntimeError("CUDA failure 101: invalid device ordinal ;"), UsageProblem, "device_id=63 .* sees no such GPU"),
        (RuntimeError(REFUSED.format("gpu_mem_limit", NO_VALUE)), UsageProblem, r"gpu_mem_limit=7 \(of another type\)"),
        (RuntimeError(WORDS), UsageProblem, r"prefer_nhwc=maybe \(should be 'True' or 'False'\. Default .* 'False'\):"),
        (RuntimeError('Parse Unknown provider option: "use_tf32".'), UsageProblem, r"onnxruntime \S+ has .* use_tf32:"),
        (RuntimeError("CUDA failure 100: no CUDA-capable device is detected"), DeviceFailure, "device failed"),
        (RuntimeError("something else"), RuntimeError, "^something else$"),
    ],
)
def test_what_a_provider_says_when_it_starts_is_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception], text: str
) -> None:
    model = linear(tmp_path / "m.onnx")

    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(ort, "InferenceSession", refuse)
    given = {"device_id": "63", "gpu_mem_limit": "7", "prefer_nhwc": "maybe"}
    with pytest.raises(raised, match=text):
        load_gpu_session(dataclasses.replace(cpu_plan(model, CPU), providers=((CPU, given),)), SessionOptions())
