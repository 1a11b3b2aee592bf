"""NVIDIA's profilers: where they are, and the exact commands that record only the timed region."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.profile.ncu_raw import METRICS


@dataclass(frozen=True)
class Tool:
    """A profiler's command line.

    Attributes:
        command: name of its executable.
        title: NVIDIA's name of it.
        packages: that bring it, for the message.
        places: glob patterns where installers put it outside the PATH.
    """

    command: str
    title: str
    packages: str
    places: tuple[str, ...]


NSYS = Tool(
    "nsys",
    "Nsight Systems",
    "`nsight-systems-cli` from NVIDIA's apt repository, or the archive from "
    "https://developer.nvidia.com/nsight-systems/get-started",
    ("/opt/nvidia/nsight-systems*/*/bin/nsys", "/opt/nvidia/nsight-systems*/*/target-linux-x64/nsys"),
)
NCU = Tool(
    "ncu",
    "Nsight Compute",
    "`nsight-compute` from conda-forge, or `cuda-nsight-compute-13-0` from NVIDIA's apt repository",
    ("/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/nsight-compute*/ncu"),
)


def find_tool(tool: Tool) -> Path:
    """Return the path of a profiler's executable, the newest of several outside the PATH.

    Raises:
        ComponentMissing: it is not installed; the message names the package.
    """
    cuda_folders = [str(Path(home) / "bin") for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if home]
    search = os.pathsep.join([os.environ.get("PATH", ""), *cuda_folders])
    if found := shutil.which(tool.command, path=search):
        return Path(found)
    for pattern in tool.places:
        if installed := sorted(Path("/").glob(pattern.lstrip("/"))):
            return installed[-1]
    raise ComponentMissing(
        f"{tool.title} ({tool.command}), which records the kernels, is not installed. Install {tool.packages}."
    )


def nsys_profile(nsys: Path, output: Path, program: Sequence[str]) -> list[str]:
    """Return the command that records `program` between cudaProfilerStart and -Stop, and exports it as SQLite.

    Nodes of CUDA graphs are traced one by one: as whole graphs their kernels would be missing.

    Args:
        nsys: the executable.
        output: of the report, without suffix.
        program: command line of what is recorded.
    """
    return [
        str(nsys), "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=node",
        "--capture-range=cudaProfilerApi", "--capture-range-end=stop", "--force-overwrite=true", "--export=sqlite",
        f"--output={output}", *program,
    ]  # fmt: skip


def ncu_profile(ncu: Path, log: Path, launches: int, program: Sequence[str]) -> list[str]:
    """Return the command that measures the first launches between cudaProfilerStart and -Stop.

    Clocks stay as they are: locking them to the base clock, ncu's default, would give unrealistic times.

    Args:
        ncu: the executable.
        log: file for the table.
        launches: most kernels to measure; each is replayed several times.
        program: command line of what is recorded.
    """
    return [
        str(ncu), "--clock-control", "none", "--profile-from-start", "off", "--target-processes", "all", "--nvtx",
        "--metrics", ",".join(METRICS), "--launch-count", str(launches), "--csv", "--page", "raw",
        "--print-units", "base", "--log-file", str(log), *program,
    ]  # fmt: skip
