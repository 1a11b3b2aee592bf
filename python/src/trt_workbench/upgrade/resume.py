"""What an earlier run of `upgrade` has that need not be done again: models whose every step had a result."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trt_workbench.core.builds import BuiltGroup, builds_of
from trt_workbench.core.documents import json_values, read_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_file, hash_folder
from trt_workbench.core.shard_files import first_difference
from trt_workbench.model.opened import Model
from trt_workbench.upgrade.document import FILE, Upgrade, Upgraded
from trt_workbench.upgrade.settings import UpgradeSettings
from trt_workbench.upgrade.side import RunningSide, recorded_side


def what_decides(settings: UpgradeSettings, models: Mapping[str, Path], sides: Iterable[RunningSide]) -> dict[str, Any]:
    """Return what decides the result of every model, as JSON values: files, settings and what the stacks are."""
    record = recorded_side(settings.before)
    given = [*settings.data_files, *settings.input_files, *([record.with_name(FILE)] if record else [])]
    found = {
        "models": {name: Model.open(model).sha256 for name, model in models.items()},
        "files": {str(one): hash_folder(one) if one.is_dir() else hash_file(one) for one in given},
        "settings": {name: value for name, value in asdict(settings).items() if name != "resume"},
        "stacks": {side.folder.name: side.side for side in sides},
    }
    return json_values(found)  # type: ignore[no-any-return]


class FinishedModels:
    """Those of an earlier run; none are taken where there is none."""

    def __init__(self, directory: Path | None, asked: Mapping[str, Any]) -> None:
        """Read the run.

        Args:
            directory: of the earlier run; None without one.
            asked: what decides the result of this one.

        Raises:
            UsageProblem: it was asked for something else, or is damaged.
        """
        self._directory = directory
        self._models: dict[str, Upgraded] = {}
        self._groups: tuple[BuiltGroup, ...] = ()
        if directory is None:
            return
        found = read_document(directory / FILE, Upgrade)
        if other := first_difference(found.asked, asked):
            name, there, here = other
            raise UsageProblem(
                f"--resume: {name} was {there} in the earlier run and is {here} here; ask for the same, or leave out "
                f"--resume: {directory}"
            )
        self._models = {one.name: one for one in found.models if one.is_final}
        self._groups = builds_of(directory)

    def take(self, name: str, sides: Iterable[RunningSide]) -> tuple[Upgraded, list[BuiltGroup]] | None:
        """Return what became of a model and of its builds, with its files in this run; None if it is to be done."""
        if self._directory is None or name not in self._models:
            return None
        for side in sides:
            if side.stack:  # the files of a record are there
                shutil.copytree(self._directory / side.folder.name / name, side.of(name, ""), symlinks=True)
        labels = [side.label(name) for side in sides]
        return self._models[name], [one for one in self._groups if one.label in labels]
