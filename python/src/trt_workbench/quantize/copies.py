"""Copies of a model that are made to be run once: errors name what a person knows instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trt_workbench.core.errors import WorkbenchError


@contextmanager
def named(copy: Path, known_as: Path | str) -> Iterator[None]:
    """Let an error of the block that names a copy, which is gone with its folder, say what it is a copy of.

    Raises:
        WorkbenchError: of the same kind as that of the block.
    """
    try:
        yield
    except WorkbenchError as error:
        said = str(error.args[0]) if error.args else ""
        if str(copy) not in said:
            raise
        raise type(error)(said.replace(str(copy), str(known_as))) from error
