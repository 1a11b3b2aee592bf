"""`trtw make-contract`: a first contract of a streaming model, from its ONNX file."""

from __future__ import annotations

import os
import shlex
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_found
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.launcher import task
from trt_workbench.core.settings import Setting, Target, pairs


@handled
def make_contract(
    model: Target,
    *,
    output: Annotated[Path, Setting("Contract to write; an existing file is not overwritten.", flags="--output -o")],
    first: Annotated[int | None, Setting("Frames of the first chunk, left context included.", min=1)] = None,
    later: Annotated[int | None, Setting("Frames of a later chunk, left context included.", min=1)] = None,
    left_context: Annotated[int | None, Setting("Frames of the previous chunk at the start of a chunk.", min=0)] = None,
    init: Annotated[float | None, Setting("Value of every state before the first chunk.")] = None,
    batch: Annotated[int | None, Setting("Maximum streams per call.", min=1)] = None,
    signal: Annotated[str | None, Setting("Input that takes the stream.", metavar="NAME")] = None,
    time_axis: Annotated[int | None, Setting("Dimension of the signal that holds the frames.", min=0)] = None,
    state: Annotated[
        dict[str, str] | None,
        Setting(
            "Input that takes an output of the previous chunk; repeatable.",
            kind=list[str],
            read=pairs,
            metavar="INPUT=OUTPUT",
        ),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Draft a streaming model's contract from its file.

    What the model does not say is left as TODO and listed. States are found by their names (`cache` and `cache_next`,
    `past` and `present`, `h` and `hn`) and equal shapes, chunks by fixed sizes and the exporter's metadata.
    `check-contract` rejects a contract with a TODO.
    """
    from trt_workbench.core.documents import write_json
    from trt_workbench.model.opened import Model
    from trt_workbench.stream.contract.draft import draft
    from trt_workbench.stream.contract.draft_decoding import add_decoding
    from trt_workbench.stream.contract.draft_stream import Known
    from trt_workbench.stream.contract.graph import StreamGraph
    from trt_workbench.stream.contract.model_tensors import MODEL_SUFFIX, read_tensors
    from trt_workbench.stream.contract.reading import undecided

    if os.path.lexists(output):
        raise UsageProblem(f"The output exists already and is not overwritten; choose another name: {output}")
    streams = None if batch is None else (1, batch, batch)
    known = Known(first, later, left_context, init, streams, signal, time_axis, state or {})
    graph = StreamGraph(Model.open(model)) if model.suffix == MODEL_SUFFIX else None
    with closing(graph) if graph else nullcontext():
        document, notes = draft(model.stem, read_tensors(model), known, graph)
    notes += add_decoding(document, model)
    write_json(output, document)
    left = dict(undecided(document))
    after = task("check-contract", shlex.quote(str(output)), shlex.quote(str(model)))
    said = [
        *(f"State: {pair['input']} takes {pair['output']}" for pair in document["state"]),
        None if document["state"] else "No state was found by names and shapes.",
        *notes,
        *(f"{place}: {words}" for place, words in left.items()),
        f"Contract: {output} ({counted(len(left), 'TODO')} left). Then run: {after}",
    ]
    found = {"contract": str(output), "undecided": left, "state": document["state"], "concluded": notes}
    print_found(found, lambda _: said, as_json=as_json)
