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
    stdout_console,
)


@handled
def build_ort(
    *,
    source: Annotated[Path | None, typer.Option(help="Source tree to build; by default a clone of the tag.")] = None,
    git: Annotated[str | None, typer.Option(help="Repository to clone: URL or path.")] = None,
    tag: Annotated[str | None, typer.Option(help="Tag to clone; by default the pinned version.")] = None,
    minimal_cuda: Annotated[
        bool, typer.Option("--minimal-cuda", help="Only the TensorRT provider: no CUDA kernels, no cuDNN.")
    ] = False,
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
        Path | None, typer.Option(help="Build folder; by default extern/onnxruntime/build-TAG.")
    ] = None,
    install: Annotated[bool, typer.Option(help="Install the wheel and check it.")] = True,
    other_version: Annotated[
        bool, typer.Option("--other-version", help="Accept a source tree of another version.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print every command without running it.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Build ONNX Runtime with its TensorRT provider from source.

    The steps: clone, configure, compile, install, check. After an interruption, run it again to resume.
    """
    from trt_workbench.setup.ort_build import build_ort as build
    from trt_workbench.setup.ort_build_steps import REPOSITORY, VERSION, BuildRequest, prepare_steps

    request = BuildRequest(
        source=source,
        git=git or REPOSITORY,
        tag=tag or f"v{VERSION}",
        minimal_cuda=minimal_cuda,
        architectures=tuple(arch or ()),
        jobs=jobs,
        tensorrt_home=tensorrt_home,
        cuda_home=cuda_home,
        cudnn_home=cudnn_home,
        build_dir=build_dir,
        install=install,
        other_version=other_version,
    )
    if dry_run:
        found = prepare_steps(request)
        if as_json:
            commands = [{"step": step.name, "words": list(step.words)} for step in found.steps]
            print_json({"schema_version": 1, "commands": commands, "missing": found.missing, "notes": found.notes})
            return
        out = stdout_console(quiet=False)
        for step in found.steps:
            print_line(out, f"# {step.name}\n{shlex.join(step.words)}")
        for text in (*(f"note: {note}" for note in found.notes), *(f"missing: {part}" for part in found.missing)):
            say(text)
        return
    wheel = build(request, say)
    if as_json:
        print_json({"schema_version": 1, "wheel": str(wheel), "installed": install})
    else:
        print_line(stdout_console(quiet=False), f"Wheel: {wheel}")


def main() -> None:
    """Run `build-ort`."""
    single_command_app(build_ort)()
