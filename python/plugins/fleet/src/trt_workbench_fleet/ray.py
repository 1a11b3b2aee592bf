"""Ray: a program that hands tasks to a cluster that is there, each with the resources of one type of node."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from concurrent.futures import wait

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.launcher import package
from trt_workbench.core.workers import python_command
from trt_workbench_fleet.array import JobArray
from trt_workbench_fleet.scheduler import POLL_S, CommandPool, Watch, render

PROGRAM = "ray_job.py"
_NO_NODE = "No node of this Ray cluster has"


class Ray:
    """A Ray cluster, whose token and address Ray itself reads."""

    def files(self, array: JobArray) -> dict[str, str]:
        """Return the program."""
        ray = array.run.ray
        resources = {array.gpu_type: 1} if array.gpu_type else {}
        resources |= {ray.node_token: 1} if array.run.alone else {}
        return {PROGRAM: render("ray_job.py.j2", array=array, ray=ray, resources=resources)}

    def how(self, array: JobArray) -> list[str]:
        """Return the commands that run it."""
        return [f"python {array.folder / PROGRAM}"]

    def require(self, array: JobArray) -> None:
        """Check that Ray is installed and an address is known; the program checks the resources first of all."""
        if importlib.util.find_spec("ray") is None:
            raise ComponentMissing(f"Ray (80 MB) is not installed. {package('ray')}")
        if not (array.run.ray.address or os.environ.get("RAY_ADDRESS")):
            raise UsageProblem("Name the Ray cluster as ray.address in RUN.yaml, or in RAY_ADDRESS.")

    def run(self, array: JobArray, indices: Sequence[int], watch: Watch) -> None:
        """Run the program, which waits for its tasks."""
        log = array.logs / "ray_job.log"
        log.unlink(missing_ok=True)
        command = python_command(str(array.folder / PROGRAM), *map(str, indices))
        with CommandPool(1) as pool:
            running = pool.start(command, log)
            while wait([running], timeout=POLL_S).not_done:
                watch()
        said = log.read_text(encoding="utf-8", errors="replace")
        if running.result() and not any(f"shard {index} " in said for index in indices):
            _refuse(said, array)


def _refuse(said: str, array: JobArray) -> None:
    """Raise the error of a program that ended before its first task."""
    last = said.strip().splitlines()[-1] if said.strip() else "it said nothing"
    if last.startswith(_NO_NODE):
        raise UsageProblem(last)
    raise ComponentMissing(
        f"The Ray cluster took no task ({last.removesuffix('.')}). Check its address and, if it wants one, the token: "
        f"RAY_AUTH_MODE=token with RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH: {array.logs / 'ray_job.log'}"
    )
