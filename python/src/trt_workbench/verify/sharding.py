"""Shards of a verification: blocks of its shapes, and how they become the document that one process would have made."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from trt_workbench.backends.registry import gpu_in_use, require_backend
from trt_workbench.core.documents import json_values, key_of, read_lines, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.kept import Note
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_files import (
    ShardRun,
    Shards,
    write_document,
    writing,
)
from trt_workbench.core.work import identity
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.verify.calls import calls
from trt_workbench.verify.data import hash_sources
from trt_workbench.verify.document import VerifyFindings
from trt_workbench.verify.opening import Opened, VerifyRequest, own_model
from trt_workbench.verify.outcome import Tried, TriedCase, TriedRow, judged
from trt_workbench.verify.reference import KeptReference
from trt_workbench.verify.run import BLOCK, MOST_FAILURES, RECORDS, failure_folder, going_on, try_cases
from trt_workbench.verify.settings import VerifySettings

COMMAND: Final = "verify"
WHOLE: Final = ("record", "stack", "seconds")
"""Settings of what one process does."""
_PLACES: Final = ("target", "model", "inputs", "reference", "device", "trust", *WHOLE)


def check_shard(request: VerifyRequest) -> None:
    """Raise UsageProblem where a request asks for what shards do not have."""
    for name in WHOLE:
        if getattr(request, name):
            raise UsageProblem(f"--shard divides the shapes; run --{name} in one process, or leave it out.")
    if not (request.seed or request.quick or request.inputs or Path(request.reference).is_dir()):
        raise UsageProblem(
            "All shards must draw the same sizes: pass the same --seed to each, not 0, or --quick, which draws none."
        )


def verify_shard(
    request: VerifyRequest, shard: Shard, folder: Path, note: Note, step: Note, earlier: Sequence[Path] = ()
) -> None:
    """Try the shapes of a shard, and write `records.jsonl`, `shard.json` and the arrays of failures into `folder`.

    `earlier` are as of `verify`.

    Raises:
        As `verify`, but that no shape may run.
    """
    request = going_on(request, earlier)
    with Opened(request, note) as opened:
        todo = list(calls(request, opened))
        block = shard.block(len(todo), BLOCK)
        tried = try_cases(request, opened, todo, folder, note, step, earlier, block)
    provenance = tried.facts["provenance"]
    write_document(
        folder,
        shard,
        block,
        command=COMMAND,
        unit="shape",
        items=len(todo),
        done=len(block),
        asked=what_decides(request),
        ran={
            "precision": tried.facts["precision"],
            "shapes": [call.case.label for call in todo],
            **{key: provenance.get(key) for key in ("tensorrt", "plan_sha256")},
        },
        whole=json_values({"facts": tried.facts, "drawn": tried.drawn, "ways": tried.ways, "left": tried.left}, str),
    )


def merge_shards(shards: Shards, folder: Path) -> dict[str, Any]:
    """Judge the shapes of all shards as one run, and write its files into `folder`; return what verify.json holds.

    Raises:
        UsageProblem: a shard's files do not fit its shard.json, or no case could be run.
        DeviceFailure: the device failed at every shape.
    """
    try:
        document, arrays = _judged(shards)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = key_of(error.errors()[0]) if isinstance(error, ValidationError) else repr(error)
        raise UsageProblem(
            f"shard.json or records.jsonl of a shard was changed ({what}): {shards.runs[0].directory.parent}"
        ) from error
    with writing(folder):
        for number, place in enumerate(arrays[:MOST_FAILURES], 1):
            shutil.copytree(place, failure_folder(folder, number))
        write_json(folder / "verify.json", document)
    return {**document, "notes": [shards.text]}


def _judged(shards: Shards) -> tuple[dict[str, Any], list[Path]]:
    """Return what verify.json holds, and the folders of the arrays of its failures."""
    wholes = [one.document.whole for one in shards.runs]
    cases = [(one, row) for one in shards.runs for row in _rows(one)]
    ways = [(one, TriedRow(**row)) for one, whole in zip(shards.runs, wholes, strict=True) for row in whole["ways"]]
    # of the calls whose limits decide most the last, as in one process
    with_ways = [pair for pair in reversed(cases) if pair[0].document.whole["ways"]]
    chosen = max(with_ways, key=lambda pair: pair[1].decided, default=(None, None))[0]
    kept = [pair for pair in ways if pair[0] is chosen]
    known = {row.row["way"] for _, row in kept if row.failures}
    # what is wrong in another shard and right in this one
    kept += [(one, row) for one, row in ways if one is not chosen and row.failures and row.row["way"] not in known]
    tried = Tried(
        wholes[-1]["facts"],
        wholes[0]["drawn"],
        [row for _, row in cases],
        [row for _, row in kept],
        sum(whole["left"] for whole in wholes),
    )
    document = {**judged(tried).document, "shards": shards.facts()}
    TypeAdapter(VerifyFindings).validate_python(document)
    return document, [failure_folder(one.directory, number) for one, row in (*cases, *kept) for number in row.numbers]


def _rows(one: ShardRun) -> list[TriedCase]:
    found: list[TriedCase] = read_lines(one.directory / RECORDS, TriedCase)
    one.require_count(RECORDS, len(found), one.document.done - one.document.whole["left"])
    return found


def what_decides(request: VerifyRequest) -> dict[str, Any]:
    """Return what decides the result and is known before the work."""
    model = Model.open(request.model) if request.model else own_model(request.target)
    backend = request.backend if request.stack else require_backend(request.backend, request.target.suffix).name
    return identity(
        {
            "model_sha256": sha256_of(request.target),
            "reference_model_sha256": model.sha256 if model else None,
            "reference": (
                KeptReference(reference).index.sha256
                if (reference := Path(request.reference)).is_dir()
                else request.reference
            ),
            "inputs_sha256": hash_sources(request.inputs, request.split),
            "backend": backend,
            "settings": {
                name: getattr(request, name) for name in VerifySettings.__dataclass_fields__ if name not in _PLACES
            },
            "preparation": request.preparation,
        },
        [request.device if request.stack else gpu_in_use(backend, {"device": request.device, **request.options})],
    )
