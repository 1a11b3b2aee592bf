"""Profiles of one small network, from the samples."""

from pathlib import Path

import numpy as np
import pytest

from trt_workbench.backends.profiling import Operation, Side
from trt_workbench.backends.trt.layers import join_layers
from trt_workbench.engine.inspection import read_layers
from trt_workbench.profile.document import with_shares

SAMPLES = Path(__file__).parent / "samples"
# Milliseconds of each layer of the fp16 engine, in the order of execution; the constant is not executed.
FP16_MS = {
    "Reformatting CopyNode for Input Tensor 0 to /conv1/Conv + /relu1/Relu": 0.02,
    "/conv1/Conv + /relu1/Relu": 0.05,
    "PWN(PWN(/act/Sigmoid), /act/Mul)": 0.01,
    "/conv2/Conv": 0.03,
    "Reformatting CopyNode for Output Tensor 0 to /conv2/Conv": 0.015,
}
FP32_MS = {
    "/conv1/Conv": 0.2,
    "PWN(PWN(/relu1/Relu), PWN(PWN(/act/Sigmoid), /act/Mul))": 0.02,
    "/conv2/Conv": 0.04,
}
OPERATORS = {
    "/conv1/Conv": "Conv",
    "/relu1/Relu": "Relu",
    "/act/Sigmoid": "Sigmoid",
    "/act/Mul": "Mul",
    "/conv2/Conv": "Conv",
}


def sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


def joined(
    name: str, times: dict[str, float], operators: dict[str, str] | None = None, side: Side = "target"
) -> list[Operation]:
    """Layers of an inspector's sample with three equal samples of their times."""
    layers, _ = read_layers(sample(name))
    found = join_layers(layers, [(layer, np.full(3, ms)) for layer, ms in times.items()], operators or {})
    return with_shares([one.model_copy(update={"side": side}) for one in found])


@pytest.fixture
def fp16() -> list[Operation]:
    return joined("inspector-fp16.json", FP16_MS)


@pytest.fixture
def fp32() -> list[Operation]:
    return joined("inspector-fp32.json", FP32_MS, side="against")


@pytest.fixture
def names_only() -> list[Operation]:
    return joined("inspector-names.json", FP16_MS, OPERATORS)
