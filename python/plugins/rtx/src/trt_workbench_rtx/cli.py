"""`trtw check-target`: whether a model can be compiled for RTX cards that this machine does not have."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_workbench.build_engine import with_batch_profile
from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
)
from trt_workbench.console.drawing import present
from trt_workbench.console.options import spelled
from trt_workbench.console.progress import waiting
from trt_workbench.core.counts import sized
from trt_workbench.core.errors import CheckFailed
from trt_workbench.engine.build_options import BuildOptions, MaxBatch, Profiles
from trt_workbench.report.tables import Table
from trt_workbench_rtx.cards import TIME_LIMIT_S

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench_rtx.document import TargetCheck


@handled
def check_target(
    model: Annotated[Path, typer.Argument(help="ONNX file, with its external data next to it.")],
    *,
    gpu: Annotated[
        str, typer.Option(help="Cards or architectures, separated by commas: rtx5090, or sm120,sm89,sm86.")
    ] = "rtx5090",
    profiles: Profiles = None,
    max_batch: MaxBatch = None,
    time_limit: Annotated[
        float, typer.Option(min=0.001, max=1e6, help="Time limit of one build in seconds.")
    ] = TIME_LIMIT_S,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compile a model for RTX cards that this machine does not have.

    TensorRT-RTX compiles ahead of time for each architecture, without a GPU or a driver. Exit code 1 if one of them
    refuses the model: the message names the layer and the type.
    """
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.documents import write_json
    from trt_workbench.engine.options import load_settings
    from trt_workbench.engine.request import check_request
    from trt_workbench.model.opened import Model
    from trt_workbench_rtx.cards import architectures
    from trt_workbench_rtx.compiler import require_compiler
    from trt_workbench_rtx.run import check_targets

    asked = architectures(gpu)
    opened = Model.open(model)
    given = {"strongly_typed": True, **({"profiles": profiles} if profiles else {})}
    plain = load_settings(None, given, spelled(BuildOptions).__getitem__)
    settings = with_batch_profile(opened, plain, max_batch)
    check_request(opened, settings)
    require_compiler()
    with run_directory("check-target", output) as run:
        with waiting("Compiling") as update:
            found, layers = check_targets(
                opened,
                settings.profiles,
                asked,
                run.path / "logs",
                time_limit_s=time_limit,
                update=update,
            )
        write_json(run.path / "check-target.json", found)
        write_json(run.path / "layers.json", layers)
        directory = run.commit("complete", passed=found.passed)
    drawing = present(directory, found, partial(_shown, found), as_json=as_json, debug=debug)
    if stopped := [target for target in found.targets if target.outcome != "built"]:
        more = f" Also failed: {', '.join(one.name for one in stopped[1:])}." if stopped[1:] else ""
        raise CheckFailed(
            f"{model.name} was not built for {stopped[0].name}: {stopped[0].reason.rstrip('.')}.{more} Full report: "
            f"{directory / 'report.html'}"
        )
    drawing.end()


def _shown(found: TargetCheck, _directory: Path) -> Parts:
    from trt_workbench_rtx.report import TARGETS

    return [
        f"{Path(found.model).name}: {sized(found.model_size_bytes)}, {found.graph_precision['text']}",
        Table(TARGETS, found.targets),
        *(f"{one.name}: {one.reason}" for one in found.targets if one.reason),
        *found.notes,
        f"Compiled by {found.compiler} {found.compiler_version or '(no answer)'}; nothing ran on a card.",
    ]
