"""Shards of eval-stream: blocks of the precisions, each with all its lanes, as chunks of a stream build on others."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from trt_workbench.backends.registry import backend_names, gpu_in_use, require_backend
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import read_document, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_file
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_files import ShardRun, Shards, write_document
from trt_workbench.core.spread import LEFT_OUT
from trt_workbench.core.work import identity
from trt_workbench.model.opened import sha256_of
from trt_workbench.stream.document import StreamMetrics
from trt_workbench.stream.settings import StreamSettings

COMMAND: Final = "eval-stream"
_WHOLE: Final = ("faults", "record", "streams")
"""Settings of what is done once, or measured: not in shards."""
_OF_MACHINE: Final = ("target", "contract", "model", "device", "allow_unverified", "trust")


def settings_of(settings: StreamSettings, shard: Shard, skipped: Collection[int] = ()) -> StreamSettings:
    """Return the settings of a shard, without the precisions at some places of its block.

    Raises:
        UsageProblem: they ask for what shards do not have.
    """
    for name in _WHOLE:
        if getattr(settings, name) not in (False, (), None):
            raise UsageProblem(f"Shards divide the precisions; run --{name} in one process, or leave it out.")
    block = shard.block(len(settings.precision))
    own = [one for place, one in enumerate(settings.precision[block.start : block.stop]) if place not in skipped]
    return dataclasses.replace(settings, precision=tuple(own))


def write_shard(
    folder: Path,
    settings: StreamSettings,
    target: Path,
    shard: Shard,
    metrics: StreamMetrics | None,
    skipped: Collection[int] = (),
) -> None:
    """Write `shard.json`.

    Args:
        folder: of the shard.
        settings: of the whole.
        target: the model or plan.
        shard: which one it is.
        metrics: of the shard; None of one without precisions.
        skipped: places of its block that were left out, because worker processes die of them.
    """
    block = shard.block(len(settings.precision))
    left = [settings.precision[block.start + place] for place in sorted(skipped)]
    write_document(
        folder,
        shard,
        block,
        command=COMMAND,
        unit="precision",
        items=len(settings.precision),
        done=len(block) - len(left),
        asked=what_decides(settings, target),
        ran={},
        whole={
            "lanes": len(metrics.lanes) if metrics else 0,
            "precision": [*settings.precision],
            "notes": [f"{LEFT_OUT} {counted(len(left), 'precision')}: {', '.join(left)}."] if left else [],
        },
    )


def merge_shards(shards: Shards, folder: Path, *, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Put the lanes of all shards into one run in `folder`; return the content of its metrics.json.

    `notes` are what the user should know besides, in sentences.

    Raises:
        UsageProblem: a shard's files do not fit each other, or none has a lane.
    """
    runs = [one for one in shards.runs if one.document.whole["lanes"]]
    if not runs:
        raise UsageProblem(f"No shard has a lane: {shards.runs[0].directory.parent}")
    parts = [read_document(one.directory / "metrics.json", StreamMetrics) for one in runs]
    first = parts[0]
    for one, part in zip(runs, parts, strict=True):
        if (part.input, part.chunks, part.contract["sha256"]) != (first.input, first.chunks, first.contract["sha256"]):
            raise UsageProblem(
                "These shards are not of one run: they read other streams, or contracts: "
                f"{runs[0].directory} and {one.directory}"
            )
    failures = [text for part in parts for text in part.failures]
    said = [note for part in parts for note in part.notes]
    said += [note for one in shards.runs for note in one.document.whole["notes"]]
    metrics = first.model_copy(
        update={
            "status": "partial" if shards.missing else "complete",
            "passed": not failures,
            "failures": failures,
            "notes": [*dict.fromkeys([*said, shards.text, *notes])],
            "shards": shards.facts(),
            "settings": {**first.settings, "precision": runs[0].document.whole["precision"]},
            "lanes": [lane for part in parts for lane in part.lanes],
            "closed_over_functional": {
                key: value for part in parts for key, value in part.closed_over_functional.items()
            },
            "verification": [mark for part in parts for mark in part.verification],
        }
    )
    with (folder / "records.jsonl").open("wb") as file:
        for chunk in zip(*(_by_chunk(one, first.chunks) for one in runs), strict=True):
            file.writelines(itertools.chain.from_iterable(chunk))
    write_json(folder / "metrics.json", metrics)
    found: dict[str, Any] = metrics.model_dump(mode="json")
    return found


def _by_chunk(one: ShardRun, chunks: int) -> list[list[bytes]]:
    """Return the lines of records.jsonl of each chunk."""
    lines, lanes = (one.directory / "records.jsonl").read_bytes().splitlines(keepends=True), one.document.whole["lanes"]
    if len(lines) != lanes * chunks:
        raise UsageProblem(
            f"records.jsonl has {len(lines)} lines, not {lanes * chunks}; copy the shard again or run it again: "
            f"{one.directory}"
        )
    return [lines[start : start + lanes] for start in range(0, len(lines), lanes)]


def what_decides(settings: StreamSettings, target: Path) -> dict[str, Any]:
    """Return what decides the result and is known before the work."""
    names = [name for name in StreamSettings.__dataclass_fields__ if name not in _OF_MACHINE]
    source = Path(settings.input) if settings.input else None
    files = {"contract_sha256": settings.contract, "reference_model_sha256": settings.model, "input_sha256": source}
    backend = require_backend(settings.backend, target.suffix)
    return identity(
        {
            "model_sha256": sha256_of(target),
            **{name: hash_file(path) if path and path.is_file() else None for name, path in files.items()},
            "settings": {name: getattr(settings, name) for name in names},
        },
        [
            gpu_in_use(backend.name, {"device": settings.device, **settings.options}),
            *(gpu_in_use(one, {"device": settings.device}) for one in backend_names() if one == settings.reference),
        ],
        timed=True,
    )
