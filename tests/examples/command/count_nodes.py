"""`trtw count-nodes`: what a model is made of."""

from pathlib import Path
from typing import Annotated

import typer

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_json, print_line


@handled
def count_nodes(
    model: Annotated[Path, typer.Argument(help="ONNX file.")],
    *,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Count the nodes of a model by operator."""
    from trt_workbench.model.opened import Model  # here, so that --help stays quick

    operators = Model.open(model).facts.operators
    if as_json:
        print_json(operators)
        return
    for name, count in sorted(operators.items()):
        print_line(f"{count:6} {name}")
