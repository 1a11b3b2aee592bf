"""`build-ort`: build ONNX Runtime from source with its TensorRT provider, for the TensorRT that was set up."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    print_json,
    print_line,
    say,
    single_command_app,
)


@handled
def build_ort(
    *,
    whole: Annotated[bool, typer.Option("--whole", help="All of ONNX Runtime, not only the provider.")] = False,
    source: Annotated[
        list[Path] | None,
        typer.Option(help="Source tree of ONNX Runtime or of the plug-in, repeatable; by default cloned."),
    ] = None,
    arch: Annotated[
        list[str] | None,
        typer.Option(help="CUDA architecture such as 120, repeatable; by default that of the GPU."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Parallel compilers; by default as many as fit into memory.")
    ] = None,
    tensorrt_home: Annotated[Path | None, typer.Option(help="TensorRT; by default extern/tensorrt/current.")] = None,
    cuda_home: Annotated[Path | None, typer.Option(help="CUDA toolkit; by default $CUDA_HOME or that of nvcc.")] = None,
    cudnn_home: Annotated[Path | None, typer.Option(help="cuDNN; by default $CUDNN_HOME.")] = None,
    build_dir: Annotated[
        Path | None,
        typer.Option(help="Build folder; by default one in extern/onnxruntime per version."),
    ] = None,
    define: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for CMake, repeatable.")] = None,
    install: Annotated[bool, typer.Option(help="Check what was built and install it.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print every command without running it.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Build ONNX Runtime's TensorRT provider from source, for the TensorRT that is set up and the ONNX Runtime here.

    The provider is the stand-alone plug-in where both are new enough for it. After an interruption, run it again.
    """
    from trt_workbench.setup.ort_build import build_ort as build
    from trt_workbench.setup.ort_build_steps import BuildRequest, prepare_steps

    request = BuildRequest(
        whole=whole,
        sources=tuple(source or ()),
        architectures=tuple(arch or ()),
        jobs=jobs,
        tensorrt_home=tensorrt_home,
        cuda_home=cuda_home,
        cudnn_home=cudnn_home,
        build_dir=build_dir,
        definitions=tuple(define or ()),
        install=install,
    )
    if dry_run:
        found = prepare_steps(request)
        if as_json:
            commands = [{"step": step.name, "words": list(step.words)} for step in found.steps]
            print_json({"schema_version": 2, "commands": commands, "missing": found.missing})
            return
        for step in found.steps:
            print_line(f"# {step.name}\n{shlex.join(step.words)}")
        for part in found.missing:
            say(f"missing: {part}")
        return
    product, place = build(request, say)
    if as_json:
        print_json({"schema_version": 2, "product": product, "file": str(place), "installed": install})
    else:
        print_line(f"{'Installed' if install else 'Built'} the {product}: {place}")


def main() -> None:
    """Run `build-ort`."""
    single_command_app(build_ort)()
