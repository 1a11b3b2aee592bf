"""What every run directory holds: `run.json`, `env.json`, and of a bench the configuration and the records."""

from __future__ import annotations

import datetime
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import AfterValidator

from trt_workbench.core.documents import Open, read_document
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.records import Record, read_records

RUN: Final = "run.json"
Status = Literal["complete", "partial"]
R = TypeVar("R", bound="RunDocument")
_YEARS = range(1970, 9999)


def _moment(text: str) -> str:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None or moment.year not in _YEARS:
        raise ValueError(f"it is no time of a run with its zone: {text}")
    return text


Moment = Annotated[str, AfterValidator(_moment)]
"""UTC time in ISO 8601."""


class RunDocument(Open):
    """run.json; a command may add facts of its own.

    Attributes:
        command: that made the directory.
        run_id: time of the start and a random number.
        started_at: UTC time in ISO 8601.
        status: "partial" after an interruption.
    """

    schema_version: Literal[1] = 1
    command: str
    run_id: str
    started_at: Moment
    ended_at: Moment | None = None
    status: Status


class Cpu(Open):
    """The processor: how many the machine has, and this process could use."""

    model: str | None = None
    processors: int | None = None
    processors_available: int | None = None
    governor: str | None = None


class Gpu(Open):
    """A GPU as NVML sees it when the run begins; None for what the card does not report."""

    index: int = 0
    name: str | None = None
    uuid: str | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    power_limit_w: float | None = None
    persistence_mode: int | None = None
    compute_processes: int | None = None


class Driver(Open):
    """NVIDIA's driver and its GPUs, or the error that it returns."""

    driver_version: str | None = None
    cuda_driver_version: str | None = None
    error: str = "the driver sees none"
    gpus: list[Gpu] = []

    @property
    def gpu_names(self) -> str:
        """The names of its GPUs as one text; empty where there is none."""
        return ", ".join(str(gpu.name) for gpu in self.gpus)


class Git(Open):
    """The commit of the workbench and whether its tree differed; None where git cannot tell."""

    commit: str | None = None
    dirty: bool | None = None


class Environment(Open):
    """env.json: everything about the machine and the process that a figure depends on.

    Attributes:
        command_line: as it is typed, without the folder in which the program is.
        earlier: parts of the run before this one, where it was resumed.
    """

    schema_version: Literal[1] = 1
    command_line: Annotated[
        list[str],
        AfterValidator(
            lambda words: [
                *(Path(word.replace("trt_workbench/__main__.py", "trtw")).name for word in words[:1]),
                *words[1:],
            ]
        ),
    ]
    workbench_version: str | None = None
    git: Git = Git()
    python: str | None = None
    packages: dict[str, str] = {}
    os: str | None = None
    kernel: str | None = None
    cpu: Cpu = Cpu()
    driver: Driver = Driver()
    variables: dict[str, str] = {}
    earlier: list[Part] = []

    @property
    def command(self) -> str:
        """The command line for a shell."""
        return shlex.join(self.command_line)

    @property
    def text(self) -> str:
        """All of it as JSON."""
        return json.dumps(self.model_dump(mode="json", exclude_unset=True, exclude={"earlier"}), indent=2)


class Part(Open):
    """A part of a run that was resumed, up to where it was interrupted.

    Attributes:
        run_id: as of run.json.
        started_at: likewise.
        ended_at: likewise; None where it was killed.
        environment: its env.json, without the parts before it.
    """

    run_id: str
    started_at: Moment
    ended_at: Moment | None = None
    environment: Environment


class BenchSettings(Open):
    """config.json of a bench, the configuration as it was resolved, as far as reports read it."""

    schema_version: Literal[1] = 1
    title: str
    repetitions: int


@dataclass(frozen=True)
class BenchArtefacts:
    """The files of one bench run, with every record in the order of measuring."""

    directory: Path
    run: RunDocument
    environment: Environment
    config: BenchSettings
    records: list[Record]


def run_document(directory: Path) -> RunDocument:
    """Return run.json of a run directory of any command.

    Raises:
        UsageProblem: run.json is absent, damaged or of another schema version.
    """
    return read_document(directory / RUN, RunDocument)


def read_run(directory: Path, command: str, kind: type[R]) -> R:
    """Return run.json of a run directory of `command` as its model.

    Raises:
        UsageProblem: as `read_document`, or it is a run directory of another command.
    """
    found = command_of(directory)
    if found != command:
        raise UsageProblem(f"This is a run directory of {found!r}, not of {command!r}: {directory}")
    return read_document(directory / RUN, kind)


def command_of(directory: Path) -> str:
    """Return the name of the command that made a run directory. Raises UsageProblem as `run_document`."""
    return run_document(directory).command


def read_environment(directory: Path) -> Environment:
    """Return env.json of a run directory. Raises UsageProblem as `read_document`."""
    return read_document(directory / "env.json", Environment)


def read_bench_run(directory: Path) -> BenchArtefacts:
    """Read a bench run directory.

    Raises:
        UsageProblem: it is no run directory of `bench`, a file is missing, cut short or of another schema version.
    """
    return BenchArtefacts(
        directory=directory,
        run=read_run(directory, "bench", RunDocument),
        environment=read_environment(directory),
        config=read_document(directory / "config.json", BenchSettings),
        records=read_records(directory / "records.jsonl"),
    )


@contextmanager
def foreign_files(directory: Path) -> Iterator[None]:
    """Treat any failure of the block as damage of the files that it reads, which may come from anywhere.

    Each file by itself is checked by its model; this is for files that do not fit one another, and for libraries that
    cannot draw what is in them.

    Raises:
        UsageProblem: in place of any error but those of the workbench, the system and the memory.
    """
    try:
        yield
    except (WorkbenchError, OSError, MemoryError):
        raise
    except Exception as error:
        raise UsageProblem(
            f"The files of this run directory do not match each other or were changed ({error!r}): {directory}"
        ) from error
