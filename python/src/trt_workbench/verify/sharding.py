"""Shards of a verification: blocks of its shapes, and how they become the document that one process would have made."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from trt_workbench.backends.registry import gpu_in_use, require_backend
from trt_workbench.core.documents import Strict, append_lines, json_values, key_of, read_lines, write_json
from trt_workbench.core.errors import UsageProblem
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
from trt_workbench.verify.outcome import Tried, TriedRow, TriedWays, judged
from trt_workbench.verify.reference import KeptReference
from trt_workbench.verify.run import BLOCK, MOST_FAILURES, failure_folder, try_cases
from trt_workbench.verify.settings import VerifySettings

_WithArrays = tuple[TriedRow, list[Path]]
COMMAND: Final = "verify"
_WHOLE: Final = ("record", "stack", "seconds")
"""Settings of what one process does."""
_PLACES: Final = ("target", "model", "inputs", "reference", "device", "trust", *_WHOLE)
Say = Callable[[str], None]


class _Row(Strict):
    """A line of records.jsonl, as of `TriedRow`."""

    schema_version: Literal[1] = 1
    row: dict[str, Any]
    failures: tuple[str, ...]


def check_shard(request: VerifyRequest) -> None:
    """Raise UsageProblem where a request asks for what shards do not have."""
    for name in _WHOLE:
        if getattr(request, name):
            raise UsageProblem(f"--shard divides the shapes; run --{name} in one process, or leave it out.")
    if not (request.seed or request.quick or request.inputs or Path(request.reference).is_dir()):
        raise UsageProblem(
            "All shards must draw the same sizes: pass the same --seed to each, not 0, or --quick, which draws none."
        )


def verify_shard(request: VerifyRequest, shard: Shard, folder: Path, note: Say, step: Say) -> None:
    """Try the shapes of a shard, and write `records.jsonl`, `shard.json` and the arrays of failures into `folder`.

    Raises:
        As `verify`, but that no shape may run.
    """
    with Opened(request, note) as opened:
        todo = list(calls(request, opened))
        block = shard.block(len(todo), BLOCK)
        tried = try_cases(request, opened, todo, folder, step, block)
    provenance = tried.facts["provenance"]
    with writing(folder):
        append_lines(folder / "records.jsonl", (_Row(row=one.row, failures=tuple(one.failures)) for one in tried.cases))
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
    cases = [_rows(one) for one in shards.runs]
    ways = [TriedWays(whole["ways"]["decided"], [TriedRow(**row) for row in whole["ways"]["rows"]]) for whole in wholes]
    # of the calls whose limits decide most the last, as in one process
    chosen = max(range(len(ways)), key=lambda place: (ways[place].decided, place))
    with_arrays = list(itertools.chain.from_iterable(map(_with_arrays, shards.runs, cases)))
    of_ways = [
        list(_with_arrays(run, way.rows, sum(len(row.failures) for row in rows)))
        for run, way, rows in zip(shards.runs, ways, cases, strict=True)
    ]
    kept = [*of_ways[chosen], *_other_faults(of_ways, chosen)]
    tried = Tried(
        wholes[-1]["facts"],
        wholes[0]["drawn"],
        [one for one, _ in with_arrays],
        TriedWays(ways[chosen].decided, [one for one, _ in kept]),
        sum(whole["left"] for whole in wholes),
    )
    document = {**judged(tried).document, "shards": shards.facts()}
    TypeAdapter(VerifyFindings).validate_python(document)
    return document, [place for _, places in (*with_arrays, *kept) for place in places]


def _rows(one: ShardRun) -> list[TriedRow]:
    found: list[_Row] = read_lines(one.directory / "records.jsonl", _Row)
    one.require_count("records.jsonl", len(found), one.document.done - one.document.whole["left"])
    return [TriedRow(line.row, line.failures) for line in found]


def _with_arrays(one: ShardRun, rows: Sequence[TriedRow], before: int = 0) -> Iterator[_WithArrays]:
    """Yield rows with the folders of the arrays of their failures, of which `before` come first."""
    for row in rows:
        numbers = range(before + 1, before + len(row.failures) + 1)
        yield row, [failure_folder(one.directory, number) for number in numbers]
        before += len(row.failures)


def _other_faults(several: Sequence[Sequence[_WithArrays]], chosen: int) -> Iterator[_WithArrays]:
    """Yield the ways that are wrong in a shard and right in the one whose call one process would have made."""
    known = {row.row["way"] for row, _ in several[chosen] if row.failures}
    for place, ways in enumerate(several):
        for row, arrays in ways:
            if place != chosen and row.failures and row.row["way"] not in known:
                yield row, arrays


def what_decides(request: VerifyRequest) -> dict[str, Any]:
    """Return what decides the result and is known before the work."""
    backend = require_backend(request.backend, request.target.suffix)
    model = Model.open(request.model) if request.model else own_model(request.target)
    record = Path(request.reference).is_dir()
    settings = {name: getattr(request, name) for name in VerifySettings.__dataclass_fields__ if name not in _PLACES}
    return identity(
        {
            "model_sha256": sha256_of(request.target),
            "reference_model_sha256": model.sha256 if model else None,
            "reference": KeptReference(Path(request.reference)).index.sha256 if record else request.reference,
            "inputs_sha256": hash_sources(request.inputs, request.split),
            "backend": backend.name,
            "settings": settings,
            "preparation": request.preparation,
        },
        [gpu_in_use(backend.name, {"device": request.device, **request.options})],
    )
