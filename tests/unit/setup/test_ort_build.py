import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem
from trt_workbench.setup import ort_build_steps
from trt_workbench.setup.ort_build import build_ort
from trt_workbench.setup.ort_build_steps import (
    USED_FLAGS,
    BuildRequest,
    BuildSteps,
    check_command,
    known_flags,
    prepare_steps,
)

# A build script with the flags that are used, which "builds" a wheel and notes how it was called.
BUILD_SCRIPT = """
import argparse, pathlib, sys
from build_args import parser
args = parser().parse_args()
folder = pathlib.Path(args.build_dir) / "Release"
folder.mkdir(parents=True, exist_ok=True)
with (folder.parent / "calls").open("a") as file:
    file.write(("update" if args.update else "build") + "\\n")
if args.update:
    (folder / "CMakeCache.txt").write_text("")
else:
    if (folder.parent / "out-of-memory").exists():
        sys.exit(137)
    (folder / "dist").mkdir(exist_ok=True)
    (folder / "dist" / "onnxruntime_gpu-1.31.1-cp311-cp311-linux_x86_64.whl").write_text("wheel")
"""
WITH_VALUE = {"--build_dir", "--config", "--cmake_generator", "--cuda_home", "--cudnn_home", "--tensorrt_home"}
WITH_VALUE |= {"--parallel", "--nvcc_threads"}


def build_args(flags: tuple[str, ...]) -> str:
    lines = ["import argparse", "def parser():", "    parser = argparse.ArgumentParser()"]
    for flag in flags:
        more = (
            "" if flag in WITH_VALUE else ', nargs="+"' if flag == "--cmake_extra_defines" else ', action="store_true"'
        )
        lines.append(f"    parser.add_argument({flag!r}{more})")
    return "\n".join([*lines, "    return parser", ""])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source tree."""
    root = tmp_path / "source"
    (root / "tools" / "ci_build").mkdir(parents=True)
    (root / "cmake").mkdir()
    (root / "tools" / "ci_build" / "build_args.py").write_text(build_args(USED_FLAGS))
    (root / "tools" / "ci_build" / "build.py").write_text(BUILD_SCRIPT)
    (root / "cmake" / "CMakeLists.txt").write_text('option(onnxruntime_BUILD_UNIT_TESTS "tests" ON)\n')
    (root / "VERSION_NUMBER").write_text("1.31.1\n")
    return root


@pytest.fixture
def request_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., BuildRequest]:
    """A machine with everything: the folders that a build needs, and an interpreter that only pretends to install."""
    for folder, file in (("trt/include", "NvInfer.h"), ("cuda/bin", "nvcc"), ("cudnn/include", "cudnn.h")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / file).write_text("")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("cmake", "ninja"):
        (tools / tool).write_text("#!/bin/sh\n")
        (tools / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    python = tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
[ "$1" = -P ] && shift
case "$1" in
  -m) echo "$@" >> {tmp_path}/pip; exit 0;;
  -c) if [ -e {tmp_path}/wrong ]; then echo "opened /usr/lib/libnvinfer.so.10" >&2; exit 1; fi; echo served;;
  *) exec {sys.executable} "$@";;
esac
"""
    )
    python.chmod(0o755)

    def make(**changes: object) -> BuildRequest:
        request = BuildRequest(
            architectures=("120",),
            jobs=3,
            tensorrt_home=tmp_path / "trt",
            cuda_home=tmp_path / "cuda",
            cudnn_home=tmp_path / "cudnn",
            build_dir=tmp_path / "build",
            python=python,
        )
        return replace(request, **changes)

    return make


def words(plan: BuildSteps, name: str) -> tuple[str, ...]:
    step = plan.step(name)  # type: ignore[arg-type]
    return step.words


def flags(plan: BuildSteps) -> set[str]:
    return {word for name in ("configure", "compile") for word in words(plan, name) if word.startswith("--")}


