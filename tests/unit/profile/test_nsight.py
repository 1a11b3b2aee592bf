"""Nsight's commands, where its tools are found, and recording a process with them."""

import json
import os
import sys
from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.backends.profiling import Operation
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench.profile.nsight import NCU, NSYS, Tool, find_tool, nsys_profile
from trt_workbench.profile.run import Capture
from trt_workbench.profile.settings import ProfileRequest

from .conftest import SAMPLES

# What stand in for ncu and nsys: they keep their arguments, run the program, and end as it does.
STAND_IN = f"""#!{sys.executable}
import argparse, json, pathlib, sqlite3, shutil, subprocess, sys
arguments = sys.argv[1:]
here = pathlib.Path(__file__)
here.with_name("arguments.json").write_text(json.dumps(arguments))
program = arguments[arguments.index({sys.executable!r}):]
own = arguments[:-len(program)]
"""
NCU_STAND_IN = f"""{STAND_IN}
code = subprocess.run(program).returncode
shutil.copy({str(SAMPLES / "ncu-raw.csv")!r}, own[own.index("--log-file") + 1])
sys.exit(code)
"""
# As 2022.4 and 2023.4 do: an unknown option ends it, a recording is there however the program ended, and tables alone
# where --export asks for them.
NSYS_STAND_IN = f"""{STAND_IN}
known = ("trace", "sample", "cpuctxsw", "cuda-graph-trace", "capture-range", "capture-range-end", "force-overwrite")
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("command", choices=["profile"])
for name in (*known, "export", "output"):
    parser.add_argument(f"--{{name}}", required=name == "output")
try:
    chosen = parser.parse_args(own)
except SystemExit:
    sys.exit(1)
code = subprocess.run(program).returncode
print("Generated:")
pathlib.Path(chosen.output + ".nsys-rep").touch()
if chosen.export == "sqlite":
    tables = pathlib.Path({str(SAMPLES / "nsys-2022.4.sql")!r}).read_text()
    sqlite3.connect(chosen.output + ".sqlite").executescript(tables)
sys.exit(code)
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH with executables in place of both tools."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("ncu", NCU_STAND_IN), ("nsys", NSYS_STAND_IN)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def replace(tool: Path, body: str) -> None:
    tool.write_text(f"#!{sys.executable}\nimport sys, time\n{body}\n")


def capture(
    tmp_path: Path, work: dict[str, object] | None = None, timeout_s: float = 60.0
) -> tuple[Capture, list[str]]:
    said: list[str] = []
    chosen = work or {"path": str(tmp_path / "absent.onnx"), "backend": "ort-cpu"}
    asked = ProfileRequest(tmp_path / "any.onnx", launches=7, timeout_s=timeout_s)
    return Capture(chosen, tmp_path / "captures", asked, said.append), said


@pytest.fixture
def quiet(tools: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recorded program does nothing and succeeds."""
    monkeypatch.setattr(Capture, "program", property(lambda _: [sys.executable, "-c", "pass"]))
    return tools


def test_nsys_records_between_start_and_stop_with_graphs_node_by_node(tmp_path: Path) -> None:
    command = nsys_profile(Path("nsys"), tmp_path / "out", ["python"])
    assert {"--capture-range=cudaProfilerApi", "--capture-range-end=stop", "--cuda-graph-trace=node"} <= set(command)
    assert command[1] == "profile"
    assert command[-1] == "python"


@pytest.mark.parametrize("tool", [NSYS, NCU])
def test_a_tool_that_is_missing_is_named_with_its_package(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    bare = Tool(tool.command, tool.title, tool.packages, (f"{tmp_path}/nothing/*",))
    if Path("/usr/local/cuda/bin", tool.command).exists():
        pytest.skip(f"{tool.command} is installed here, in CUDA's own folder")
    with refused(ComponentMissing):
        find_tool(bare)


def test_the_newest_installed_tool_outside_of_the_path_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in ("2024.1", "2025.3"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "no-such-tool").touch()
    tool = Tool("no-such-tool", "Nothing", "", (f"{tmp_path}/*/no-such-tool",))
    assert find_tool(tool) == tmp_path / "2025.3" / "no-such-tool"


def test_ncu_records_and_the_exact_command_is_told(quiet: Path, tmp_path: Path, fp16: list[Operation]) -> None:
    recording, said = capture(tmp_path)
    kernels = recording.ncu(fp16, "target")
    assert {kernel.layer for kernel in kernels} >= {"/conv1/Conv + /relu1/Relu"}
    arguments = json.loads((quiet / "arguments.json").read_text())
    assert said == recording.commands
    assert said[0].startswith(f"{quiet / 'ncu'} --clock-control none --profile-from-start off")
    assert arguments[-3:] == [sys.executable, "-c", "pass"]


@pytest.mark.usefixtures("quiet")
def test_nsys_records_and_its_recording_is_read(tmp_path: Path, fp16: list[Operation]) -> None:
    recording, said = capture(tmp_path)
    kernels = recording.nsys(fp16, "against")
    assert {kernel.side for kernel in kernels} == {"against"}
    assert sum(kernel.total_ms for kernel in kernels) == pytest.approx(0.104)
    assert len([kernel for kernel in kernels if kernel.layer]) == 4
    assert said == recording.commands
    assert {"nsys.log", "nsys.nsys-rep", "nsys.sqlite"} <= {path.name for path in (tmp_path / "captures").iterdir()}


@pytest.mark.usefixtures("tools")
def test_what_fails_in_the_recorded_process_is_told_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "run.json").touch()  # all that lies in a run directory is replaced
    with refused(UsageProblem):
        capture(tmp_path)[0].ncu([], "target")
    with refused(UsageProblem):
        capture(tmp_path)[0].nsys([], "target")


@pytest.mark.parametrize(
    "body",
    [
        "print('==ERROR== ERR_NVGPUCTRPERM'); sys.exit(1)",
        "print('==ERROR== broken'); sys.exit(3)",
        "sys.exit(9)",
    ],
)
def test_a_tool_that_fails_is_told(quiet: Path, body: str, tmp_path: Path) -> None:
    replace(quiet / "ncu", body)
    with refused(ComponentMissing):
        capture(tmp_path)[0].ncu([], "target")


def test_a_tool_that_hangs_is_stopped_with_its_children(quiet: Path, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    child = f"import time, pathlib; time.sleep(4); pathlib.Path({str(alive)!r}).touch()"
    replace(quiet / "ncu", f"import subprocess; subprocess.run([sys.executable, '-c', {child!r}])")
    with refused(DeviceFailure):
        capture(tmp_path, timeout_s=0.5)[0].ncu([], "target")
    assert not alive.exists()


def test_nsys_without_a_recording_is_told(quiet: Path, tmp_path: Path) -> None:
    """As where the program never came to the region that is recorded, or nsys lacks a library of its own."""
    replace(quiet / "nsys", "print('Generated:')")
    with refused(ComponentMissing):
        capture(tmp_path)[0].nsys([], "target")
