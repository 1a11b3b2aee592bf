"""Build ONNX Runtime's TensorRT provider or all of it, check that it opens the TensorRT that is set up, install it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from trt_workbench.backends.ort.common import TENSORRT_PROVIDER, release
from trt_workbench.backends.ort.libraries import FILES, open_library
from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem
from trt_workbench.core.files import anything, write_bytes
from trt_workbench.engine.tensorrt import find_library
from trt_workbench.setup.ort_build_steps import (
    LINKS,
    TENSORRT_LIBRARIES,
    BuildRequest,
    BuildStep,
    BuildSteps,
    Product,
    onnxruntime_libraries,
    prepare_steps,
)

Say = Callable[[str], None]
_ADVICE = {
    "clone": "Without a network, give source trees with --source.",
    "configure": "Without a network, it needs local copies of what it fetches (docs/guides/build-ort.md).",
    "compile": "Run the same command again to resume; fewer parallel compilers (--jobs) need less memory.",
}


def build_ort(request: BuildRequest, say: Say) -> tuple[Product, Path]:
    """Do every step, skipping what an earlier run has done. Returns what was built and where it is, once installed.

    Raises:
        ComponentMissing: something that the build needs is absent, or a command failed.
        UsageProblem: the source tree is of another version, or the build folder is of another TensorRT.
        CheckFailed: what was built opens another TensorRT, or none.
        KeyboardInterrupt: interrupted; its note says what is kept.
    """
    build = prepare_steps(request)
    if build.missing:
        raise ComponentMissing("The build cannot start. " + " ".join(build.missing))
    place = build.built
    try:
        for step in build.steps:
            if step.name == "clone":
                _clone(step, say)
            elif step.name == "install":
                place = _install(build, step, say)
            else:
                if step.name == "configure":
                    _check_source(build)
                    _link(build)
                _run(step, say)
    except KeyboardInterrupt as error:
        if build.source.is_dir():
            error.add_note(f"The clone and what is built are kept; the same command goes on from there: {build.source}")
        raise
    return build.product, place


def _clone(step: BuildStep, say: Say) -> None:
    """Clone into a folder of another name first, so that a broken clone is never treated as complete."""
    tree = Path(step.words[-1])
    if tree.is_dir():
        return
    staging = tree.with_name(f".{tree.name}.clone")
    shutil.rmtree(staging, ignore_errors=True)
    staging.parent.mkdir(parents=True, exist_ok=True)
    _run(BuildStep("clone", (*step.words[:-1], str(staging))), say)
    staging.rename(tree)


def _check_source(build: BuildSteps) -> None:
    """Raise UsageProblem unless the source tree fits the ONNX Runtime that what is built will be loaded into."""
    file = build.source / "VERSION_NUMBER"
    found = file.read_text(encoding="utf-8").strip() if file.is_file() else "of unknown version"
    if build.product == "provider" and found != build.version:
        raise UsageProblem(
            f"The source tree is ONNX Runtime {found}, but {build.version} is installed, and only its own "
            f"version loads a provider: {build.source}"
        )
    if build.product == "plugin" and release(found) > release(build.version):
        raise UsageProblem(
            f"The headers are those of ONNX Runtime {found}, and the installed {build.version} is older; a plug-in is "
            f"loaded by the version of its headers or a newer one: {build.source}"
        )


def _link(build: BuildSteps) -> None:
    """Make the folders of links: the build scripts look for libraries in places and under names that wheels lack."""
    tensorrt, onnxruntime = build.build_dir / LINKS / "tensorrt", build.build_dir / LINKS / "onnxruntime"
    include = build.tensorrt_home.resolve() / "include"
    if tensorrt.is_dir() and (tensorrt / "include").readlink() != include:
        raise UsageProblem(
            f"The build folder is that of another TensorRT ({(tensorrt / 'include').readlink().parent.name}); name "
            f"another with --build-dir, or remove it: {build.build_dir}"
        )
    links = {tensorrt / "include": include}
    for stem in TENSORRT_LIBRARIES:
        library = find_library(include.parent / "lib", stem)
        assert library is not None
        major = library.name.removeprefix(f"{stem}.so.").split(".")[0]
        links |= {tensorrt / "lib" / f"{stem}.so": library, tensorrt / f"{stem}.so.{major}": library}
    links[onnxruntime / "include"] = build.source.resolve() / "include" / "onnxruntime" / "core" / "session"
    for library in (onnxruntime_libraries() or Path()).glob("libonnxruntime.so.*"):
        links[onnxruntime / "lib" / "libonnxruntime.so"] = library
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _install(build: BuildSteps, step: BuildStep, say: Say) -> Path:
    """Install what was built once it is checked; the library of a wheel that it replaces is kept beside it."""
    if build.product == "whole":
        wheels = sorted(build.built.glob("onnxruntime*.whl"), key=lambda path: path.stat().st_mtime)
        if not wheels:
            raise ComponentMissing(f"The build finished without a wheel: {build.built}")
        _run(BuildStep("install", (*step.words[:-1], str(wheels[-1]))), say)
        _check(build, (onnxruntime_libraries() or Path()) / FILES[TENSORRT_PROVIDER], "It was installed", say)
        return wheels[-1]
    _check(build, build.built, "It was not installed; --no-install leaves it for another machine", say)
    place = Path(step.words[-1])
    kept = place.with_name(f"{place.name}.{build.version}")
    if place.name == FILES[TENSORRT_PROVIDER] and place.is_file() and not kept.exists():
        shutil.copy2(place, kept)
        say(f"The wheel's own library is kept: {kept}")
    write_bytes(place, build.built.read_bytes(), over=anything)
    return place


def _check(build: BuildSteps, library: Path, said: str, say: Say) -> None:
    """Raise CheckFailed unless a library can be opened and opens the TensorRT that it was built for."""
    home = build.tensorrt_home / "lib"
    searched = os.pathsep.join(filter(None, [str(home), os.environ.get("LD_LIBRARY_PATH")]))
    found = open_library(library, {**os.environ, "LD_LIBRARY_PATH": searched})
    opened = found.get("tensorrt_library")
    problem = found.get("error")
    if opened is None:
        problem = problem or found.get("library") or "it opens no libnvinfer"
    elif Path(opened).resolve() not in {path.resolve() for path in home.iterdir()}:
        problem = f"it opens {opened}, not the one in {home}"
    if problem:
        raise CheckFailed(f"What was built does not work here: {problem}. {said}: {library}")
    say(f"Checked: it opens {opened}")


def _run(step: BuildStep, say: Say) -> None:
    say(f"{step.name}: {' '.join(step.words[:6])} …")
    try:
        subprocess.run(step.words, check=True)
    except subprocess.CalledProcessError as error:
        raise ComponentMissing(
            f"The step {step.name} failed with exit code {error.returncode}; see its output above. "
            f"{_ADVICE.get(step.name, '')}"
        ) from error
