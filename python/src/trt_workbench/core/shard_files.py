"""The run directories of shards: what each says of itself, and what of them may be put together."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import NonNegativeInt, PositiveInt

from trt_workbench.core.artefacts import RunDocument, read_environment, run_document
from trt_workbench.core.counts import counted, plural
from trt_workbench.core.documents import Inside, Strict, read_document, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_there
from trt_workbench.core.hashing import hash_document, hash_file
from trt_workbench.core.shard import Shard
from trt_workbench.core.work import first_difference

SHARD: Final = "shard.json"
_NO_RESULT: Final = "logs/"  # of files in a run directory


class ShardDocument(Strict):
    """shard.json.

    Attributes:
        command: that made it.
        index: of the shard, from 0.
        count: of all shards.
        unit: what is divided, such as "image".
        items: how many there are in the whole run.
        first: the first one of the shard's block.
        end: the one behind its last.
        done: how many of the block are done; fewer than all after an interrupt.
        asked: what decides the result and is known before the work, such as settings and hashes; alike in all shards.
        ran: what was chosen then, such as the precision that the model runs in; alike in all shards.
        whole: what the command needs to make one run of the shards.
        files: SHA-256 of every other file of the run directory, as of when the shard was done, by its name.
        checksum: of all of this but itself.
    """

    schema_version: Literal[1] = 1
    command: str
    index: NonNegativeInt
    count: PositiveInt
    unit: str
    items: NonNegativeInt
    first: NonNegativeInt
    end: NonNegativeInt
    done: NonNegativeInt
    asked: dict[str, Any]
    ran: dict[str, Any]
    whole: dict[str, Any]
    files: dict[Inside, str] = {}
    checksum: str = ""

    def summed(self) -> str:
        """Return what `checksum` is of what is there."""
        return hash_document(self.model_dump(mode="json", exclude={"checksum"}))

    @property
    def shard(self) -> Shard:
        """Which one it is."""
        return Shard(self.index, self.count)

    @property
    def is_whole(self) -> bool:
        """Whether all of its block is done."""
        return self.done == self.end - self.first


@dataclass(frozen=True)
class ShardRun:
    """A run directory of a shard."""

    directory: Path
    document: ShardDocument

    @cached_property
    def run(self) -> RunDocument:
        """Its run.json. Raises UsageProblem as `run_document`."""
        return run_document(self.directory)

    def require_count(self, name: str, found: int, expected: int) -> None:
        """Raise UsageProblem unless a file has as many entries as `shard.json` says."""
        if found != expected:
            raise UsageProblem(
                f"{name} has {found:,} entries and shard.json says {expected:,}; copy the shard again or run it again: "
                f"{self.directory}"
            )


@dataclass(frozen=True)
class Shards:
    """Run directories of shards of one run, which agree.

    Attributes:
        runs: by index.
        missing: indices of the shards that are absent or half done.
    """

    runs: tuple[ShardRun, ...]
    missing: tuple[int, ...]

    @property
    def first(self) -> ShardDocument:
        """What one of them says, as all do."""
        return self.runs[0].document

    def facts(self) -> dict[str, Any]:
        """Return what metrics.json says of them."""
        known = self.first
        return {"count": known.count, "merged": len(self.runs), "missing": [*self.missing], "text": self.text}

    @property
    def text(self) -> str:
        """A sentence on what was put together."""
        known = self.first
        text = f"Merged from {counted(len(self.runs), 'shard')} of {known.count}"
        if not self.missing:
            return f"{text}."
        left = known.items - sum(one.document.done for one in self.runs)
        names = ", ".join(str(Shard(index, known.count)) for index in self.missing)
        return (
            f"{text}: {left:,} of {counted(known.items, known.unit)} are not in the result. Missing or half done: "
            f"{names}."
        )

    def write(self, folder: Path, *, merged_here: bool = False) -> None:
        """Write `shards.json`, and unless all ran here for this run, the `env.json` of the first one's machine.

        Raises:
            UsageProblem: that is absent or damaged.
        """
        if not merged_here:
            read_environment(self.runs[0].directory)
            shutil.copyfile(self.runs[0].directory / "env.json", folder / "env.json")
        rows = [
            {
                **{key: getattr(one.document, key) for key in ("index", "first", "end", "done")},
                **{key: getattr(one.run, key) for key in ("run_id", "started_at", "ended_at")},
                "directory": str(one.directory.absolute()),
            }
            for one in self.runs
        ]
        write_json(folder / "shards.json", {"schema_version": 1, **self.facts(), "shards": rows})


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise UsageProblem in place of an OSError of the block, which writes files of a shard into `folder`."""
    try:
        yield
    except OSError as error:
        raise UsageProblem(
            f"The shard's files cannot be written ({error.strerror}); fix that or pass --output: {folder}"
        ) from error


def write_document(folder: Path, shard: Shard, block: range, **facts: Any) -> ShardDocument:
    """Write `shard.json`, the last file of a shard that did a block, with checksums of all; return it.

    Raises:
        UsageProblem: it cannot be written.
    """
    document = ShardDocument(index=shard.index, count=shard.count, first=block.start, end=block.stop, **facts)
    with writing(folder):
        found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != SHARD)
        names = {path.relative_to(folder).as_posix(): path for path in found}
        kept = {name: hash_file(path) for name, path in names.items() if not name.startswith(_NO_RESULT)}
        document = document.model_copy(update={"files": kept})
        document = document.model_copy(update={"checksum": document.summed()})
        write_json(folder / SHARD, document)
    return document


