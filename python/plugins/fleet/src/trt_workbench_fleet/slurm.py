"""Slurm: an array of tasks, by `sbatch` and `squeue`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench_fleet.array import JobArray
from trt_workbench_fleet.scheduler import Watch, ask, no_such_gpu, poll, render, require_tool

SCRIPT = "shards.sbatch"
_SUBMITTED = "submitted.json"
# What squeue says of a job that has left its memory.
_FORGOTTEN = "Invalid job id"


class SlurmJob(Strict):
    """submitted.json: the array that runs, so that the same command waits for it and submits nothing twice."""

    job: str


class Slurm:
    """Slurm, reached from a machine that has its tools."""

    def files(self, array: JobArray) -> dict[str, str]:
        """Return the script for sbatch."""
        slurm = array.run.slurm
        options = {
            "partition": slurm.partition, "account": slurm.account, "qos": slurm.qos, "time": slurm.time,
            "cpus-per-task": slurm.cpus, "mem": slurm.memory, "constraint": slurm.constraint,
        }  # fmt: skip
        return {SCRIPT: render("shards.sbatch.j2", array=array, slurm=slurm, options=options)}

    def how(self, array: JobArray) -> list[str]:
        """Return the commands that run it."""
        return [f"sbatch {array.folder / SCRIPT}"]

    def require(self, array: JobArray) -> None:
        """Check that sbatch is here, and that nodes have the GPU type and the features."""
        require_tool("sbatch", "Slurm", "on a login node")
        nodes = [line.split("|") for line in ask(["sinfo", "--noheader", "-N", "-o", "%N|%G|%f"], "Slurm").splitlines()]
        if array.gpu_type:
            known = sorted({name for _, gres, _ in nodes for name in re.findall(r"gpu:([\w.-]+):\d", gres)})
            if array.gpu_type not in known:
                raise no_such_gpu(f"with a GPU of type {array.gpu_type}", known)

    def run(self, array: JobArray, indices: Sequence[int], watch: Watch) -> None:
        """Submit the tasks, unless an earlier command did and they still run, and wait."""
        job = self._running(array)
        if job is None:
            chosen = ",".join(map(str, indices))
            throttle = f"%{array.run.slurm.at_once}" if array.run.slurm.at_once else ""
            command = ["sbatch", "--parsable", f"--array={chosen}{throttle}", *_without_unfit(array)]
            command.append(str(array.folder / SCRIPT))
            job = ask(command, "sbatch").strip().split(";")[0]
            write_json(array.folder / _SUBMITTED, SlurmJob(job=job), over=lambda file: read_document(file, SlurmJob))
        again = f"The same command waits for job {job} again; `scancel {job}` ends it."
        poll(lambda: not _tasks(job), watch, again)

    def _running(self, array: JobArray) -> str | None:
        try:
            job = read_document(array.folder / _SUBMITTED, SlurmJob).job
            return job if _tasks(job) else None
        except UsageProblem:
            return None


def _without_unfit(array: JobArray) -> list[str]:
    """Return the option that leaves out nodes which failed their check: they fail at once, and so take many tasks."""
    if not array.unfit.exists():
        return []
    nodes = sorted({*array.unfit.read_text(encoding="utf-8").split()})
    return [f"--exclude={','.join(nodes)}"]


def _tasks(job: str) -> list[str]:
    """Return the tasks of a job that are not over."""
    try:
        return ask(["squeue", "--noheader", f"--jobs={job}", "-o", "%i"], "squeue").split()
    except ComponentMissing as error:
        if _FORGOTTEN in str(error):
            return []
        raise
