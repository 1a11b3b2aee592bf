"""This machine: the tasks as processes, a few at one time."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from concurrent.futures import wait

from trt_workbench_fleet.array import JobArray
from trt_workbench_fleet.scheduler import POLL_S, CommandPool, Watch, render

SCRIPT = "shards.sh"


class Local:
    """No scheduler: a pool of processes."""

    def files(self, array: JobArray) -> dict[str, str]:
        """Return a script that does the same without us."""
        return {SCRIPT: render("shards.sh.j2", array=array, at_once=array.run.local.at_once)}

    def how(self, array: JobArray) -> list[str]:
        """Return the commands that run it."""
        return [f"bash {array.folder / SCRIPT}"]

    def require(self, array: JobArray) -> None:
        """Nothing is needed."""

    def run(self, array: JobArray, indices: Sequence[int], watch: Watch) -> None:
        """Run the tasks; what they print is in a log each."""
        with CommandPool(array.run.local.at_once) as pool:
            tasks = [pool.start(_command(array, index), array.logs / f"{index}.log") for index in indices]
            while wait(tasks, timeout=POLL_S).not_done:
                watch()


def _command(array: JobArray, index: int) -> list[str]:
    lines = [*array.run.setup, shlex.join(array.check), f"exec {shlex.join(array.task(index))}"]
    return ["bash", "-euc", "\n".join(lines)]
