"""Virtual environments under tmp/venvs/: made once, made again when their requirements change, never used half-made."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from taskrunner.constraints import constraints_file
from taskrunner.errors import ComponentMissing
from taskrunner.manifest import Environment
from taskrunner.requirements import PipCall, check_python, conda_only, local_projects, pip_calls

_STAMP = "taskrunner.json"


def ensure(environment: Environment, root: Path) -> Path:
    """Return the folder of the environment's virtual environment, made or brought up to date first where needed.

    Raises:
        ComponentMissing: it could not be made.
        UsageProblem: this Python does not fit.
    """
    check_python(environment, sys.version_info[:3])
    folder = root / "tmp" / "venvs" / environment.name
    calls = pip_calls(environment, root)
    constraints = constraints_file(environment, root, sys.version_info[:2])
    wanted = _fingerprint(environment, calls, root, constraints)
    if _stamp(folder) == wanted:
        return folder
    with _locked(folder):
        if _stamp(folder) != wanted:  # another run may have made it meanwhile
            _make(environment, folder, calls, constraints)
            _write_stamp(folder, wanted)
    return folder


def _fingerprint(environment: Environment, calls: list[PipCall], root: Path, constraints: Path | None) -> str:
    """Hash everything that decides what is in the environment, its place and its Python among them."""
    parts = [
        str(root.resolve()),
        [sys.version_info[0], sys.version_info[1], sys.base_prefix],
        [call.arguments for call in calls],
        local_projects(environment, root),
        constraints.read_text(encoding="utf-8") if constraints else None,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _stamp(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / _STAMP).read_text(encoding="utf-8"))["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_stamp(folder: Path, fingerprint: str) -> None:
    partial = folder / f"{_STAMP}.partial"
    partial.write_text(json.dumps({"fingerprint": fingerprint}) + "\n", encoding="utf-8")
    partial.replace(folder / _STAMP)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting for another run that sets up environment {folder.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(environment: Environment, folder: Path, calls: list[PipCall], constraints: Path | None) -> None:
    started = time.monotonic()
    log_path = folder.with_name(f"{folder.name}.log")
    tell(f"setting up environment {environment.name} (once) …")
    if missing := conda_only(environment):
        tell(
            f"conda-only packages of environment {environment.name} are not installed: {', '.join(missing)}. "
            "This machine's own are used where it has them; pixi would bring them."
        )
    if folder.exists():
        shutil.rmtree(folder)  # half-made, or out of date
    with log_path.open("w", encoding="utf-8") as log:
        # -P: with -m alone, a module in the current folder would come first
        make = [sys.executable, "-P", "-m", "venv", str(folder)]
        _step(make, log, "apt-get install python3-venv, on Debian and Ubuntu")
        pip = [
            str(folder / "bin" / "python"),
            "-P",
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
        ]
        pinned = ["--constraint", str(constraints)] if constraints else []
        for call in calls:
            _step([*pip, *pinned, *call.arguments], log, "see the log, then run the same command again")
    tell(f"environment {environment.name} is ready after {time.monotonic() - started:.0f} s")


def _step(command: list[str], log: TextIO, mend: str) -> None:
    """Run one step with all its output in the log, where stdout cannot suffer from it."""
    log.write(f"$ {' '.join(command)}\n")
    log.flush()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        last = Path(log.name).read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
        tail = "".join(f"\n  {line}" for line in last)
        msg = f"Setting up the environment failed ({mend}):{tail}\n{os.path.relpath(log.name)}"
        raise ComponentMissing(msg)


def tell(line: str) -> None:
    """Say something about the run itself; stdout belongs to the task alone."""
    print(f"tasks/run: {line}", file=sys.stderr, flush=True)
