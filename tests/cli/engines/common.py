"""What the tests of the engine commands share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.onnx_text import write_onnx
from typer.testing import Result

DOUBLES = Path(__file__).parents[2] / "doubles"
Trtw = Callable[..., Result]


def write_model(path: Path, batch: int | str = 2) -> Path:
    """total = x + y and ratio = x / y."""
    x, y, total, ratio = (f"float[{batch},3] {name}" for name in ("x", "y", "total", "ratio"))
    return write_onnx(path, f"arithmetic ({x}, {y}) => ({total}, {ratio}) {{ total = Add(x, y) ratio = Div(x, y) }}")


def infer(trtw: Trtw, *words: object, code: int = 0) -> dict[str, Any]:
    result = trtw("infer-engine", *words, "--json")
    assert result.exit_code == code, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def measuring(*words: object) -> tuple[object, ...]:
    return (*words, "--duration", "0", "--warmup", "0", "--iterations", "5")


PROGRAM = "from trt_workbench.cli.main import main; main()"
