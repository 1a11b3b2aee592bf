"""Models that are random by design, wherever the operator stands."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.onnx_text import parse_onnx

from trt_workbench.model.opened import Model
from trt_workbench.model.randomness import random_operators


def found(nodes: str, inputs: str = "float[N,4] x", weights: dict[str, Any] | None = None) -> list[str]:
    return random_operators(parse_onnx(f"g ({inputs}) => (float[N,4] y) {{ {nodes} }}", weights))


@pytest.mark.parametrize(
    "operator",
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"],
)
@pytest.mark.parametrize("seed", ["", ", seed = 7.0"])
def test_random_operators_are_found_with_a_seed_and_without(operator: str, seed: str) -> None:
    shape, inputs = (", shape = [2, 4]", "") if operator in ("RandomNormal", "RandomUniform") else ("", "x")
    assert found(f"y = {operator} <dtype = 1{shape}{seed}> ({inputs})") == [operator]


@pytest.mark.parametrize("training", [True, False])
def test_dropout_counts_in_training_mode_alone(training: bool) -> None:
    expected = ["Dropout in training mode"] if training else []
    assert found('y = Dropout(x, "", mode)', weights={"mode": np.array(training)}) == expected
    constant = f"mode = Constant <value: tensor = bool {{{int(training)}}}> ()"
    assert found(f'{constant} y = Dropout(x, "", mode)') == expected


def test_dropout_without_a_mode_or_with_one_that_a_caller_decides() -> None:
    assert found("y = Dropout(x)") == []
    assert found('y = Dropout(x, "", mode)', "float[N,4] x, bool mode") == ["Dropout in training mode"]


@pytest.mark.parametrize("where", ["inside", "beside"])
@pytest.mark.parametrize("training", [True, False])
def test_a_mask_is_no_mode_and_a_mode_is_known_wherever_it_is(tmp_path: Path, where: str, training: bool) -> None:
    """A causal mask is a large constant of booleans, which is not kept with the graph."""
    nodes = "a = Where(mask, x, zero) y = Dropout(a, ratio, mode)"
    arrays = {
        "mask": np.tri(128, dtype=bool),
        "zero": np.array(0, np.float32),
        "ratio": np.array(0.5, np.float32),
        "mode": np.array(training),
    }
    beside = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0} if where == "beside" else {}
    onnx.save(
        parse_onnx(f"g (float[128,128] x) => (float[128,128] y) {{ {nodes} }}", arrays), tmp_path / "m.onnx", **beside
    )
    found = random_operators(Model.open(tmp_path / "m.onnx").proto)
    assert found == (["Dropout in training mode"] if training else [])
