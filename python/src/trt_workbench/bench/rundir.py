"""The run directory: everything one command makes, staged beside its final place and moved there when it is whole."""

from __future__ import annotations

import datetime
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import filelock

from trt_workbench.engine.files import write_json
from trt_workbench.errors import UsageProblem
from trt_workbench.system.environment import collect_environment
from trt_workbench.system.input_files import read_json
from trt_workbench.system.workspace import output_root

SCHEMA_VERSION = 1
Status = Literal["complete", "partial"]
_LOCK = ".lock"
_STAGING = re.compile(r"\.(?P<name>.+)\.\d{8}T\d{6}Z-[0-9a-f]{6}\.staging")


class RunDirectory:
    """A run directory while it is being filled.

    Attributes:
        path: where files are put now (a staging folder beside `destination`).
        destination: where they will be found.
        document: what `run.json` says of every run: schema version, command, run id, start.
    """

    def __init__(self, command: str, destination: Path | None = None) -> None:
        """Make the staging folder and write `env.json` into it.

        Args:
            command: the command's name, such as "eval-coco".
            destination: the folder the user asked for; None for `tmp/<command>/<run-id>/`.

        Raises:
            UsageProblem: the folder cannot be made, written, is not a folder, or holds something other than a run of
                this command.
        """
        now = datetime.datetime.now(datetime.UTC)
        self.run_id = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        self.destination = (destination or output_root() / command / self.run_id).absolute()
        self.document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "command": command,
            "run_id": self.run_id,
            "started_at": now.isoformat(timespec="seconds"),
        }
        if self.destination.exists() and not self.destination.is_dir():
            msg = f"The output folder is a file; choose another with --output: {self.destination}"
            raise UsageProblem(msg)
        if _holds_other_things(self.destination):
            msg = (
                "The output folder holds other files, of which a run could replace some; choose a new or an empty one "
                f"with --output: {self.destination}"
            )
            raise UsageProblem(msg)
        earlier = _command_of(self.destination)
        if earlier not in (None, command):
            msg = (
                f"The output folder holds a run of {earlier}, whose files would be mixed with those of {command}; "
                f"choose another with --output: {self.destination}"
            )
            raise UsageProblem(msg)
        self.path = self.destination.parent / f".{self.destination.name}.{self.run_id}.staging"
        # tells a run that goes on from one that was killed; the system gives the lock back with the process
        self._lock = filelock.FileLock(self.path / _LOCK)
        try:
            self.path.mkdir(parents=True)
            self._lock.acquire()
            write_json(self.path / "env.json", collect_environment(sys.argv))
        except OSError as error:
            self.discard()
            msg = f"The output folder cannot be written ({error.strerror}): {self.destination}"
            raise UsageProblem(msg) from error

    def commit(self, status: Status, **facts: Any) -> Path:
        """Write `run.json` and move everything to `destination`; files of the same name there are replaced.

        Args:
            status: "complete", or "partial" for a run that was interrupted.
            facts: further JSON values for `run.json`.

        Returns:
            The destination.
        """
        ended = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        write_json(self.path / "run.json", {**self.document, "ended_at": ended, "status": status, **facts})
        self._unlock()
        if not self.destination.exists():
            self.path.rename(self.destination)
            return self.destination
        # run.json goes last: a folder without a fresh one holds no finished run.
        for entry in sorted(self.path.iterdir(), key=lambda item: item.name == "run.json"):
            _replace(entry, self.destination / entry.name)
        self.path.rmdir()
        return self.destination

    def discard(self) -> None:
        """Remove the staging folder and whatever it holds."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()

    def _unlock(self) -> None:
        self._lock.release()
        (self.path / _LOCK).unlink(missing_ok=True)


@contextmanager
def run_directory(command: str, destination: Path | None = None) -> Iterator[RunDirectory]:
    """Yield a run directory that is removed if the block fails before `commit`.

    Raises:
        UsageProblem: the folder cannot be written.
    """
    directory = RunDirectory(command, destination)
    try:
        yield directory
    finally:
        directory.discard()


def destination_of(folder: Path) -> Path:
    """Return where a staging folder, which a run that was killed leaves, was to go; any other folder as it is."""
    found = _STAGING.fullmatch(folder.absolute().name)
    return folder.absolute().with_name(found["name"]) if found else folder


@contextmanager
def taken_over(folder: Path) -> Iterator[None]:
    """Go on with a run, alone: the staging folder that a killed one left is locked; a finished run needs no lock.

    Raises:
        UsageProblem: the process that fills the staging folder is alive, or another one goes on with it.
    """
    if destination_of(folder) == folder:
        yield
        return
    try:
        held = filelock.FileLock(folder / _LOCK).acquire(timeout=0)
    except filelock.Timeout:
        msg = f"Another process is still writing this run or goes on with it; wait for its end, or end it: {folder}"
        raise UsageProblem(msg) from None
    with held:
        yield


def _holds_other_things(folder: Path) -> bool:
    return folder.is_dir() and not (folder / "run.json").is_file() and any(folder.iterdir())


def _command_of(folder: Path) -> str | None:
    """Return the command whose run a folder holds; None for no run, or one that cannot be read."""
    try:
        document = read_json(folder / "run.json")
    except (OSError, ValueError):
        return None
    return document.get("command") if isinstance(document, dict) else None


def _replace(source: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    source.replace(target)
