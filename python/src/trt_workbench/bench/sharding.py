"""Shards of a bench: blocks of its sweeps, as the runtimes of a work and the batches of a sweep belong together."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from trt_workbench.backends.registry import gpu_in_use
from trt_workbench.bench.config import BenchConfig
from trt_workbench.bench.matrix import Point, sweep_of
from trt_workbench.bench.model_files import model_files
from trt_workbench.core.builds import FILE, BuildGroups, builds_of
from trt_workbench.core.counts import grouped
from trt_workbench.core.documents import append_lines, read_document, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.records import Record, finished_records, records_in
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_files import Shards, write_document
from trt_workbench.core.work import identity
from trt_workbench.model.opened import sha256_of

COMMAND: Final = "bench"


def block_of(points: Sequence[Point], shard: Shard) -> list[Point]:
    """Return the points of a shard: those of a block of the sweeps."""
    sweeps = _sweeps(points)
    block = shard.block(len(sweeps))
    return [point for sweep in sweeps[block.start : block.stop] for point in sweep]


def write_shard(folder: Path, config: BenchConfig, points: Sequence[Point], shard: Shard) -> None:
    """Write `shard.json`; `points` are those of all shards. Raises UsageProblem if it cannot be written."""
    sweeps = _sweeps(points)
    block = shard.block(len(sweeps))
    measured = {(one.key, one.repetition) for one in records_in(folder)}
    wanted = [
        {(point.key, repetition) for point in sweep for repetition in range(config.repetitions)}
        for sweep in sweeps[block.start : block.stop]
    ]
    write_document(
        folder,
        shard,
        block,
        command=COMMAND,
        unit="sweep",
        items=len(sweeps),
        done=sum(one <= measured for one in wanted),
        asked=what_decides(config, points),
        ran={},
        whole={"records": len(records_in(folder))},
    )


def merge_shards(shards: Shards, folder: Path, *, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Put the records and samples of all shards into `folder`; return what is to be said of them, `notes` included.

    Raises:
        UsageProblem: a shard's files do not fit its shard.json, or nothing is measured.
    """
    write_json(folder / "config.json", read_document(shards.runs[0].directory / "config.json", BenchConfig))
    (folder / "samples").mkdir()
    count = 0
    for one in shards.runs:
        records = records_in(one.directory)
        one.require_count("records.jsonl", len(records), one.document.whole["records"])
        put_measured([(one.directory, record) for record in records], folder)
        count += len(records)
    # of builds that one shard measured in turns: all of a sweep are in one; their engines may be where it ran
    if groups := [group for one in shards.runs for group in builds_of(one.directory)]:
        write_json(folder / FILE, BuildGroups(groups=tuple(sorted(groups, key=lambda one: one.label.split(", ")))))
    if not count:
        raise UsageProblem(f"Nothing is measured in these shards: {shards.runs[0].directory.parent}")
    return {"schema_version": 1, "records": count, "notes": [shards.text, *notes], "shards": shards.facts()}


def measured_in(earlier: Iterable[Path]) -> list[tuple[Path, Record]]:
    """Return what runs measured, the newest of which is first, with the run: a repetition once, that of the newest."""
    found = [(left, one) for left in earlier for one in finished_records(left) if one.status == "ok"]
    return [*{(one.key, one.repetition): (left, one) for left, one in reversed(found)}.values()][::-1]


def put_measured(found: Sequence[tuple[Path, Record]], folder: Path) -> None:
    """Put records of other runs into `folder`, with their samples. Raises UsageProblem as `samples_of`."""
    for left, record in found:
        if record.samples:
            shutil.copyfile(samples_of(left, record), folder / record.samples)
    if found:
        append_lines(folder / "records.jsonl", (record for _, record in found))


def samples_of(directory: Path, record: Record) -> Path:
    """Return the file of a record's samples. Raises UsageProblem if it is none of the run's own."""
    path, parts = directory / str(record.samples), PurePosixPath(str(record.samples)).parts
    own = len(parts) == 2 and parts[0] == "samples" and parts[1] != ".."
    if not own or path.is_symlink() or path.parent.is_symlink() or not path.is_file():
        raise UsageProblem(
            f"A record names a file of samples that is not in the run's folder samples ({record.samples}): {directory}"
        )
    return path


def _sweeps(points: Sequence[Point]) -> list[list[Point]]:
    """Return the points that are measured together: of a scenario, model and shape, at all batches on all runtimes."""
    return [*grouped(points, lambda point: sweep_of(point.work)).values()]


def what_decides(config: BenchConfig, points: Sequence[Point]) -> dict[str, Any]:
    """Return what decides the result and is known before the work."""
    hashes = {name: sha256_of(path) for name, path in model_files(config).items()}
    return identity(
        {
            "model_sha256": hashes,
            "settings": config.model_dump(mode="json"),
            "points_sha256": hash_document({"points": [point.key for point in points]}),
        },
        {gpu_in_use(point.backend, point.options) for point in points},
        timed=True,
    )
