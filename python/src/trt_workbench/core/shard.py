"""A fixed block of a run's inputs, by index: `--shard I/N`, or the place that a scheduler gave this process.

Imports nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.settings import Setting

AUTO: Final = "auto"
ALL: Final = "all"
# Of each kind of job: the variable with the task's number, the one with how many there are, and where numbers begin.
_VARIABLES: Final = (
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"),
    ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", None),
    ("SLURM_PROCID", "SLURM_NTASKS", None),
    ("RANK", "WORLD_SIZE", None),
    ("SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", None),
)
_FIX: Final = "pass --shard I/N, such as --shard 0/8"


@dataclass(frozen=True)
class Shard:
    """Block `index` of `count`; the first is 0, as in RANK and WORLD_SIZE."""

    index: int
    count: int

    def __str__(self) -> str:
        """Return the form that is read."""
        return f"{self.index}/{self.count}"

    def block(self, items: int, step: int = 1) -> range:
        """Return which of so many items are this shard's: consecutive ones, of all shards as many, or `step` more.

        Args:
            items: how many there are; shards beyond them are empty.
            step: what stays together, such as the images of a batch: every block begins at a multiple of it.
        """
        steps = -(-items // step)
        first, end = (steps * place // self.count for place in (self.index, self.index + 1))
        return range(min(first * step, items), min(end * step, items))


WHOLE: Final = Shard(0, 1)


def read_shard(option: str, text: str) -> Shard:
    """Return the shard that `I/N` names, or the environment for `auto`. Raises UsageProblem for any other text."""
    if text == AUTO:
        return shard_from(os.environ)
    index, slash, count = text.partition("/")
    found = _shard(index, count) if slash else None
    if found is None:
        raise UsageProblem(
            f"{option} takes auto, or I/N with I from 0 to N-1, such as 0/8 to 7/8 for eight shards, not {text!r:.40}."
        )
    return found


ShardOption = Annotated[
    Shard | None,
    Setting("Only one block of N, for `trtw merge`; auto reads the scheduler's variables.", kind=str,
            read=read_shard, metavar="auto|I/N"),
]  # fmt: skip


def read_gpus(option: str, text: str) -> tuple[int, ...]:
    """Return CUDA's numbers of the GPUs that `0,1` names, none for `all`. Raises UsageProblem for any other text."""
    numbers = () if text == ALL else gpu_numbers(text)
    if numbers is None:
        raise UsageProblem(f"{option} takes all, or numbers of GPUs such as 0,1, each once, not {text!r:.40}.")
    return numbers


def gpu_numbers(text: str) -> tuple[int, ...] | None:
    """Return the numbers of a list with commas; None for any other text, and where one is there twice."""
    numbers = [whole_number(part.strip()) for part in text.split(",")]
    known = tuple(number for number in numbers if number is not None)
    return known if len(set(known)) == len(numbers) else None


GpusOption = Annotated[
    tuple[int, ...] | None,
    Setting("Spread over GPUs of this machine, one shard a GPU.", kind=str, read=read_gpus, metavar="all|0,1"),
]


def exclude_each_other(shard: Shard | None, gpus: tuple[int, ...] | None) -> None:
    """Raise UsageProblem where a shard is to be spread over GPUs."""
    if shard and gpus is not None:
        raise UsageProblem("--shard and --gpus exclude each other: give each GPU a shard of its own.")


def shard_from(variables: Mapping[str, str]) -> Shard:
    """Return the shard that a scheduler's variables name: of Slurm, Kubernetes, torchrun or SkyPilot.

    A job of one task says nothing where another variable says more: Slurm sets SLURM_PROCID within an array, too.

    Raises:
        UsageProblem: none does, two disagree, or an array has a hole.
    """
    found: dict[str, Shard] = {}
    for index, count, least in _VARIABLES:
        if index in variables and count in variables:
            found[index] = _read(variables, index, count, least)
    several = {name: shard for name, shard in found.items() if shard.count > 1} or found
    if not several:
        lacking = [f"{index} without {count}" for index, count, _ in _VARIABLES if index in variables]
        why = f"the environment has {lacking[0]}" if lacking else "no variable of a scheduler is set"
        raise UsageProblem(f"--shard auto finds no shard: {why}; {_FIX}.")
    (name, chosen), *others = several.items()
    for other, shard in others:
        if shard != chosen:
            raise UsageProblem(f"--shard auto finds two shards: {name} says {chosen}, {other} {shard}; {_FIX}.")
    return chosen


def _read(variables: Mapping[str, str], index: str, count: str, least: str | None) -> Shard:
    first = whole_number(variables.get(least, "0")) if least else 0
    if least and (first is None or first > 1 or _has_hole(variables, count)):
        raise UsageProblem(
            f"The Slurm array is not numbered from 0 or 1 without a gap ({index} is {variables[index]!r:.40}), so that "
            f"its tasks do not name all shards; {_FIX}."
        )
    number = whole_number(variables[index])
    shard = None if number is None or first is None else _shard(str(number - first), variables[count])
    if shard is None:
        raise UsageProblem(
            f"{index}={variables[index]!r:.40} and {count}={variables[count]!r:.40} name no shard; {_FIX}."
        )
    return shard


def _has_hole(variables: Mapping[str, str], count: str) -> bool:
    """Whether a Slurm array leaves out numbers, as one has that repeats some tasks of another."""
    ends = [whole_number(variables.get(f"SLURM_ARRAY_TASK_{end}", "")) for end in ("MIN", "MAX")]
    many = whole_number(variables[count])
    return None not in (*ends, many) and ends[1] - ends[0] + 1 != many  # type: ignore[operator]


def _shard(index: str, count: str) -> Shard | None:
    place, many = whole_number(index), whole_number(count)
    return Shard(place, many) if place is not None and many is not None and place < many else None
