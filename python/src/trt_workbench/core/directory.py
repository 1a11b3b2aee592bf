"""The run directory: everything one command makes, staged beside its final place and moved there when it is whole."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import REPLACED, NameLock, replace_folder
from trt_workbench.core.interruptible import deferred_interrupts
from trt_workbench.core.workspace import output_root

if TYPE_CHECKING:
    from trt_workbench.core.artefacts import Part, Status

ARTEFACTS: Final = frozenset(
    {
        "after", "availability.log", "before", "bisect", "builds.json", "captures", "check-target.json", "check.json",
        "config.json", "confusion.json", "curves.json", "decision.json", "detections.jsonl", "dota", "env.json",
        "failures", "fix", "found.npz", "gate.json", "junit.xml", "latency", "layers.json", "logs", "metrics.json",
        "outputs", "part", "partitions.json", "pictures", "plots", "predict.json", "predictions.json",
        "records.jsonl", "reference", "report.html", "report.md", "run.json", "samples", "score", "scores",
        "search.json", "sensitivity.json", "shard.json", "shards.json", "summary.md", "transcripts.jsonl",
        "upgrade.json", "verify", "verify.json", "work.json",
    }
)  # fmt: skip
"""Every name that a command gives to something in its run directory; what has another name there is the user's."""

_RUN_ID = r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}"
_STAGING = re.compile(rf"\.(?P<name>.+)\.(?P<id>{_RUN_ID})\.staging({re.escape(REPLACED)})?", re.DOTALL)
# The run directory that this process has finished last.
_finished: Path | None = None


class RunDirectory:
    """A run directory while it is being filled; `run_directory` opens and closes it.

    Attributes:
        command: that makes it.
        path: where files are put now (a staging folder next to `destination`).
        destination: where they will be found.
    """

    def __init__(self, command: str, destination: Path | None = None) -> None:
        """Choose the names; nothing is made yet.

        Args:
            command: the command's name, such as "eval-coco".
            destination: the folder the user asked for; None for `tmp/<command>/<run-id>/`.
        """
        now = datetime.datetime.now(datetime.UTC)
        self.run_id = f"{now:%Y%m%dT%H%M%SZ}-{os.urandom(3).hex()}"
        place = (destination or output_root() / command / self.run_id).absolute()
        # a link would be replaced instead of what it leads to
        self.destination = place.resolve() if place.is_symlink() else place
        self.command, self._started_at = command, now.isoformat(timespec="seconds")
        self.path = self.destination.parent / f".{self.destination.name}.{self.run_id}.staging"
        self._lock = NameLock(self.destination.parent / f".{self.destination.name}.trtw-lock")
        self._kept = False

    def begin(self, *, described: bool = True) -> None:
        """Lock the destination, make the staging folder and, if it is to be `described`, write `env.json` into it.

        Raises:
            UsageProblem: the folder cannot be made or written, is in use or no folder, or holds something other than a
                run of this command.
        """
        global _finished
        _finished = None
        try:
            self.destination.parent.mkdir(parents=True, exist_ok=True)
            _require_ours(self.destination, self.command)  # first: no lock may fit beside a volume of a container
            if not self._lock.acquire():
                raise UsageProblem(
                    "Another process is writing this run; wait until it ends, or choose another folder with --output: "
                    f"{self.destination}"
                )
            # give an earlier run its name back, which a process that was killed while replacing it left without
            aside = [left for left in _stagings(self.destination) if left.name.endswith(REPLACED)]
            if aside and not self.destination.exists():
                max(aside).rename(self.destination)
            _require_ours(self.destination, self.command)
            self.path.mkdir()
            if described:
                self.describe()
        except OSError as error:
            raise UsageProblem(
                f"The output folder is not writable ({error.strerror}); choose another with --output: "
                f"{self.destination}"
            ) from error

    def describe(self) -> None:
        """Write `env.json`, unless it is there. Raises OSError where that fails."""
        if not (self.path / "env.json").exists():
            from trt_workbench.core.documents import write_json
            from trt_workbench.core.environment import collect_environment

            write_json(self.path / "env.json", collect_environment(sys.argv))

    def earlier(self, *, whole: bool = False) -> list[Path]:
        """Return what there is in the place of this run, newest first: what killed runs left, and an interrupted one.

        Args:
            whole: a finished one, too.
        """
        from trt_workbench.core.artefacts import run_document

        left = [one for one in _stagings(self.destination) if one != self.path and not one.name.endswith(REPLACED)]
        found = sorted(left, reverse=True)
        if _command_of(self.destination) and (whole or run_document(self.destination).status == "partial"):
            found.append(self.destination)
        return found

    def goes_on(self, earlier: Sequence[Path]) -> None:
        """Let `env.json` name the runs that this one takes results of. Raises UsageProblem where one is damaged."""
        if parts := {part.run_id: part for one in earlier for part in _parts_of(one)}:
            from trt_workbench.core.documents import read_document, write_json

            ordered = sorted(parts.values(), key=lambda part: part.started_at)
            write_json(self.path / "env.json", {**read_document(self.path / "env.json", dict), "earlier": ordered})

    def commit(self, status: Status, **facts: Any) -> Path:
        """Write `run.json` and put everything in the place of `destination`, in one step.

        An earlier run there is replaced as a whole; files of the user's own that lie in it stay. Reports are drawn
        afterwards, from what is in its place then.

        Args:
            status: "complete", or "partial" for a run that was interrupted.
            facts: further JSON values for `run.json`.

        Returns:
            The destination.

        Raises:
            UsageProblem: the files cannot be moved; the message says where they are kept.
        """
        global _finished
        from trt_workbench.core.artefacts import RunDocument
        from trt_workbench.core.documents import write_json

        run = RunDocument(
            command=self.command,
            run_id=self.run_id,
            started_at=self._started_at,
            ended_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            status=status,
            **facts,
        )
        with deferred_interrupts():
            try:
                self.describe()
                write_json(self.path / "run.json", run)
                if self.destination.exists():
                    self._carry_over()
                    replace_folder(self.path, self.destination)
                else:
                    self.path.rename(self.destination)
            except OSError as error:
                self._kept = True
                raise UsageProblem(
                    f"The {'finished' if status == 'complete' else 'unfinished'} run cannot be moved to "
                    f"{self.destination} ({error.strerror}); its files are kept: {self.path}"
                ) from error
            _finished = self.destination
            for left in _stagings(self.destination):
                shutil.rmtree(left, ignore_errors=True)  # of runs that were killed, whose place this one has taken
        return self.destination

    def discard(self) -> None:
        """Remove the staging folder with its contents, and release the destination."""
        with deferred_interrupts():
            if not self._kept:
                shutil.rmtree(self.path, ignore_errors=True)
            self._lock.release()

    def _carry_over(self) -> None:
        """Take the user's own files of the destination into the staging folder, as further names of the same files."""
        for entry in self.destination.iterdir():
            if entry.name in ARTEFACTS or os.path.lexists(self.path / entry.name):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.copytree(entry, self.path / entry.name, symlinks=True, copy_function=_link)
            else:
                _link(str(entry), str(self.path / entry.name))
        shutil.copymode(self.destination, self.path)


