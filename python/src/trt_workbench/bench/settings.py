"""A matrix of one model, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from trt_workbench.core.settings import Setting, names, pairs, sizes

_MODEL = "Matrix of a model file"


def sizes_by_name(option: str, texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return sizes by name, of repeated NAME=SIZES. Raises UsageProblem for another form."""
    return {name: sizes(f"{option} {name}", text) for name, text in pairs(option, texts).items()}


@dataclass(frozen=True)
class MatrixSettings:
    """What is measured of a model file; a YAML file says all of it itself."""

    backends: Annotated[
        tuple[str, ...],
        Setting(
            "Runtimes, comma-separated: ort-cpu,trt; by default those that work here.", _MODEL, kind=str, read=names
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
