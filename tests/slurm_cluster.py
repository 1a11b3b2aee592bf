"""A Slurm cluster of one controller and two nodes, all on this machine, and runs that are disturbed on it.

Nothing outside its folder is read or written, and only its own processes are ended. The nodes have one processor each.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

TOOLS = ("munged", "slurmctld", "slurmd", "sbatch")
NODES, CARDS = ("n1", "n2"), ("h200", "l4")
TRTW = [sys.executable, "-c", "import sys; sys.argv[0] = 'trtw'; from trt_workbench.main import main; main()"]
"""A command line of the package under test."""
_CONFIGURATION = """
ClusterName=trtw
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
MinJobAge=60
SlurmdTimeout=10
KillWait=2
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=1000 Gres=gpu:h200:1
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=1000 Gres=gpu:l4:1
PartitionName=main Nodes=n1,n2 Default=YES State=UP
"""


def lacking() -> str:
    """Return which program of Slurm is absent, if any."""
    return next((name for name in TOOLS if shutil.which(name) is None), "")


class SlurmCluster:
    """The cluster; a context manager that ends what it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._own: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> SlurmCluster:
        try:
            self._begin()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.ask("scancel", "--full", f"--user={getpass.getuser()}", check=False)
        self._end()

    def _begin(self) -> None:
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        conf = self.folder / "slurm.conf"
        values = {"ports": _free_ports(3), "folder": self.folder, "user": getpass.getuser()}
        conf.write_text(_CONFIGURATION.format(host=socket.gethostname(), **values))
        cards = "".join(
            f"NodeName={node} Name=gpu Type={card} File=/dev/null\n" for node, card in zip(NODES, CARDS, strict=True)
        )
        (self.folder / "gres.conf").write_text(cards)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        places = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        self._start("munged", "-F", "--force", *(f"--{name}={self.folder / file}" for name, file in places.items()))
        self._wait(lambda: (self.folder / "munge.sock").exists())
        self._start("slurmctld", "-D", "-f", str(conf))
        for node in NODES:
            self._start("slurmd", "-D", "-N", node, "-f", str(conf))
        self._wait(lambda: self.ask("sinfo", "-h", "-N", "-o", "%T", check=False).split() == ["idle", "idle"])

    def _end(self) -> None:
        for process in reversed(self._own):
            process.terminate()
        for process in self._own:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ask(self, *command: str, check: bool = True) -> str:
        """Return what a tool of Slurm prints."""
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=check, timeout=60)
        return ended.stdout

    def drain(self, node: str) -> None:
        """Let a node finish its task and take no other."""
        self.ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")

    def resume(self, node: str) -> None:
        """Let a drained node take tasks again."""
        self.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def _start(self, *command: str) -> None:
        with (self.folder / f"{Path(command[0]).name}.log").open("ab") as log:
            self._own.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def _wait(self, ready: Any) -> None:
        ending = time.monotonic() + 60
        while not ready():
            assert time.monotonic() < ending, "the cluster does not start"
            time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@dataclass
class Disturbances:
    """What is done to a run at random moments: a node drained, and resumed; the process of a task killed."""

    cluster: SlurmCluster
    folder: Path
    draw: random.Random
    within_s: float
    done: list[dict[str, Any]]

    def run(self) -> None:
        """Do both, in the order of their moments."""
        began = time.monotonic()
        moments = sorted((self.draw.uniform(0.5, self.within_s), what) for what in (self._drain, self._kill))
        for moment, what in moments:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            self.done.append({"after_s": round(time.monotonic() - began, 2), **what()})
        for node in NODES:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.cluster.resume(node)

    def _drain(self) -> dict[str, Any]:
        node = self.draw.choice(NODES)
        self.cluster.drain(node)
        return {"drained": node}

    def _kill(self) -> dict[str, Any]:
        """Kill the process of a task, the next one that there is."""
        ending = time.monotonic() + 60
        while time.monotonic() < ending:
            if found := list(self._tasks()):
                shard, process = self.draw.choice(found)
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
                    return {"killed": shard}
            time.sleep(0.1)
        return {"killed": None}

    def _tasks(self) -> Iterator[tuple[int, psutil.Process]]:
        for shard, process in tasks_in(self.folder):
            if not (self.folder / f"shard-{shard}").exists():
                yield shard, process


def disturbed_run(cluster: SlurmCluster, file: Path, folder: Path, seed: int, within_s: float = 20) -> dict[str, Any]:
    """Run `submit FILE --to slurm --run` while a node is drained and a task killed; return what happened.

    Args:
        cluster: that runs.
        file: RUN.yaml.
        folder: its shared folder.
        seed: of the moments.
        within_s: of the start.
    """
    events = Disturbances(cluster, folder, random.Random(seed), within_s, [])
    began = time.monotonic()
    thread = threading.Thread(target=events.run)
    thread.start()
    command = [*TRTW, "submit", str(file), "--to", "slurm", "--run", "--json"]
    ended = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=False, timeout=550)
    seconds = time.monotonic() - began
    thread.join()
    return {
        "seed": seed,
        "exit_code": ended.returncode,
        "stderr": [line for line in ended.stderr.splitlines() if "again" in line or "error" in line],
        "events": events.done,
        "arrays": json.loads((folder / "submitted.json").read_text())["job"],
        **completions(folder),
        "seconds": round(seconds, 1),
    }


def completions(folder: Path) -> dict[str, list[int]]:
    """Return how often each shard was begun and completed, by the logs of its tasks."""
    logs = sorted((folder / "logs").glob("[0-9]*.log"), key=lambda log: int(log.stem))
    texts = [log.read_text(errors="replace") for log in logs]
    return {
        "starts": [text.count("Backend: ") for text in texts],
        "completed": [text.count(" is done: ") for text in texts],
    }


def tasks_in(folder: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Yield the processes that work on shards of a folder, without those that they have just forked."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words, parent = process.cmdline(), process.parent()
            mine = "--shard" in words and any(word.startswith(f"{folder}/shard-") for word in words)
            if mine and parent and parent.cmdline() != words:
                yield int(words[words.index("--shard") + 1].split("/")[0]), process