@contextmanager
def run_directory(command: str, destination: Path | None = None, *, described: bool = True) -> Iterator[RunDirectory]:
    """Yield a run directory that is removed if the block fails before `commit`.

    Args:
        command: the command's name.
        destination: the folder the user asked for.
        described: write `env.json` first; without, the block calls `describe` once its first result is there, as asking
            git and the driver takes 0.1 s and more.

    Raises:
        UsageProblem: as `RunDirectory.begin`.
    """
    directory = RunDirectory(command, destination)
    try:
        directory.begin(described=described)
        yield directory
    finally:
        directory.discard()


def finished_run() -> Path | None:
    """Return the run directory that this process has finished; None while none is, or the next one is being filled."""
    return _finished


def destination_of(folder: Path) -> Path:
    """Return the destination of a staging folder that a killed run left; any other folder unchanged."""
    found = _STAGING.fullmatch(folder.absolute().name)
    return folder.absolute().with_name(found["name"]) if found else folder


def _parts_of(earlier: Path) -> list[Part]:
    """Return the parts of a run that is continued. Raises UsageProblem where it is damaged."""
    from trt_workbench.core.artefacts import RUN, Part, read_environment, run_document

    left = _STAGING.fullmatch(earlier.absolute().name)
    if left and not (earlier / RUN).exists():  # of a process that was killed
        started = datetime.datetime.strptime(left["id"][:16], "%Y%m%dT%H%M%S%z")
        facts: dict[str, Any] = {"run_id": left["id"], "started_at": started.isoformat(timespec="seconds")}
    else:
        run = run_document(earlier)
        facts = {"run_id": run.run_id, "started_at": run.started_at, "ended_at": run.ended_at}
    known = read_environment(earlier)
    return [*known.earlier, Part(**facts, environment=known.model_copy(update={"earlier": []}))]


def _stagings(destination: Path) -> list[Path]:
    """Return the staging folders that killed runs left next to a destination. Its lock must be held."""
    found = ((entry, _STAGING.fullmatch(entry.name)) for entry in destination.parent.iterdir())
    return [entry for entry, match in found if match and match["name"] == destination.name]


def _require_ours(folder: Path, command: str) -> None:
    """Raise UsageProblem unless a run of `command` may take the place of `folder`."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageProblem(f"The output folder is a file; choose another with --output: {folder}")
    if folder.is_mount() or folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        what = "a mount point" if folder.is_mount() else "the current folder or one of its parents"
        raise UsageProblem(
            f"The output folder is {what}, which a run cannot replace; choose a folder inside it with --output: "
            f"{folder}"
        )
    if not any(folder.iterdir()):
        return
    earlier = _command_of(folder)
    if earlier is None:
        raise UsageProblem(
            "The output folder holds other files that a run could overwrite; choose a new or empty folder with "
            f"--output: {folder}"
        )
    if earlier != command:
        raise UsageProblem(
            f"The output folder holds a run of {earlier}, and {command} would mix its files with it; choose another "
            f"folder with --output: {folder}"
        )


def _command_of(folder: Path) -> str | None:
    """Return the command that made a run directory; None for a folder that is not provably one."""
    if (folder / "run.json").is_symlink() or (folder / "env.json").is_symlink():
        return None
    from trt_workbench.core.artefacts import read_environment, run_document

    try:
        run = run_document(folder)
        read_environment(folder)
    except UsageProblem:
        return None
    return run.command if re.fullmatch(_RUN_ID, run.run_id) else None


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without links, or a file of somebody else's
        shutil.copy2(source, target, follow_symlinks=False)
