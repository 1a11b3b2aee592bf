"""One array: the shards of a run on one type of GPU, with everything that its tasks need to know."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from trt_workbench import __version__
from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import is_signed, refuse_foreign, require_there, signed, write_text
from trt_workbench.core.shard_files import SHARD, ShardDocument, read_shard_run
from trt_workbench.engine.manifest import manifest_path
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench_fleet.document import RunFile, load_run_file

RUN_FILE = "run.yaml"


@dataclass(frozen=True)
class JobArray:
    """The shards of a run on GPUs of one type.

    Attributes:
        run: what is run, with its folder for this type.
        gpu_type: as schedulers know it; None where no GPU is asked for.
        source: of the model, where it is to be copied to the place that `run` names.
    """

    run: RunFile
    gpu_type: str | None
    source: Path | None = None

    @property
    def name(self) -> str:
        """Of the job."""
        return f"{self.run.name}-{self.gpu_type}" if self.gpu_type else self.run.name

    @property
    def folder(self) -> Path:
        """Of the shards."""
        return self.run.folder

    @property
    def base(self) -> Path:
        """Folder of the whole run, with those of its types."""
        return self.folder.parent if self.gpu_type else self.folder

    @property
    def result(self) -> Path:
        """Run directory of the merged run."""
        return self.folder / "run"

    @property
    def logs(self) -> Path:
        """Folder of what tasks print."""
        return self.folder / "logs"

    @property
    def unfit(self) -> Path:
        """Names of nodes that are not as asked, a line each."""
        return self.logs / "unfit-nodes"

    @property
    def check(self) -> list[str]:
        """Command line that checks the node that it runs on."""
        return [*self.run.program, "submit", str(self.folder / RUN_FILE), "--check-node"]

    @property
    def work(self) -> list[str]:
        """Command line of a task, up to the options that name its shard and its folder."""
        model = [self.run.model] if self.run.model else []
        return [*self.run.program, self.run.command, *model, *self.run.arguments]

    @property
    def merge(self) -> list[str]:
        """Command line that puts the shards together."""
        return [*self.run.program, "merge", str(self.folder), "-o", str(self.result)]

    def shard_folder(self, index: int) -> Path:
        """Run directory of a shard."""
        return self.folder / f"shard-{index}"

    def task(self, index: int) -> list[str]:
        """Command line of one task."""
        return [*self.work, "--shard", f"{index}/{self.run.shards}", "--output", str(self.shard_folder(index))]

    def missing(self) -> list[int]:
        """Return the shards that are not done, or were changed since."""
        return self._without(lambda folder: read_shard_run(folder).document)

    def ended(self) -> int:
        """Return how many shards are done; their files are not read, as whoever waits asks again and again."""
        return self.run.shards - len(self._without(lambda folder: read_document(folder / SHARD, ShardDocument)))

    def _without(self, read: Callable[[Path], ShardDocument]) -> list[int]:
        return [index for index in range(self.run.shards) if not self._is_done(index, read)]

    def _is_done(self, index: int, read: Callable[[Path], ShardDocument]) -> bool:
        try:
            known = read(self.shard_folder(index))
        except UsageProblem:
            return False
        return known.is_whole and known.shard.count == self.run.shards

    def begin(self, files: dict[str, str]) -> list[Path]:
        """Make the folder, with the model if it is to be copied, and return the paths of the files in it.

        Args:
            files: texts by name; the run's own description, which nodes read, is written as well.

        Raises:
            UsageProblem: the folder cannot be made or is a file, the copy is not the model, or a file is another's.
        """
        document = self.run.model_dump(mode="json", exclude_defaults=True)
        described = {RUN_FILE: yaml.safe_dump(document, sort_keys=False, allow_unicode=True)}
        texts = {self.folder / name: signed(text) for name, text in {**described, **files}.items()}
        try:
            for path in texts:
                refuse_foreign(path, is_signed)
            self.logs.mkdir(parents=True, exist_ok=True)
            self.unfit.unlink(missing_ok=True)
            if self.source:
                _copy_model(self.source, Path(str(self.run.model)), str(self.run.model_sha256))
            for path, text in texts.items():
                write_text(path, text, over=is_signed)
        except OSError as error:
            raise UsageProblem(
                f"The shared folder cannot be written ({error.strerror}); name another as `folder`: {self.folder}"
            ) from error
        return [self.folder / name for name in files]


def arrays_of(run: RunFile, types: Sequence[str]) -> list[JobArray]:
    """Return an array for each type of GPU, each in a folder of its own; one without a GPU where there is no type.

    Args:
        run: as it was read.
        types: asked for on the command line; all of the file where none is.

    Raises:
        UsageProblem: the file has no such type, or the model is not the one that the file names.
    """
    for name in types:
        if name not in run.gpu_types:
            known = ", ".join(run.gpu_types) or "none"
            raise UsageProblem(f"RUN.yaml has no GPU type {name}; under gpu_types there are: {known}.")
    ready, source = _pinned(run)
    if not run.gpu_types:
        return [JobArray(ready, None, source)]
    return [_of_type(ready, name, source) for name in (types or run.gpu_types)]


def _of_type(run: RunFile, name: str, source: Path | None) -> JobArray:
    own = {"folder": run.folder / name, "gpu_types": {name: run.gpu_types[name]}}
    return JobArray(run.model_copy(update=own), name, source)


def read_array(file: Path) -> JobArray:
    """Return the array that a task belongs to, by the description in its folder. Raises UsageProblem."""
    run = load_run_file(file)
    return JobArray(run, next(iter(run.gpu_types), None))


def _pinned(run: RunFile) -> tuple[RunFile, Path | None]:
    """Return a run that says which model and version its nodes must have, and where to copy the model from, if at all.

    A copy lies in a folder that is named after its hash, so that no later model takes its place.
    """
    packages = {"trt-workbench": __version__, **run.checks.packages}
    update: dict[str, object] = {"checks": run.checks.model_copy(update={"packages": packages}), "copy_model": False}
    if run.is_embedded:
        return run.model_copy(update=update), None
    model = Path(str(run.model))
    require_there("model", model)
    found = sha256_of(model)
    if run.model_sha256 not in (None, found):
        raise UsageProblem(f"The model's SHA-256 is {found}, and RUN.yaml names {run.model_sha256}: {model}")
    update["model_sha256"] = found
    if not run.copy_model:
        return run.model_copy(update=update), None
    update["model"] = str(run.folder / "models" / found / model.name)
    return run.model_copy(update=update), model


def _copy_model(model: Path, copied: Path, sha256: str) -> None:
    """Copy a model with what belongs to it, unless it is there."""
    if copied.exists() and sha256_of(copied) == sha256:
        return
    copied.parent.mkdir(parents=True, exist_ok=True)
    if model.is_dir():
        shutil.copytree(model, copied, dirs_exist_ok=True)
    else:
        beside = Model.open(model).facts.external_locations if model.suffix == ".onnx" else ()
        manifest = manifest_path(model)
        for name in (model.name, *beside, *([manifest.name] if manifest.is_file() else [])):
            (copied.parent / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(model.parent / name, copied.parent / name)
    if sha256_of(copied) != sha256:
        raise UsageProblem(f"The copy of the model is not the model; was it changed meanwhile? {copied}")
