"""Work that goes on: what identifies a result, and the unfinished run in a run directory's place that is continued.

The same command with the `--output` of a run that was interrupted, failed or was killed takes over what that has, if it
was asked for the same; else it says why not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from trt_workbench import __version__
from trt_workbench.core.directory import RunDirectory
from trt_workbench.core.documents import Strict, json_values, read_document, write_json
from trt_workbench.core.environment import cpu_report, git_revision, installed_packages
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.gpu import driver_report, gpu_at

WORK: Final = "work.json"
_SHOWN: Final = 80  # characters of a value in a message


class Asked(Strict):
    """work.json.

    Attributes:
        command: that made the run directory.
        asked: what identifies its results and is known before the work, as of `identity`.
    """

    schema_version: Literal[1] = 1
    command: str
    asked: dict[str, Any]


def identity(job: Mapping[str, Any], computing: Iterable[int | None], *, timed: bool = False) -> dict[str, Any]:
    """Return what identifies a result, as JSON values: the job, the versions, and what of the machine decides it.

    That is the GPU with its driver where a backend computes on one, and the processor where one computes on that, where
    there is no GPU, or where times are part of the result.

    Args:
        job: model, data and settings, by hashes and values.
        computing: of each backend that computes the result, CUDA's number of its GPU; None of one on the processor.
        timed: whether times are part of the result.
    """
    places = {*computing}
    gpus = [gpu["name"] for place in sorted(one for one in places if one is not None) if (gpu := gpu_at(place))]
    found = {**job, "versions": {"workbench": __version__, "commit": git_revision()["commit"], **installed_packages()}}
    if timed or not gpus or None in places:
        found["processor"] = cpu_report()["model"]
    if gpus:
        found |= {"gpu": ", ".join(gpus), "driver": driver_report().get("driver_version")}
    return json_values(found, str)  # type: ignore[no-any-return]


def continued(
    run: RunDirectory, asked: Mapping[str, Any], note: Callable[[str], None], results: str, *, whole: bool = False
) -> list[Path]:
    """Return the runs in the place of this one that it goes on with, newest first; note why it does not with others.

    Also writes `work.json`, by which the next run knows this one.

    Args:
        run: that begins.
        asked: what identifies its results, as JSON values.
        note: called with sentences for the user.
        results: file or folder of a run directory that is there once it has any.
        whole: go on with a finished run, too.

    Raises:
        OSError: the file cannot be written.
    """
    found = []
    for left in run.earlier(whole=whole):
        with contextlib.suppress(UsageProblem):  # killed before it was described, or damaged
            known = read_document(left / WORK, Asked)
            if known.command != run.command or not (left / results).exists():
                continue
            if why := why_not(known.asked, asked):
                note(f"The run in this folder is not continued: {why}.")
            else:
                found.append(left)
    if found:
        note(f"Continuing the run in this folder; what it has is kept: {run.destination}")
    run.goes_on(found)
    write_json(run.path / WORK, Asked(command=run.command, asked=dict(asked)))
    return found


@contextlib.contextmanager
def taking(earlier: Sequence[Path]) -> Iterator[None]:
    """Raise UsageProblem that says what to do where the block finds the first of some unfinished runs damaged."""
    try:
        yield
    except (UsageProblem, KeyError, TypeError, ValueError) as error:
        what = error if isinstance(error, UsageProblem) else repr(error)
        raise UsageProblem(
            f"The unfinished run is damaged; remove {earlier[0]}, or choose another folder with --output: {what}"
        ) from error


def why_not(known: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return the clause on why a run is not continued, by what identifies its results and the new ones; "" if it is.

    Args:
        known: of the run, as JSON values.
        asked: of the new one.
    """
    other = first_difference(known, asked)
    return "{} was {} there and is {} here".format(*other) if other else ""


def first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return the name of the first value that is not the same in two documents, and both as texts; None without any."""
    return next(((name, f"{a!r:.{_SHOWN}}", f"{b!r:.{_SHOWN}}") for name, a, b in _pairs(one, other) if a != b), None)


def _pairs(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the values of two documents by their names, in their order."""
    for key in dict.fromkeys([*one, *other]):
        mine, theirs = one.get(key), other.get(key)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from _pairs(mine, theirs, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", mine, theirs
