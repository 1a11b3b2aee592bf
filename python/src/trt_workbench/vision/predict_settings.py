"""How `predict` looks for objects, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import Setting
from trt_workbench.vision.settings import DetectorSettings


def read_classes(option: str, text: str) -> tuple[str, ...]:
    """Return the parts of a list with commas. Raises UsageProblem if one is empty."""
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise UsageProblem(f"{option} takes names or indices of classes with commas between them, not {text!r}.")
    return parts


@dataclass(frozen=True)
class PredictSettings(DetectorSettings):
    """How objects are looked for; None where the default is to be chosen."""

    conf: Annotated[float, Setting("Lowest score that is shown.", min=0.0, max=1.0)] = 0.25
    classes: Annotated[
        tuple[str, ...], Setting("Classes to keep, by name or index, such as person,2.", kind=str, read=read_classes)
    ] = ()
    limit: Annotated[int | None, Setting("Process at most this many images and frames.", min=1)] = None
