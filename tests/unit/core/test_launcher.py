"""Commands in the words of how the user started us, and environments that hold what the messages say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from taskrunner import load
from trt_workbench.core import launcher

ENVIRONMENTS = load(Path(__file__).parents[3])


@pytest.mark.parametrize("package", launcher._PACKAGES)
def test_a_package_is_in_the_environments_that_messages_name(package: str) -> None:
    listed = {*launcher._PACKAGES[package].environments}
    assert listed == {name for name, environment in ENVIRONMENTS.items() if package in environment.pypi}


def test_environments_for_gpus_are_made_for_what_the_table_says() -> None:
    table = {name: card for card, names in launcher._CARD_ENVIRONMENTS.items() for name in names}
    table |= dict.fromkeys(launcher._ANY_CARD, "7.5")
    floors = {name: environment.platforms[0].cuda_arch for name, environment in ENVIRONMENTS.items()}
    assert table == {name: floor for name, floor in floors.items() if floor}
    for task in ("setup-tensorrt", "build-native", "build-ort"):
        assert all(task in ENVIRONMENTS[name].tasks for name in table)


@pytest.mark.parametrize(
    ("gpu", "environment", "wanted"),
    [
        ("12.0", "default", "rtx5090"),
        ("12.0", "rtx5090-trt11", "rtx5090-trt11"),  # the one that is active is for GPUs
        ("10.0", "default", "gpu"),
        ("9.0", "llm", "h200"),
        ("9.0", "gpu", "gpu"),
        ("8.6", "default", "gpu"),
        (None, "dev", "gpu"),
        (None, "h200", "h200"),
    ],
)
@pytest.mark.parametrize(("start", "program"), [("pixi", "pixi run"), ("tasks/run", "tasks/run")])
def test_tensorrt_is_set_up_in_an_environment_for_the_gpu(
    gpus: Callable[..., None],
    started_by: Callable[..., None],
    start: str,
    program: str,
    gpu: str | None,
    environment: str,
    wanted: str,
) -> None:
    gpus(*([gpu] if gpu else []))
    started_by(start, environment)
    assert launcher.task("setup-tensorrt", "--from", "DIR") == f"`{program} -e {wanted} setup-tensorrt --from DIR`"
    assert launcher.task("build-native") == f"`{program} -e {wanted} build-native`"
    assert launcher.task("doctor") == f"`{program} -e {environment} doctor`"


@pytest.mark.parametrize(
    ("gpu", "environment", "wanted"),
    [
        ("12.0", "default", "rtx5090-trt11"),
        ("12.0", "gpu-trt11", "gpu-trt11"),
        ("9.0", "h200", "gpu-trt11"),
        (None, "default", "gpu-trt11"),
    ],
)
def test_onnxruntime_is_built_in_an_environment_with_tensorrt_11(
    gpus: Callable[..., None], started_by: Callable[..., None], gpu: str | None, environment: str, wanted: str
) -> None:
    gpus(*([gpu] if gpu else []))
    started_by("pixi", environment)
    assert launcher.task("build-ort") == f"`pixi run -e {wanted} build-ort`"


def test_without_an_environment_it_is_pip() -> None:
    assert launcher.task("setup-tensorrt") == "`trtw setup-tensorrt`"
    assert launcher.task("build-native") == "`pip install ./cpp`"
    assert launcher.package("onnxruntime") == "Run `pip install onnxruntime==1.31.1`."
    assert launcher.repair("Do it by hand.") == "Do it by hand."


@pytest.mark.parametrize(
    ("package", "gpu", "environment", "wanted"),
    [
        ("onnxruntime-gpu", "12.0", "default", "rtx5090"),
        ("onnxruntime-gpu", "9.0", "default", "h200"),
        ("onnxruntime-gpu", "8.9", "default", "gpu"),
        ("torch", "8.9", "gpu", "gpu-llm"),
        ("onnxruntime", None, "rtx5090-trt11", "default"),
        ("torch", None, "default", "llm"),
        ("torch", "9.0", "default", "h200"),
        ("torch", "12.0", "rtx5090", "rtx5090-llm"),
    ],
)
def test_a_package_comes_with_an_environment(
    gpus: Callable[..., None],
    started_by: Callable[..., None],
    package: str,
    gpu: str | None,
    environment: str,
    wanted: str,
) -> None:
    gpus(*([gpu] if gpu else []))
    started_by("pixi", environment, "eval-coco", "--model", "a b.onnx")
    again = f"pixi run -e {wanted} eval-coco --model 'a b.onnx'"
    assert launcher.package(package) == f"Use an environment that has it: `{again}`."


def test_an_environment_that_should_hold_a_package_is_made_again(started_by: Callable[..., None]) -> None:
    started_by("pixi", "default")
    assert "`pixi clean -e default`" in launcher.package("onnxruntime")
    started_by("tasks/run", "default")
    assert "tmp/venvs/default" in launcher.package("onnxruntime")
    assert "tmp/venvs/default" in launcher.repair("Use pip.")
