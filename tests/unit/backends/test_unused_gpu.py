"""What `auto` says of a GPU that it leaves unused; NVML is a fake one."""

from collections.abc import Callable

import pytest
from tests.texts import held

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
    held(" ".join(why_no_gpu(driver_report()) or ()))


def test_the_first_visible_gpu_is_named(gpus: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus("8.6", "9.0", names=("NVIDIA A10", "NVIDIA H200"))
    for visible in ("1", "GPU-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        held(str(unused_gpu(*REASON)))


@pytest.mark.parametrize("gpu", ["8.6", "8.9", "9.0", "10.0", "12.0"])
@pytest.mark.parametrize("start", ["pixi", "tasks/run"])
def test_in_the_environment_for_the_cpu(gpus: Fixture, started_by: Fixture, start: str, gpu: str) -> None:
    gpus(gpu)
    started_by(start, "default", "eval-coco", "--limit", "5")
    held(unused_gpu(*REASON))


def test_with_a_driver_that_is_too_old(gpus: Fixture, started_by: Fixture) -> None:
    gpus("12.0", cuda="12.8")
    started_by("pixi", "default", "trtw", "profile", "m.onnx")
    text = str(unused_gpu(*REASON))
    held(text)


def test_a_gpu_that_cuda_13_does_not_serve(gpus: Fixture) -> None:
    gpus("6.1")
    held(str(unused_gpu(*REASON)))


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
