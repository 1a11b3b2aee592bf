"""Build ONNX Runtime with its TensorRT provider, install it, and check that it opens the TensorRT that was set up."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem
from trt_workbench.setup.ort_build_steps import (
    BuildRequest,
    BuildStep,
    BuildSteps,
    check_command,
    prepare_steps,
    source_version,
)

Say = Callable[[str], None]
# The build's own record of how it was configured; another command line reconfigures.
RECORD = "trtw-configured.json"


def build_ort(request: BuildRequest, say: Say) -> Path:
    """Do every step, skipping what an earlier run has done. Returns the wheel.

    Raises:
        ComponentMissing: something that the build needs is absent, or a command failed.
        UsageProblem: the source tree is of another version, or does not know a flag.
        CheckFailed: the installed wheel has no TensorRT provider, or opens another TensorRT.
        KeyboardInterrupt: interrupted; its note says what is kept.
    """
    build = prepare_steps(request)
    for note in build.notes:
        say(note)
    if build.missing:
        raise ComponentMissing("The build cannot start. " + " ".join(build.missing))
    try:
        _fetch(build, say)
        _check_source(build, request)
        _configure(build, say)
        _run(_required(build, "compile"), say)
    except KeyboardInterrupt as error:
        if build.source.is_dir():
            error.add_note(f"The clone and what is built are kept; the same command goes on from there: {build.source}")
        raise
    wheel = _wheel(build)
    if request.install:
        _install(build, wheel, say)
    return wheel


def _fetch(build: BuildSteps, say: Say) -> None:
    """Clone into a folder of another name first, so that a broken clone is never treated as complete."""
    step = build.step("clone")
    if step is None or build.source.is_dir():
        return
    staging = build.source.with_name(f".{build.source.name}.clone")
    shutil.rmtree(staging, ignore_errors=True)
    staging.parent.mkdir(parents=True, exist_ok=True)
    _run(BuildStep("clone", (*step.words[:-1], str(staging))), say)
    staging.rename(build.source)


def _check_source(build: BuildSteps, request: BuildRequest) -> None:
    for name in ("configure", "compile"):
        step = _required(build, name)
        check_command(build.source, step.words[2:])
    wanted, found = request.tag.removeprefix("v"), source_version(build.source)
    if found != wanted and not request.other_version:
        is_found = f"ONNX Runtime {found}" if found else "of unknown version"
        raise UsageProblem(
            f"The source tree is {is_found}, not {wanted}; pass --other-version to build it anyway: {build.source}"
        )


def _configure(build: BuildSteps, say: Say) -> None:
    step = _required(build, "configure")
    record, asked = build.build_dir / RECORD, json.dumps(step.words).encode()
    done = record.is_file() and record.read_bytes() == asked
    if done and (build.build_dir / "Release" / "CMakeCache.txt").is_file():
        say(f"Configured already: {build.build_dir}")
        return
    _run(step, say)
    build.build_dir.mkdir(parents=True, exist_ok=True)
    record.write_bytes(asked)


def _wheel(build: BuildSteps) -> Path:
    wheels = sorted(build.wheel_folder.glob("onnxruntime*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise ComponentMissing(f"The build finished without a wheel: {build.wheel_folder}")
    return wheels[-1]


def _install(build: BuildSteps, wheel: Path, say: Say) -> None:
    _run(_required(build, "uninstall"), say)
    install = _required(build, "install")
    _run(BuildStep("install", (*install.words[:-1], str(wheel))), say)
    check = _required(build, "check")
    say("Checking that the provider loads this TensorRT")
    answer = subprocess.run(check.words, capture_output=True, text=True, check=False)
    if answer.returncode:
        lines = answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"]
        raise CheckFailed(f"The installed ONNX Runtime does not work: {lines[-1]}. Wheel: {wheel}")
    say(answer.stdout.strip().splitlines()[-1])


def _required(build: BuildSteps, name: str) -> BuildStep:
    return next(step for step in build.steps if step.name == name)


def _run(step: BuildStep, say: Say) -> None:
    say(f"{step.name}: {' '.join(step.words[:6])} …")
    try:
        subprocess.run(step.words, check=True)
    except FileNotFoundError as error:
        raise ComponentMissing(f"The step {step.name} cannot start: {step.words[0]} does not exist.") from error
    except subprocess.CalledProcessError as error:
        raise ComponentMissing(
            f"The step {step.name} failed with exit code {error.returncode}; see its output above. Run the same "
            "command again to resume; fewer parallel compilers (--jobs) need less memory."
        ) from error
