"""What the tests of the engine commands share."""

from pathlib import Path
from typing import Any

from tests.in_app import json_of
from tests.onnx_text import write_onnx

DOUBLES = Path(__file__).parents[2] / "doubles"


def write_model(path: Path, batch: int | str = 2) -> Path:
    """total = x + y and ratio = x / y."""
    x, y, total, ratio = (f"float[{batch},3] {name}" for name in ("x", "y", "total", "ratio"))
    return write_onnx(path, f"arithmetic ({x}, {y}) => ({total}, {ratio}) {{ total = Add(x, y) ratio = Div(x, y) }}")


def infer(*words: object, code: int = 0) -> Any:
    return json_of("infer-engine", *words, code=code)


def measuring(*words: object) -> tuple[object, ...]:
    return (*words, "--duration", "0", "--warmup", "0", "--iterations", "5")


PROGRAM = "from trt_workbench.main import main; main()"
