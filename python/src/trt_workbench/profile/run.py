"""`profile`: profile an engine or a model, compare it with another, record its kernels, write the run directory."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trt_workbench.backends.profiling import Operation, Side
from trt_workbench.backends.registry import AUTO, get_backend, require_backend
from trt_workbench.core.directory import RunDirectory, run_directory
from trt_workbench.core.documents import append_lines, write_json
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem, WorkbenchError, error_of
from trt_workbench.core.files import require_file
from trt_workbench.core.settings import with_flags
from trt_workbench.core.workers import NO_LIMIT_S, WorkerFailure, WorkerProcess, ended_how, python_command, run_to_end
from trt_workbench.model.sniff import PLAN_SUFFIXES
from trt_workbench.profile import ncu_raw, sources
from trt_workbench.profile.document import Kernel, ProfileLine
from trt_workbench.profile.launches import LayerIndex, read_nsys
from trt_workbench.profile.nsight import NCU, NSYS, Tool, find_tool, ncu_profile, nsys_profile
from trt_workbench.profile.settings import ProfileRequest
from trt_workbench.profile.sources import ProfiledSide, earlier_run
from trt_workbench.profile.workload import Workload

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


COMMAND = "profile"
_PRECISION = re.compile(r"(fp32|tf32|fp16|bf16|int8|fp8|int4|fp4|best)(\+(tf32|fp16|bf16|int8|fp8|int4|fp4))*")


def profile(
    request: ProfileRequest,
    output: Path | None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Profile and write a run directory: run.json, env.json, records.jsonl, captures/.

    Args:
        request: what is asked for.
        output: the folder; None for `tmp/profile/<run-id>/`.
        say: called with progress messages for the user.

    Returns:
        The run directory.

    Raises:
        UsageProblem: an argument, model or engine cannot be used.
        ComponentMissing: the backend, `nsys` or `ncu` is missing.
        DeviceFailure: the device failed.
    """
    if request.launches != ProfileRequest.launches and not request.ncu:
        raise UsageProblem("--launches applies to Nsight Compute; add --ncu, or leave it out.")
    if request.timeout_s != ProfileRequest.timeout_s and not request.tools:
        raise UsageProblem("--timeout applies to Nsight's recordings; add --nsys or --ncu, or leave it out.")
    for tool in (NSYS, NCU):
        if tool.command in request.tools:
            find_tool(tool)
    # before anything slow: a wrong argument must not cost a build
    work = _workload(request, request.target, request.precision, request.backend, say)
    other = _other(request, work)
    sides = [side for side in (work, other) if isinstance(side, Workload)]
    given = {"--trust": request.trust, "--allow-host-code": request.allow_host_code, "--device": request.device}
    flag = next((flag for flag, value in given.items() if value), None)
    if flag and not any(get_backend(side.backend).plans for side in sides):
        get_backend(sides[0].backend).device_option(request.device)
        raise UsageProblem(f"{flag} applies to TensorRT engines, and {sides[0].backend} has none; leave it out.")
    with run_directory(COMMAND, output) as directory:
        filling = _Filling(request, directory, say)
        filling.add(work, "target")
        if isinstance(other, Workload):
            filling.add(other, "against")
        elif other is not None:
            filling.keep(other, "against")
        return filling.commit()


class _Filling:
    """A run directory while it is filled."""

    def __init__(self, request: ProfileRequest, directory: RunDirectory, say: Callable[[str], None]) -> None:
        self._request, self._directory, self._say = request, directory, say
        self._records: list[ProfileLine] = []
        self._sides: dict[str, Any] = {}

    def add(self, work: Workload, side: Side) -> None:
        """Profile a workload and record its kernels."""
        self._say(f"Profiling {work.path.name} on {work.backend}.")
        folder = self._directory.path / "captures" / side
        folder.mkdir(parents=True)
        request = {"verb": "profiled", "work": work.model_dump(mode="json"), "side": side, "folder": folder}
        request |= {"model": self._request.model, "kernels": bool(self._request.tools)}
        with WorkerProcess(folder / "profile.log", sources.__name__) as worker:
            try:
                answer = worker.ask(request, NO_LIMIT_S)
            except WorkerFailure as failure:
                kind = RuntimeError if failure.alive else DeviceFailure
                raise failure.error or kind(f"{work.backend} failed: {failure}. File: {work.path}") from failure
        found = ProfiledSide.model_validate(answer)
        self.keep(found, side, self._kernels(found, side, folder))

    def keep(self, found: ProfiledSide, side: Side, kernels: list[Kernel] | None = None) -> None:
        """Add a profile to the records."""
        self._records += [*found.operations, *(kernels or [])]
        self._sides[side] = found.facts

    def commit(self) -> Path:
        """Write the files and move the directory to its place."""
        append_lines(self._directory.path / "records.jsonl", self._records)
        return self._directory.commit("complete", sides=self._sides, seed=self._request.seed)

    def _kernels(self, found: ProfiledSide, side: Side, folder: Path) -> list[Kernel]:
        if not self._request.tools or found.work is None:
            return []
        capture = Capture(found.work.model_dump(mode="json"), folder, self._request, self._say)
        kernels: list[Kernel] = []
        try:
            if self._request.nsys:
                kernels += capture.nsys(found.operations, side)
            if self._request.ncu:
                kernels += capture.ncu(found.operations, side)
        except WorkbenchError as error:
            raise type(error)(f"{error} The profilers' files are kept: {self._keep_captures(folder, side)}") from error
        found.facts["commands"] = capture.commands
        return kernels

    def _keep_captures(self, folder: Path, side: Side) -> Path:
        """Copy a side's captures next to the run directory, which a failure removes, and return where they are."""
        destination = self._directory.destination
        kept = destination.with_name(f"{destination.name}.captures") / side
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        return kept


def _workload(
    request: ProfileRequest, path: Path, precision: str, backend: str, say: Callable[[str], None] | None = None
) -> Workload:
    require_file("engine or model", path)
    serving = require_backend(backend, path.suffix, say)
    serving.check_precision(precision)
    if request.profile is not None and not serving.plans:
        raise UsageProblem(
            f"--profile chooses among a TensorRT engine's profiles; {serving.name} has none. Leave it out: {path}"
        )
    loading = {"trust": request.trust, "allow_host_code": request.allow_host_code, "device": request.device}
    return Workload(
        path=path.absolute(),
        backend=serving.name,
        precision=precision,
        options=with_flags(request.options, loading if serving.plans else {}),
        shapes=dict(request.shapes),
        seed=request.seed,
        warmup=request.warmup,
        iterations=request.iterations,
        profile=request.profile,
    )


def _other(request: ProfileRequest, work: Workload) -> Workload | ProfiledSide | None:
    """Return what the target is compared with."""
    if request.against is None:
        return None
    path = Path(request.against)
    if path.is_dir():
        return earlier_run(path)
    if path.is_file():
        return _workload(request, path, request.precision, AUTO if path.suffix in PLAN_SUFFIXES else work.backend)
    if _PRECISION.fullmatch(request.against) and work.path.suffix == ".onnx":
        return _workload(request, request.target, request.against, work.backend)
    raise UsageProblem(
        f"--against takes an engine, a model, the run directory of an earlier profile or, for a model, a precision "
        f"such as fp16; this is none: {request.against}"
    )
