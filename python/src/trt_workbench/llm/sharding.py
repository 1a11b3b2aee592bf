"""Shards of an evaluation of a language model: blocks of the forward passes over its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trt_workbench.backends.registry import gpu_in_use
from trt_workbench.core.documents import json_values, read_lines
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_file
from trt_workbench.core.shard_files import Shards, write_document
from trt_workbench.core.work import identity
from trt_workbench.llm.document import LlmRecord, unwritable, write_metrics
from trt_workbench.llm.outcome import LlmOutcome, ScoredBackend, metrics_of, rows_of
from trt_workbench.llm.scores import TokenScores
from trt_workbench.llm.settings import REFERENCE, BackendChoice, LlmSettings
from trt_workbench.llm.text import Window
from trt_workbench.model.llm_directory import examine_llm_directory

if TYPE_CHECKING:
    from trt_workbench.llm.run import LlmRequest

COMMAND: Final = "eval-llm"
_OF_MACHINE: Final = ("threads", "allow_unverified")


def write_shard(
    folder: Path,
    request: LlmRequest,
    scored: Sequence[ScoredBackend],
    facts: dict[str, Any],
    groups: Sequence[Sequence[Window]],
    notes: list[str],
) -> LlmOutcome:
    """Write `shard.json`; it has the scores of every forward pass to the last bit.

    Args:
        folder: of the run.
        request: with the shard.
        scored: of the shard; the first is the reference.
        facts: as of `metrics_of`.
        groups: the windows of each forward pass over the whole text.
        notes: what the user should know, in sentences.

    Raises:
        UsageProblem: the file cannot be written.
    """
    shard = request.shard
    assert shard is not None
    block, done = shard.block(len(groups)), len(scored[0].parts)
    document = write_document(
        folder,
        shard,
        block,
        command=COMMAND,
        unit="batch",
        items=len(groups),
        done=done,
        asked=what_decides(request),
        ran=json_values({"recipe": facts["recipe"], "backends": [ran(one) for one in scored]}, str),
        whole=json_values({"facts": facts, "notes": notes, "backends": [_written(one) for one in scored]}, str),
    )
    tokens = sum(part.tokens for part in scored[0].parts)
    return LlmOutcome("complete" if document.is_whole else "partial", {"tokens": tokens, "shard": str(shard)})


def merge_shards(shards: Shards, folder: Path, *, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Score the text of all shards as one run, and write its files into `folder`; return the content of metrics.json.

    `notes` are what the user should know besides, in sentences.

    Raises:
        UsageProblem: nothing is done, a shard was changed, or a file cannot be written.
    """
    wholes = [one.document.whole for one in shards.runs]
    try:
        parts = [[one["parts"] for one in whole["backends"]] for whole in wholes]
        scored = [
            ScoredBackend(
                BackendChoice(**backend["choice"]),
                [_read(part) for one in parts for part in one[place]],
                next((text for whole in wholes if (text := whole["backends"][place]["overflow"])), ""),
                backend["verification"],
                backend["provenance"],
            )
            for place, backend in enumerate(wholes[0]["backends"])
        ]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UsageProblem(f"shard.json was changed ({error!r}): {shards.runs[0].directory}") from error
    counts = {len(one.parts) for one in scored} | {sum(one.document.done for one in shards.runs)}
    if len(counts) > 1 or counts == {0}:
        raise UsageProblem(
            f"The shards hold no scores, or fewer than they say; run them again: {shards.runs[0].directory}"
        )
    facts = wholes[0]["facts"]
    rows = rows_of(scored, facts["max_ppl_increase"])
    said = [*dict.fromkeys(note for whole in wholes for note in whole["notes"]), shards.text, *notes]
    metrics = metrics_of(facts, rows, [], "perplexity" if shards.missing else None, said) | {"shards": shards.facts()}
    try:
        with (folder / "records.jsonl").open("wb") as file:
            for one, whole in zip(shards.runs, wholes, strict=True):
                lines = read_lines(one.directory / "records.jsonl", LlmRecord)
                parts_of = sum(len(backend["parts"]) for backend in whole["backends"])
                # after an interrupt one backend may be ahead
                one.require_count("records.jsonl", min(len(lines), parts_of), parts_of)
                file.write((one.directory / "records.jsonl").read_bytes())
    except OSError as error:
        raise unwritable(folder / "records.jsonl", error) from error
    write_metrics(folder / "metrics.json", metrics)
    return {"schema_version": 1, **metrics}


def what_decides(request: LlmRequest) -> dict[str, Any]:
    """Return what decides the result and is known before the work."""
    directory = examine_llm_directory(request.model)
    settings = [name for name in LlmSettings.__dataclass_fields__ if name not in _OF_MACHINE]
    return identity(
        {
            "model_sha256": directory.sha256,
            "tokenizer_sha256": directory.tokenizer_sha256,
            "text_sha256": hash_file(request.text),
            "calibration_sha256": hash_file(path) if (path := Path(request.calibration or "")).is_file() else None,
            "settings": {name: getattr(request, name) for name in settings},
        },
        [gpu_in_use(one.name, {"device": request.device}) for one in (REFERENCE, *request.backends)],
    )


def ran(one: ScoredBackend) -> dict[str, Any]:
    """Return what a backend runs: its precision, TensorRT and engine, as far as it says them."""
    keys = ("precision_ran", "tensorrt", "plan_sha256")
    return {"backend": str(one.choice), **{key: one.provenance.get(key) for key in keys}}


def _written(one: ScoredBackend) -> dict[str, Any]:
    """Return a backend as JSON values; scores as texts, as JSON has neither NaN nor infinity."""
    parts = [[repr(value) for value in astuple(part)] for part in one.parts]
    return {**{key: getattr(one, key) for key in ("choice", "overflow", "verification", "provenance")}, "parts": parts}


def _read(texts: Sequence[str]) -> TokenScores:
    tokens, nll, agreements, *others = texts
    known = float(agreements) if agreements == "nan" else int(agreements)  # a server may not say
    return TokenScores(int(tokens), float(nll), known, *map(float, others))
