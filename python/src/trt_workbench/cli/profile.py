"""`trtw profile`: where an engine or a model spends its time, by layer, node and kernel."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from trt_workbench.cli.common import (
    BackendExtraOption,
    DebugOption,
    DeviceOption,
    HostCodeOption,
    JsonOption,
    OutputOption,
    ProfileOption,
    SeedOption,
    ShapeOption,
    TrustOption,
    handled,
    panel_option,
    parse_options,
    print_json,
    print_note,
    stderr_console,
)
from trt_workbench.cli.drawing import draw

_WHAT, _HOW, _NSIGHT = "What is profiled", "How", "Kernels, by NVIDIA's profilers"


@handled
def profile(
    target: Annotated[Path, typer.Argument(help="Plan made by `build-engine`, or an ONNX model.")],
    *,
    against: Annotated[
        str | None,
        panel_option(
            "Compare with another plan or model, an earlier run directory, or a precision of the model such as fp16.",
            _WHAT,
        ),
    ] = None,
    backend: Annotated[str, panel_option("Runtime of a model: trt, ort-cpu, ort-cuda or ort-trt.", _WHAT)] = "auto",
    precision: Annotated[str, panel_option("Precision of a model, as the backend defines it.", _WHAT)] = "fp32",
    model: Annotated[
        Path | None, panel_option("ONNX model that a plan was built from, to know operators and check names.", _WHAT)
    ] = None,
    option: BackendExtraOption = None,
    shape: ShapeOption = None,
    iterations: Annotated[int, panel_option("Runs that count.", _HOW, min=1)] = 20,
    warmup: Annotated[int, panel_option("Runs before them.", _HOW, min=1)] = 3,
    nsys: Annotated[bool, panel_option("Record with Nsight Systems.", _NSIGHT, "--nsys")] = False,
    ncu: Annotated[bool, panel_option("Record with Nsight Compute.", _NSIGHT, "--ncu")] = False,
    launches: Annotated[int, panel_option("Most kernel launches that Nsight Compute measures.", _NSIGHT, min=1)] = 200,
    timeout: Annotated[float, panel_option("Seconds after which a recording is stopped.", _NSIGHT, min=1)] = 600.0,
    profile: ProfileOption = None,
    trust: TrustOption = False,
    allow_host_code: HostCodeOption = False,
    device: DeviceOption = 0,
    output: OutputOption = None,
    as_json: JsonOption = False,
    seed: SeedOption = 0,
    debug: DebugOption = False,
) -> None:
    """Time every layer or node, join it with the ONNX nodes, compare two precisions, record the kernels."""
    from trt_workbench.measure.random_arrays import parse_shapes
    from trt_workbench.profiling.run import ProfileRequest
    from trt_workbench.profiling.run import profile as run_profile
    from trt_workbench.report.profile import write_report

    request = ProfileRequest(
        target=target,
        against=against,
        backend=backend,
        precision=precision,
        model=model,
        options=parse_options(option),
        shapes=parse_shapes(shape or ()),
        iterations=iterations,
        warmup=warmup,
        seed=seed,
        profile=profile,
        trust=trust,
        allow_host_code=allow_host_code,
        device=device,
        nsys=nsys,
        ncu=ncu,
        launches=launches,
        timeout_s=timeout,
    )
    directory = run_profile(request, output, partial(print_note, stderr_console()))
    drawing = draw(write_report, directory, debug=debug)
    from trt_workbench.cli.profile_tables import document, print_profile

    if as_json:
        print_json(document(directory))
    else:
        print_profile(directory)
    drawing.end()
