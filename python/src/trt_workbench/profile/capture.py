"""Recording the timed region with Nsight Systems or Nsight Compute, in a process of its own."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trt_workbench.backends.profiling import Operation, Side
from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, error_of
from trt_workbench.core.workers import ended_how, python_command, run_to_end
from trt_workbench.profile import ncu_raw
from trt_workbench.profile.document import Kernel
from trt_workbench.profile.launches import LayerIndex, read_nsys
from trt_workbench.profile.nsight import NCU, NSYS, Tool, find_tool, ncu_profile, nsys_profile
from trt_workbench.profile.settings import ProfileRequest

MODULE = "trt_workbench.profile.target"
# Why a profiler may not see the device's counters: driver's setting, or a container without the capability.
_FORBIDDEN = "ERR_NVGPUCTRPERM"


class Capture:
    """Records one workload."""

    def __init__(
        self, work: Mapping[str, Any], folder: Path, asked: ProfileRequest, say: Callable[[str], None]
    ) -> None:
        """Write the workload into `folder`, where the recordings go too.

        Args:
            work: what `trt_workbench.profile.target` is to run, as JSON values.
            folder: made if it is absent.
            asked: how many launches to measure, and when to stop a profiler.
            say: called with each exact command.
        """
        self._folder, self._asked, self._say = folder, asked, say
        self._request, self._failure = folder / "request.json", folder / "failure.json"
        folder.mkdir(parents=True, exist_ok=True)
        write_json(self._request, {**work, "failure": str(self._failure)})
        self.commands: list[str] = []

    @property
    def program(self) -> list[str]:
        """The command line that is recorded."""
        return python_command("-m", MODULE, str(self._request))

    def nsys(self, operations: Sequence[Operation], side: Side) -> list[Kernel]:
        """Record with Nsight Systems and return the kernels. Raises as `ncu`."""
        output = self._folder / "nsys"
        self._run(NSYS, nsys_profile(find_tool(NSYS), output, self.program))
        recording = output.with_suffix(".sqlite")
        if not recording.is_file():
            raise ComponentMissing("Nsight Systems wrote no recording; its output is in nsys.log.")
        return read_nsys(recording, LayerIndex(operations), side)

    def ncu(self, operations: Sequence[Operation], side: Side) -> list[Kernel]:
        """Record with Nsight Compute and return the kernels.

        Raises:
            ComponentMissing: the profiler is not installed, or may not read the device's counters.
            UsageProblem: it recorded no kernel, printed what cannot be read, or the workload is wrong.
            DeviceFailure: the device failed, or the time is over.
        """
        log = self._folder / "ncu.csv"
        self._run(NCU, ncu_profile(find_tool(NCU), log, self._asked.launches, self.program), log)
        return ncu_raw.read_kernels(log.read_text(encoding="utf-8", errors="replace"), LayerIndex(operations), side)

    def _run(self, tool: Tool, command: list[str], log: Path | None = None) -> None:
        """Run a command and keep what it prints as `TOOL.log`."""
        text = shlex.join(command)
        self.commands.append(text)
        self._say(text)
        # digits without separators of thousands, whatever the user's language
        ended = run_to_end(command, self._asked.timeout_s, {**os.environ, "LC_ALL": "C"})
        if ended.code is None:
            raise DeviceFailure(f"{tool.title} was stopped after {self._asked.timeout_s:g} s (--timeout): {text}")
        printed = ended.stdout + ended.stderr
        (self._folder / f"{tool.command}.log").write_text(printed, encoding="utf-8")
        printed_and_logged = printed + (
            log.read_text(encoding="utf-8", errors="replace") if log and log.is_file() else ""
        )
        if self._failure.is_file():  # of the recorded process
            failure = json.loads(self._failure.read_text(encoding="utf-8"))
            raise error_of(failure) or DeviceFailure(failure["error"])
        if _FORBIDDEN in printed_and_logged:
            raise ComponentMissing(
                f"{tool.title} is not permitted to read the GPU's counters ({_FORBIDDEN}); run as root, load the "
                "driver with NVreg_RestrictProfilingToAdminUsers=0, or give the container the capability SYS_ADMIN."
            )
        if ended.code:
            last = next(
                (line.strip() for line in reversed(printed_and_logged.splitlines()) if line.strip()),
                "it printed nothing",
            )
            how = ended_how(ended.code)
            raise ComponentMissing(f"{tool.title} {how}: {last[:300].removesuffix('.')}. The command was: {text}")
