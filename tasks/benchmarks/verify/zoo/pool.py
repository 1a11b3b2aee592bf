"""Jobs on several processes: one that crashes, hangs or is killed becomes a record, and the others go on."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zoo.jobs import NOT_RUN, SCHEMA_VERSION, Job
from zoo.table import entries

SCRIPT = Path(__file__).resolve().parents[1] / "measure.py"
_TO_END_S = 20.0  # for jobs that run when the time is over


class Worker:
    """A process that takes one job after the other; started when there is one."""

    def __init__(
        self,
        work: Path,
        processors: Sequence[int],
        environment: Mapping[str, str],
        log: Path,
        words: Sequence[str] = (),
    ) -> None:
        """Take the folder of models, processors, environment and log of the process, and more words of its command."""
        self._processors, self._log = set(processors), log
        self._command = [sys.executable, str(SCRIPT), "worker", "--work", str(work), *words]
        threads = {"OMP_NUM_THREADS": str(len(self._processors)), "PYTHONFAULTHANDLER": "1"}
        self._environment = {**os.environ, **environment, **threads, "TRTW_TMP": str(work / "tmp")}
        self._process: subprocess.Popen[str] | None = None

    def ask(self, job: Job, seconds: float) -> dict[str, Any] | None:
        """Return the record of a job; None if it took longer than `seconds`. A crash is a record."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        too_long = threading.Event()

        def kill() -> None:
            too_long.set()
            process.kill()

        timer = threading.Timer(seconds, kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(asdict(job)) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        finally:
            timer.cancel()
        if answer:
            found: dict[str, Any] = json.loads(answer)
            return found
        code = process.wait()
        self._close()
        return None if too_long.is_set() else _lost(job, f"the process ended with exit code {code}")

    def end(self) -> None:
        """Let the process end."""
        if self._process:
            timer = threading.Timer(_TO_END_S, self._process.kill)
            timer.start()
            self._close()
            timer.cancel()

    def _close(self) -> None:
        """Close the pipes, which ends the process, and wait for it."""
        ending, self._process = self._process, None
        assert ending is not None
        with contextlib.suppress(BrokenPipeError), ending:
            pass

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            with self._log.open("a", encoding="utf-8") as log:
                # the affinity is this thread's, and so that of what it starts
                os.sched_setaffinity(0, self._processors)
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                    env=self._environment, text=True,
                )  # fmt: skip
        return self._process


def work_through(
    jobs: Sequence[Job],
    workers: Sequence[Worker],
    record: Callable[[dict[str, Any]], None],
    *,
    seconds: float,
    limit_s: float,
) -> int:
    """Run jobs, the first ones first, and return how many are left.

    Args:
        jobs: what to run.
        workers: the processes.
        record: called with every record at once, by one thread at a time.
        seconds: no job is started after them; those that run are killed soon after, without a record.
        limit_s: of one job; one that takes longer is recorded as not run.
    """
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    end = time.monotonic() + seconds
    lock, done = threading.Lock(), []

    def take(worker: Worker) -> None:
        while (left := end - time.monotonic()) > 0:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            allowed = min(limit_s, left + _TO_END_S)
            found = worker.ask(job, allowed)
            if found is None and allowed == limit_s:
                found = _lost(job, f"it took longer than {limit_s:.0f} s")
            if found is not None:
                with lock:
                    record(found)
                    done.append(job)
        worker.end()

    threads = [threading.Thread(target=take, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(jobs) - len(done)


def shares(jobs: int) -> list[list[int]]:
    """Return the processors of each of so many processes."""
    processors = sorted(os.sched_getaffinity(0))
    return [processors[place::jobs] or [processors[place % len(processors)]] for place in range(jobs)]


def _lost(job: Job, reason: str) -> dict[str, Any]:
    group = next(entry.group for entry in entries() if entry.name == job.model)
    found = {"schema_version": SCHEMA_VERSION, **asdict(job), "group": group, "words": []}
    return {**found, "verdict": NOT_RUN, "reason": reason}
