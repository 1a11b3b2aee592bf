"""What `auto` says of a GPU that it leaves unused; NVML is a fake one."""

from collections.abc import Callable

import pytest

from trt_workbench.backends.unused_gpu import other_environment, unused_gpu
from trt_workbench.core.gpu import driver_report, first_gpu, why_no_gpu

Fixture = Callable[..., None]
REASON = ("No CUDA provider.", "Install it.")


def test_without_a_gpu_there_is_nothing_to_say(gpus: Fixture) -> None:
    gpus()
    assert unused_gpu(*REASON) is None
    assert first_gpu() is None


def test_a_gpu_that_is_hidden_is_no_gpu(gpus: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus("9.0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert unused_gpu(*REASON) is None
    assert why_no_gpu(driver_report()) == "CUDA_VISIBLE_DEVICES= hides every GPU"


def test_the_first_visible_gpu_is_named(gpus: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus("8.6", "9.0", names=("NVIDIA A10", "NVIDIA H200"))
    for visible in ("1", "GPU-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert str(unused_gpu(*REASON)).startswith("NVIDIA H200 (compute capability 9.0, driver for CUDA 13.0) is left")


@pytest.mark.parametrize(
    ("gpu", "environment"), [("8.6", "gpu"), ("8.9", "gpu"), ("9.0", "h200"), ("10.0", "gpu"), ("12.0", "rtx5090")]
)
@pytest.mark.parametrize(("start", "program"), [("pixi", "pixi run"), ("tasks/run", "tasks/run")])
def test_in_the_environment_for_the_cpu(
    gpus: Fixture, started_by: Fixture, start: str, program: str, gpu: str, environment: str
) -> None:
    gpus(gpu)
    started_by(start, "default", "eval-coco", "--limit", "5")
    assert unused_gpu(*REASON) == (
        f"GPU (compute capability {gpu}, driver for CUDA 13.0) is left unused: the environment default is for the CPU. "
        f"Use an environment that has it: `{program} -e {environment} eval-coco --limit 5`."
    )


def test_with_a_driver_that_is_too_old(gpus: Fixture, started_by: Fixture) -> None:
    gpus("12.0", cuda="12.8")
    started_by("pixi", "default", "trtw", "profile", "m.onnx")
    text = str(unused_gpu(*REASON))
    assert "driver for CUDA 12.8) is left unused: ONNX Runtime for GPUs needs a driver for CUDA 13.0." in text
    assert text.endswith("`pixi run -e rtx5090 trtw profile m.onnx`.")


def test_a_gpu_that_cuda_13_does_not_serve(gpus: Fixture) -> None:
    gpus("6.1")
    assert str(unused_gpu(*REASON)).endswith("CUDA 13 serves compute capability 7.5 and newer.")


def test_elsewhere_the_backends_own_reason_is_given(gpus: Fixture, started_by: Fixture) -> None:
    gpus("9.0")
    assert str(unused_gpu(*REASON)).endswith("is left unused: No CUDA provider. Install it.")
    started_by("pixi", "h200", "eval-coco")
    assert str(unused_gpu(*REASON)).endswith("is left unused: No CUDA provider. Install it.")


@pytest.mark.parametrize(
    ("gpu", "environment", "other"),
    [
        ("9.0", "gpu", "h200"),
        ("12.0", "gpu", "rtx5090"),
        ("12.0", "gpu-llm", None),
        ("8.9", "gpu", None),
        ("9.0", "h200", None),
        ("9.0", "default", None),  # `unused_gpu` says it there
    ],
)
def test_a_card_with_an_environment_of_its_own(
    gpus: Fixture, started_by: Fixture, gpu: str, environment: str, other: str | None
) -> None:
    gpus(gpu)
    started_by("pixi", environment, "eval-coco", "--limit", "5")
    text = other_environment()
    assert (text is None) == (other is None)
    assert other is None or str(text).endswith(f" is {other}: `pixi run -e {other} eval-coco --limit 5`.")


def test_without_a_manager_of_environments_there_is_no_other(gpus: Fixture) -> None:
    gpus("9.0")
    assert other_environment() is None
