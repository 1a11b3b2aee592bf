"""export-triton: read what is served, make Triton's configuration, write the folders of its models."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from trt_workbench import __version__
from trt_workbench.backends.preparation import Preparation
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
from trt_workbench_serving.client import client_of_images, client_of_tensors
from trt_workbench_serving.config import Config, make_ensemble, model_config, require_format, text_of
from trt_workbench_serving.settings import TritonSettings
from trt_workbench_serving.sources import TritonSource, read_source

CONFIG, RECORD = "config.pbtxt", "export-triton.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Note = Callable[[str], None]


@dataclass(frozen=True)
class ExportedRepository:
    """What was written.

    Attributes:
        repository: the folder.
        models: configuration by the folder's name, the model itself first.
        client: an example that asks for it.
        notes: what the server needs, in sentences.
    """

    repository: Path
    models: dict[str, Config]
    client: Path
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "schema_version": 1,
            "repository": str(self.repository),
            "models": list(self.models.values()),
            "client": str(self.client),
            "notes": list(self.notes),
        }


def export_triton(settings: TritonSettings, preparation: Preparation) -> ExportedRepository:
    """Write a model, and the ensemble around it, into a repository.

    Each model's folder is written whole or not at all. One that is there is replaced if this command wrote it and
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
    models = {name: model_config(name, source, settings)}
    client = settings.repository / f"client_{re.sub('[^A-Za-z0-9]', '_', name)}.py"
    if settings.ensemble:
        parts = make_ensemble(name, source, preparation, settings)
        models |= {str(one["name"]): one for one in (parts.letterbox, parts.boxes, parts.whole)}
        program = client_of_images(parts.whole, parts.names, client.name)
    else:
        program = client_of_tensors(name, source, client.name)
    compile(program, str(client), "exec")
    texts = {folder: text_of(config) for folder, config in models.items()}
    for folder in models:
        _refuse_foreign(settings.repository / folder)
    refuse_foreign(client, is_signed)
    settings.repository.mkdir(parents=True, exist_ok=True)
    for folder, text in texts.items():
        files = dict(source.files) if folder == name else {}
        _write(settings, folder, text, files, is_step=models[folder].get("backend") == "python")
    write_text(client, signed(program), over=is_signed)
    return ExportedRepository(
        settings.repository, models, client, (*source.notes, *_shape_notes(source, settings), *_step_notes(models))
    )


def _shape_notes(source: TritonSource, settings: TritonSettings) -> Iterator[str]:
    """Yield what to mind of shapes: batches that no profile takes, and sizes that nothing says."""
    if settings.warmup and (unsized := source.unsized()):
        yield f"There is no warm-up: nothing says which sizes the server will see of {', '.join(unsized)}."
    for _, run in groupby(enumerate(source.untaken()), key=lambda one: one[1] - one[0]):
        sizes = [size for _, size in run]
        span = f"{sizes[0]} to {sizes[-1]} rows" if len(sizes) > 1 else counted(sizes[0], "row")
        yield f"No profile takes batches of {span}: the server refuses requests that make such a batch."


def _step_notes(models: dict[str, Config]) -> tuple[str, ...]:
    if all(config.get("backend") != "python" for config in models.values()):
        return ()
    return (
        f"The server's Python needs trt-workbench-serving {__version__}. Servers that do not support NumPy 2, such as "
        "2.51, return empty tensors with it: install NumPy 1.26 there.",
    )


def _write(settings: TritonSettings, folder: str, text: str, files: dict[str, Path], *, is_step: bool) -> None:
    """Write a model's folder beside its place, and put it there when it is whole."""
    place = settings.repository / folder
    with scratch_folder(".export-triton-", settings.repository) as scratch:
        made = scratch / folder
        version = made / str(settings.version)
        version.mkdir(parents=True)
        for name, path in files.items():
            (version / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, version / name)
        if is_step:
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
