"""What the tests of the engine commands share."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper
from typer.testing import Result

DOUBLES = Path(__file__).parents[2] / "doubles"
Trtw = Callable[..., Result]


def write_model(path: Path, batch: int | str = 2) -> Path:
    """total = x + y and ratio = x / y."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 3]) for name in ("x", "y")]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 3]) for name in ("total", "ratio")]
    nodes = [helper.make_node("Add", ["x", "y"], ["total"]), helper.make_node("Div", ["x", "y"], ["ratio"])]
    graph = helper.make_graph(nodes, "arithmetic", values, results)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def infer(trtw: Trtw, *words: object, code: int = 0) -> dict[str, Any]:
    result = trtw("infer-engine", *words, "--json")
    assert result.exit_code == code, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def measuring(*words: object) -> tuple[object, ...]:
    return (*words, "--duration", "0", "--warmup", "0", "--iterations", "5")


def command(*words: object) -> list[str]:
    code = "from trt_workbench.cli.main import main; main()"
    return [sys.executable, "-c", code, *map(str, words)]
