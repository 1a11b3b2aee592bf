"""A matrix of one model, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.settings import Setting, pairs

_MODEL = "Matrix of a model file"


def names(option: str, text: str) -> tuple[str, ...]:
    """Return the names of a list with commas. Raises UsageProblem for an empty one."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise UsageProblem(f"{option} takes comma-separated names, not {text!r}.")
    return found


def sizes(option: str, text: str) -> tuple[int, ...]:
    """Return the sizes of a list with commas. Raises UsageProblem for another form."""
    found = [whole_number(part.strip()) for part in text.split(",")]
    if not all(found):
        raise UsageProblem(f"{option} takes sizes from 1 on, separated by commas, such as 1,8, not {text!r}.")
    return tuple(size for size in found if size)


def sizes_by_name(option: str, texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return sizes by name, of repeated NAME=SIZES. Raises UsageProblem for another form."""
    return {name: sizes(f"{option} {name}", text) for name, text in pairs(option, texts).items()}


@dataclass(frozen=True)
class MatrixSettings:
    """What is measured of a model file; a YAML file says all of it itself."""

    backends: Annotated[
        tuple[str, ...],
        Setting(
            "Runtimes, comma-separated: ort-cpu,trt; those that serve here by default.", _MODEL, kind=str, read=names
        ),
    ] = ()
    precisions: Annotated[
        tuple[str, ...],
        Setting(
            "Precisions of a model file, comma-separated: fp32,fp16; fp32 by default.", _MODEL, kind=str, read=names
        ),
    ] = ()
    batch: Annotated[
        tuple[int, ...],
        Setting("Batch sizes, comma-separated: 1,8; 1 by default.", _MODEL, kind=str, read=sizes),
    ] = ()
    dims: Annotated[
        Mapping[str, tuple[int, ...]],
        Setting(
            "NAME=SIZES: another dynamic dimension of a model file; repeatable.", _MODEL, "--dim", read=sizes_by_name
        ),
    ] = field(default_factory=dict)


ANY_MATRIX = MatrixSettings()
"""Where nothing is said of it."""