def _require_unchanged(directory: Path, document: ShardDocument) -> None:
    """Raise UsageProblem where a file of a shard is not what it was when the shard was done."""
    if document.checksum != document.summed():
        raise _changed(SHARD, document, directory)
    for name, known in document.files.items():
        try:
            found = hash_file(directory / name)
        except OSError as error:
            raise _changed(name, document, directory, f"cannot be read ({error.strerror})") from error
        if found != known:
            raise _changed(name, document, directory)


def _changed(
    name: str, one: ShardDocument, directory: Path, what: str = "was changed after the shard was done"
) -> UsageProblem:
    return UsageProblem(f"{name} of shard {one.shard} {what}; copy the shard again or run it again: {directory}")


def done_before(
    folder: Path, shard: Shard, command: str, asked: Callable[[], Mapping[str, Any]]
) -> ShardDocument | None:
    """Return what an earlier run of a shard left in a folder, if it is whole and was asked for the same.

    `asked` hashes files, so it is called only where the rest fits.

    Raises:
        UsageProblem: another shard of the same run is done there, and would be lost.
    """
    try:
        known = read_shard_run(folder).document
    except UsageProblem:
        return None
    same = (known.command, known.count) == (command, shard.count) and known.is_whole and known.asked == dict(asked())
    if same and known.shard != shard:
        raise UsageProblem(
            f"This folder has shard {known.shard} of the same run, which is done; give shard {shard} a folder of its "
            f"own with --output: {folder}"
        )
    return known if same else None


class _Said(dict[str, Any]):
    """A part of shard.json; a key that its command asks for and that is not there was deleted."""

    def __init__(self, found: Mapping[str, Any], directory: Path) -> None:
        super().__init__(found)
        self._directory = directory

    def __missing__(self, key: str) -> Any:
        raise UsageProblem(f"shard.json lacks {key}; it was changed: {self._directory}")


def read_shard_run(directory: Path) -> ShardRun:
    """Return the run directory of a shard. Raises UsageProblem where it is none, or a file is absent or was changed."""
    run, found = run_document(directory), read_part(directory)
    if found.document.command != run.command or found.document.index >= found.document.count:
        raise UsageProblem(f"shard.json and run.json do not fit each other; they were changed: {directory}")
    return found


def read_part(directory: Path) -> ShardRun:
    """Return what lies in a folder with a `shard.json`. Raises UsageProblem where a file is absent or was changed."""
    document = read_document(directory / SHARD, ShardDocument)
    _require_unchanged(directory, document)
    parts = {name: _Said(getattr(document, name), directory) for name in ("asked", "ran", "whole")}
    return ShardRun(directory, document.model_copy(update=parts))


def read_shards(places: Sequence[Path], *, partial: bool) -> Shards:
    """Return the shards of a run, by index.

    Args:
        places: their run directories, or folders that hold these.
        partial: take what is there, also half shards.

    Raises:
        UsageProblem: a shard is absent, half done, there twice or damaged, or it is of another run: the message names
            the first difference.
    """
    with ThreadPoolExecutor() as pool:  # nearly all of the time is hashing
        runs = sorted(pool.map(read_shard_run, _directories(places)), key=lambda one: one.document.index)
    base = runs[0]
    for one in runs[1:]:
        _require_alike(base, one)
    for one, other in itertools.pairwise(runs):
        if one.document.index == other.document.index:
            raise UsageProblem(
                f"Shard {one.document.shard} is there twice; name one of them: {one.directory} and {other.directory}"
            )
    half = [one.document.index for one in runs if not one.document.is_whole]
    missing = sorted({*range(base.document.count)} - {one.document.index for one in runs} | {*half})
    if missing and not partial:
        absent = ", ".join(
            f"{Shard(index, base.document.count)}{' (half done)' * (index in half)}" for index in missing
        )
        raise UsageProblem(
            f"{counted(len(missing), 'shard')} of {base.document.count} {'is' if len(missing) == 1 else 'are'} "
            f"missing: {absent}. Run "
            "them, or pass --partial to merge the rest."
        )
    blocks = [one.document for one in runs]
    overlap = any(other.first < one.end for one, other in itertools.pairwise(blocks))
    if overlap or (not missing and sum(one.done for one in blocks) != base.document.items):
        raise UsageProblem(
            f"The blocks of these shards do not make {counted(base.document.items, base.document.unit)} once; a "
            f"shard.json was changed: {', '.join(str(one.directory) for one in runs[:3])}"
        )
    return Shards(tuple(runs), tuple(missing))


def _directories(places: Sequence[Path]) -> list[Path]:
    """Return the run directories of shards that are meant by some folders: these, or those in them."""
    found = []
    for place in places:
        require_there("folder of shards", place)
        inside = [place] if (place / SHARD).exists() or (place / "run.json").exists() else list(_within(place))
        if not inside:
            raise UsageProblem(f"There is no shard in this folder; make one with --shard I/N --output DIR: {place}")
        found += inside
    return found


def _within(place: Path) -> Iterator[Path]:
    """Yield the run directories of shards in a folder, without those that a process has not finished."""
    if place.is_dir():
        yield from sorted(one.parent for one in place.glob(f"*/{SHARD}") if not one.parent.name.startswith("."))


def _require_alike(one: ShardRun, other: ShardRun) -> None:
    """Raise UsageProblem where two shards are not of one run, with the first difference."""
    if found := first_difference(_said(one), _said(other)):
        name, mine, theirs = found
        raise UsageProblem(
            f"These shards are not of one run: {name} is {mine} in {one.document.shard} and {theirs} in "
            f"{other.document.shard}: {one.directory} and {other.directory}"
        )


def _said(one: ShardRun) -> dict[str, Any]:
    known = one.document
    named = {"command": known.command, "number of shards": known.count, f"number of {plural(known.unit)}": known.items}
    return {**named, **known.asked, **known.ran}
