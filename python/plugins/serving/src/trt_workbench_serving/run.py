"""export-triton: read what is served, make Triton's configuration, write the folders of its models."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from trt_workbench import __version__
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import (
    foreign,
    is_signed,
    refuse_foreign,
    replace_folder,
    scratch_folder,
    signed,
    write_text,
)
from trt_workbench.core.hashing import has_hash, hash_file
from trt_workbench_serving.client import client_of_tensors
from trt_workbench_serving.config import Config, model_config, require_format, text_of
from trt_workbench_serving.settings import TritonSettings
from trt_workbench_serving.sources import TritonSource, read_source

CONFIG, RECORD = "config.pbtxt", "export-triton.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_STEP_NOTES = (
    f"The server's Python needs trt-workbench-serving {__version__}. Servers that do not support NumPy 2, such as "
    "2.51, return empty tensors with it: install NumPy 1.26 there.",
)


@dataclass(frozen=True)
class ExportedRepository:
    """What was written.

    Attributes:
        repository: the folder.
        config: of the model.
        client: an example that asks for it.
        notes: what the server needs, in sentences.
    """

    repository: Path
    config: Config
    client: Path
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "schema_version": 1,
            "repository": str(self.repository),
            "models": [self.config],
            "client": str(self.client),
            "notes": list(self.notes),
        }


def export_triton(settings: TritonSettings) -> ExportedRepository:
    """Write a model into a repository.

    Its folder is written whole or not at all. One that is there is replaced if this command wrote it and
    nobody has changed its configuration.

    Raises:
        UsageProblem: a file or setting cannot be used, or a folder is another's.
        CheckFailed: a plan is wrong, or not verified.
        ComponentMissing: tritonclient is absent.
        OSError: the repository cannot be written.
    """
    require_format()
    source = read_source(settings)
    name = settings.name or re.sub(r"[^A-Za-z0-9._-]+", "-", settings.target[0].stem).strip("-.")
    if not _NAME.fullmatch(name):
        raise UsageProblem(
            f"A model's name on a server has letters, digits, '.', '_' and '-', not {name!r}; see --name."
        )
    config = model_config(name, source, settings)
    client = settings.repository / f"client_{re.sub('[^A-Za-z0-9]', '_', name)}.py"
    program = client_of_tensors(name, source, client.name)
    compile(program, str(client), "exec")
    text = text_of(config)
    _refuse_foreign(settings.repository / name)
    refuse_foreign(client, is_signed)
    settings.repository.mkdir(parents=True, exist_ok=True)
    _write(settings, name, text, dict(source.files))
    write_text(client, signed(program), over=is_signed)
    notes = (*source.notes, *_shape_notes(source, settings), *(_STEP_NOTES if settings.python else ()))
    return ExportedRepository(settings.repository, config, client, notes)


def _shape_notes(source: TritonSource, settings: TritonSettings) -> Iterator[str]:
    """Yield what to mind of shapes: batches that no profile takes, and sizes that nothing says."""
    if settings.warmup and (unsized := source.unsized()):
        yield f"There is no warm-up: nothing says which sizes the server will see of {', '.join(unsized)}."
    for _, run in groupby(enumerate(source.untaken()), key=lambda one: one[1] - one[0]):
        sizes = [size for _, size in run]
        span = f"{sizes[0]} to {sizes[-1]} rows" if len(sizes) > 1 else counted(sizes[0], "row")
        yield f"No profile takes batches of {span}: the server refuses requests that make such a batch."


def _write(settings: TritonSettings, folder: str, text: str, files: dict[str, Path]) -> None:
    """Write a model's folder beside its place, and put it there when it is whole."""
    place = settings.repository / folder
    with scratch_folder(".export-triton-", settings.repository) as scratch:
        made = scratch / folder
        version = made / "1"
        version.mkdir(parents=True)
        for name, path in files.items():
            (version / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, version / name)
        if settings.python:
            write_text(
                version / "model.py", (resources.files(__package__) / "model.py.txt").read_text(encoding="utf-8")
            )
        write_text(made / CONFIG, text)
        write_json(made / RECORD, {"schema_version": 1, "config_sha256": hash_file(made / CONFIG)})
        if place.exists():
            replace_folder(made, place)
        else:
            made.rename(place)


def _refuse_foreign(place: Path) -> None:
    """Raise UsageProblem for a folder that this command did not write, or whose configuration was changed since."""
    if not place.exists() and not place.is_symlink():
        return
    try:
        kept = json.loads((place / RECORD).read_text(encoding="utf-8"))["config_sha256"]
        ours = not place.is_symlink() and has_hash(place / CONFIG, kept)
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise foreign(place)