def test_every_flag_of_every_plan_is_in_the_recorded_list(
    request_for: Callable[..., BuildRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = set()
    for root in (0, 1000):
        monkeypatch.setattr(ort_build_steps.os, "geteuid", lambda root=root: root)
        for ccache in (None, "/usr/bin/ccache"):
            monkeypatch.setattr(ort_build_steps.shutil, "which", lambda name, c=ccache: c if name == "ccache" else name)
            for minimal in (False, True):
                used |= flags(prepare_steps(request_for(minimal_cuda=minimal)))
    assert used == set(USED_FLAGS)


def test_the_plan_builds_for_one_architecture_against_the_chosen_tensorrt(
    request_for: Callable[..., BuildRequest], tmp_path: Path
) -> None:
    plan = prepare_steps(request_for())
    command = words(plan, "compile")
    assert plan.missing == ()
    assert command[command.index("--tensorrt_home") + 1] == str(tmp_path / "trt")
    assert command[command.index("--parallel") + 1] == "3"
    assert "CMAKE_CUDA_ARCHITECTURES=120" in command
    assert "--enable_cuda_minimal_build" not in command
    minimal = prepare_steps(request_for(minimal_cuda=True, cudnn_home=None))
    assert "--enable_cuda_minimal_build" in words(minimal, "compile")
    assert "--cudnn_home" not in words(minimal, "compile")
    assert words(plan, "clone")[:5] == ("git", "clone", "--depth", "1", "--branch")


def test_what_is_missing_is_named_and_stops_the_build(
    request_for: Callable[..., BuildRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDNN_HOME", raising=False)
    monkeypatch.setattr(ort_build_steps, "driver_report", lambda: {"gpus": []})
    bare = request_for(tensorrt_home=tmp_path / "no", cuda_home=tmp_path / "no", cudnn_home=None, architectures=())
    told = " ".join(prepare_steps(bare).missing)
    for text in ("NvInfer" if "NvInfer" in told else "headers", "nvcc", "cuDNN", "--arch"):
        assert text in told
    with pytest.raises(ComponentMissing, match="The build cannot start"):
        build_ort(bare, lambda _: None)
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize(("gib", "minimal", "expected"), [(64, False, 8), (16, False, 3), (16, True, 8), (1, False, 1)])
def test_parallelism_follows_the_memory(
    monkeypatch: pytest.MonkeyPatch, gib: int, minimal: bool, expected: int
) -> None:
    monkeypatch.setattr(ort_build_steps, "available_bytes", lambda: gib * 2**30)
    monkeypatch.setattr(ort_build_steps, "available_processors", lambda: 8)
    assert ort_build_steps._jobs(minimal) == expected


def test_a_flag_or_a_definition_that_the_tree_does_not_know_is_refused(source: Path) -> None:
    assert known_flags(source) == set(USED_FLAGS)
    check_command(source, [*USED_FLAGS, "onnxruntime_BUILD_UNIT_TESTS=OFF", "CMAKE_CUDA_ARCHITECTURES=90"])
    with refused(UsageProblem):
        check_command(source, ["--use_tensorrt", "--use_tensorrt_11"])
    with refused(UsageProblem):
        check_command(source, ["onnxruntime_BUILD_TESTS=OFF"])
    with refused(UsageProblem):
        known_flags(source / "cmake")


def test_a_build_goes_on_where_it_stopped(
    request_for: Callable[..., BuildRequest], source: Path, tmp_path: Path
) -> None:
    request, said = request_for(source=source), []
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "out-of-memory").touch()
    with refused(ComponentMissing):
        build_ort(request, said.append)
    (tmp_path / "build" / "out-of-memory").unlink()
    wheel = build_ort(request, said.append)
    assert wheel.name.startswith("onnxruntime_gpu-1.31.1")
    # configured once; another command line configures anew
    assert (tmp_path / "build" / "calls").read_text().split() == ["update", "build", "build"]
    build_ort(request_for(source=source, jobs=1), said.append)
    assert (tmp_path / "build" / "calls").read_text().split()[3:] == ["update", "build"]
    pip = (tmp_path / "pip").read_text().splitlines()
    assert pip[0].endswith("uninstall --yes onnxruntime onnxruntime-gpu")
    assert pip[1].endswith(str(wheel))
    assert said[-1] == "served"


def test_a_wheel_that_opens_another_tensorrt_fails(
    request_for: Callable[..., BuildRequest], source: Path, tmp_path: Path
) -> None:
    (tmp_path / "wrong").touch()
    with refused(CheckFailed):
        build_ort(request_for(source=source), lambda _: None)


def test_a_tree_of_another_version_needs_a_word(request_for: Callable[..., BuildRequest], source: Path) -> None:
    (source / "VERSION_NUMBER").write_text("1.30.0\n")
    with refused(UsageProblem):
        build_ort(request_for(source=source), lambda _: None)
    build_ort(request_for(source=source, other_version=True, install=False), lambda _: None)


def test_the_tag_is_cloned_once(
    request_for: Callable[..., BuildRequest], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@t"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"], ["tag", "v1.31.1"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(ort_build_steps, "extern_root", lambda: tmp_path / "extern")
    request = request_for(git=source.as_uri(), install=False)
    build_ort(request, lambda _: None)
    clone = tmp_path / "extern" / "onnxruntime" / "v1.31.1"
    assert (clone / "tools" / "ci_build" / "build.py").is_file()
    (clone / "mark").touch()
    build_ort(request, lambda _: None)
    assert (clone / "mark").exists()
    assert [path.name for path in clone.parent.iterdir() if path.name.startswith(".")] == []


def test_dry_run_prints_every_command_and_does_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, str(root / "tasks" / "build-ort"), "--dry-run", "--arch", "90", "--build-dir"]
    out = subprocess.run([*command, str(tmp_path / "b")], capture_output=True, text=True, check=True).stdout
    for step in ("clone", "configure", "compile", "uninstall", "install", "check"):
        assert f"# {step}\n" in out
    assert "CMAKE_CUDA_ARCHITECTURES=90" in out
    out = subprocess.run([*command, str(tmp_path / "b"), "--json"], capture_output=True, text=True, check=True).stdout
    assert [entry["step"] for entry in json.loads(out)["commands"]][:2] == ["clone", "configure"]
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("architecture", ["foo", "12", "8.6", "50"])
def test_an_architecture_that_does_not_exist(architecture: str) -> None:
    with refused(UsageProblem):
        prepare_steps(BuildRequest(architectures=(architecture,)))


def test_a_folder_that_is_no_source_tree(tmp_path: Path) -> None:
    with refused(UsageProblem):
        prepare_steps(BuildRequest(source=tmp_path, architectures=("120", "90a")))


def test_an_interrupt_says_what_is_kept(
    request_for: Callable[..., BuildRequest], source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trt_workbench.setup.ort_build._run", interrupted)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        build_ort(request_for(source=source), lambda _: None)
    assert interrupt.value.__notes__ == [
        f"The clone and what is built are kept; the same command goes on from there: {source}"
    ]
