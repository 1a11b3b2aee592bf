"""ONNX Runtime's own profiler: a session that writes what every node took, on any of its providers."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.backend import OrtBackend
from trt_workbench.backends.ort.common import CPU_PROVIDER, cpu_session, session_config, tensor_spec, translated
from trt_workbench.backends.ort.libraries import preload
from trt_workbench.backends.ort.plugin import open_session
from trt_workbench.backends.profiling import InputFeed, Operation, node_role
from trt_workbench.core.counts import counted, grouped
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.precision import data_type
from trt_workbench.model.node_names import ModelNodes

# The endings of graph fusions and of GenerateUniqueNodeName; what the rewrites of convolutions add before and after
# the name of a node or of its output.
_UNIQUE = re.compile(r"(?:/\w+Fusion/?)?(?:_token_\d+)?$")
_BEFORE = "fused "
_AFTER = "_nchwc"
# Put before the name of a tensor whose type ONNX Runtime changed where it has no kernel for the model's.
_CAST = "InsertedPrecisionFreeCast_"
# Operators that are not part of a model unless they have one of its names.
_MADE = frozenset({"Cast", "MemcpyFromHost", "MemcpyToHost", "ReorderInput", "ReorderOutput"})
# A run that takes longer than the median by more than this factor was interrupted.
_INTERRUPTED = 2
# The longest chain that a fusion absorbs: convolution, addition, activation.
_REACH = 4


def origin(name: str, operator: str | None, model: ModelNodes) -> list[str]:
    """Return the names of the model's nodes in execution order; none if ONNX Runtime made the node up.

    A fused node has the name of its last part (`NAME/QuickGeluFusion/`), of that part's output
    (`OUTPUT_nchwc`) or of its first part (`fused NAME`).
    From the last part the chain is followed back to the node of the same operator.

    Args:
        name: of the node in the session.
        operator: of the node in the session.
        model: the nodes of the file.
    """
    if name in model.operators:
        return [name]
    if operator in _MADE:
        return []
    stem = _UNIQUE.sub("", name, count=1).removeprefix(_BEFORE).removesuffix(_AFTER).removeprefix(_CAST)
    last = stem if stem in model.operators else model.producers.get(stem)
    if last is None:
        return []
    chain = [last]
    while model.operators[chain[0]] != operator and len(chain) < _REACH and chain[0] in model.sources:
        chain.insert(0, model.sources[chain[0]])
    return chain if model.operators[chain[0]] == operator else [last]


_KERNEL_TIME = "_kernel_time"
_Event = Mapping[str, Any]


@dataclass(frozen=True)
class OrtTrace:
    """What a trace holds of the runs that count.

    Attributes:
        run_ms: time of each run of the model, profiling included.
        operations: one a node, in the order of execution; of the runs that nothing interrupted.
        interrupted: how many runs took over twice the median.
    """

    run_ms: list[float]
    operations: list[Operation]
    interrupted: int

    @property
    def notes(self) -> list[str]:
        """What the user should know of the times."""
        found = ["ONNX Runtime reports whole microseconds: for short nodes, use the means, not the medians."]
        if self.interrupted:
            runs = f"{self.interrupted} of {counted(len(self.run_ms), 'run')}"
            found.append(f"{runs} took over twice the median, as if interrupted: their times of nodes are left out.")
        return found


@dataclass
class _Node:
    event: _Event
    us: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    calls: int = 0


def read_trace(path: Path, warmup: int, model: ModelNodes) -> OrtTrace:
    """Return the time of every node, that of nodes in its subgraphs left out.

    Args:
        path: the file that ONNX Runtime wrote.
        warmup: number of runs at the beginning that do not count.
        model: nodes of the file.

    Raises:
        UsageProblem: the file is cut short, or holds fewer runs.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        # ONNX Runtime writes on without a word where the disk is full
        raise UsageProblem(
            f"ONNX Runtime's profile cannot be read ({error}); check the free space where --output points. File: {path}"
        ) from error
    events = [event for event in document if isinstance(event, dict) and event.get("ph") == "X"]
    runs = sorted(
        (event for event in events if event.get("cat") == "Session" and event.get("name") == "model_run"),
        key=lambda event: float(event["ts"]),
    )[warmup:]
    if not runs:
        raise UsageProblem(f"ONNX Runtime's profile has no run of the model after the warm-up of {warmup}: {path}")
    run_ms = [float(run["dur"]) / 1e3 for run in runs]
    # whichever node another program interrupts would be the longest by its mean
    usual = [run for run, ms in zip(runs, run_ms, strict=True) if ms <= _INTERRUPTED * median(run_ms)]
    nodes = _collect(events, usual)
    operations = [_operation(node, len(usual), model, place) for place, node in enumerate(nodes)]
    return OrtTrace(run_ms, operations, len(runs) - len(usual))


def _collect(events: Sequence[_Event], runs: Sequence[_Event]) -> list[_Node]:
    """Sum the own time of every node in every run."""
    starts = np.array([float(run["ts"]) for run in runs])
    ends = starts + np.array([float(run["dur"]) for run in runs])
    nodes: dict[tuple[str, str, str], _Node] = {}
    kernels = (e for e in events if e.get("cat") == "Node" and str(e.get("name", "")).endswith(_KERNEL_TIME))
    for event, own_us in _own_times(kernels):
        number = int(np.searchsorted(starts, float(event["ts"]), side="right")) - 1
        if number < 0 or float(event["ts"]) > ends[number]:
            continue
        arguments = event.get("args", {})
        key = (str(event["name"]), str(arguments.get("op_name")), str(arguments.get("node_index")))
        node = nodes.setdefault(key, _Node(event))
        node.us[number] += own_us
        node.calls += 1
    return list(nodes.values())


def _own_times(events: Iterable[_Event]) -> list[tuple[_Event, float]]:
    """Return each event with its time in µs, less that of the events inside it on the same thread (Loop, If, Scan)."""
    found: list[tuple[_Event, float]] = []
    for line in grouped(events, lambda event: event.get("tid")).values():
        open_: list[tuple[float, int]] = []
        # the outer one first of two that begin in the same microsecond
        for event in sorted(line, key=lambda e: (float(e["ts"]), -float(e["dur"]))):
            start, length = float(event["ts"]), float(event["dur"])
            while open_ and open_[-1][0] <= start:
                open_.pop()
            if open_ and start + length <= open_[-1][0]:
                outer, time_us = found[open_[-1][1]]
                found[open_[-1][1]] = (outer, max(0.0, time_us - length))
            open_.append((start + length, len(found)))
            found.append((event, length))
    return sorted(found, key=lambda pair: float(pair[0]["ts"]))


def _operation(node: _Node, runs: int, model: ModelNodes, place: int) -> Operation:
    arguments = node.event.get("args", {})
    name = str(node.event["name"]).removesuffix(_KERNEL_TIME)
    samples = np.array([node.us.get(number, 0.0) for number in range(runs)]) / 1e3
    operator = str(arguments.get("op_name", "")) or None
    return Operation(
        kind="node",
        index=place,
        name=name,
        operator=operator,
        role=node_role(operator or ""),
        provider=arguments.get("provider"),
        onnx_nodes=origin(name, operator, model),
        input_types=_types(arguments.get("input_type_shape")),
        output_types=_types(arguments.get("output_type_shape")),
        calls=max(1, round(node.calls / runs)),
        median_ms=float(np.median(samples)),
        mean_ms=float(np.mean(samples)),
    )


def _types(tensors: Any) -> list[str]:
    named = [next(iter(tensor), "") for tensor in tensors or [] if isinstance(tensor, dict)]
    return [data_type(name) or name for name in named if name]


TRACES = "onnxruntime*.json"


def profiled_runs(
    backend: OrtBackend, model: Path, options: SessionOptions, feed: InputFeed, runs: int, folder: Path
) -> tuple[Path, Mapping[str, Any]]:
    """Run a model with ONNX Runtime's profiler on.

    Args:
        backend: that would execute it.
        model: the ONNX file.
        options: of the session.
        feed: returns the inputs for the model's inputs.
        runs: how often, warm-up included.
        folder: where ONNX Runtime writes the trace.

    Returns:
        The file with the trace events, and what executed the model.

    Raises:
        UsageProblem: the model or an option is not accepted.
        ComponentMissing: the backend cannot serve here, or ONNX Runtime did not load the provider.
        DeviceFailure: the device failed or is out of memory.
    """
    import onnxruntime as ort

    request = backend.prepare(model, options)
    if formats := request.provenance.get("simulated_formats"):
        raise UsageProblem(
            f"{backend.name} only simulates {' and '.join(formats)}, so times of its nodes say nothing about the "
            f"format; profile the model on a runtime that supports it: {model}"
        )
    earlier = set(folder.glob(TRACES))
    level, spinning = request.extra["graph_optimization_level"], request.extra["allow_spinning"]
    config, record = session_config(ort, options, level, allow_spinning=spinning)
    config.enable_profiling = True
    config.profile_file_prefix = os.fsencode(folder / "onnxruntime")  # bytes: a folder's name may be no text
    if backend.provider != CPU_PROVIDER:
        preload(ort)
    try:
        if backend.provider == CPU_PROVIDER:
            session, int8 = cpu_session(ort, request.model, config)
            record = {**record, **int8}
        else:
            session = open_session(ort, request.model.path, config, request.providers, request.plugin)
        if missing := [name for name, _ in request.providers if name not in session.get_providers()]:
            raise ComponentMissing(
                f"ONNX Runtime did not load {', '.join(missing)}; `trtw backends` says what is missing: {model}"
            )
        for node in session.get_outputs():
            tensor_spec(node, model, backend.name)  # rejects what a run could not return
        inputs = dict(feed([tensor_spec(node, model, backend.name) for node in session.get_inputs()]))
        for _ in range(runs):
            session.run(None, inputs)
        with contextlib.suppress(UnicodeDecodeError):  # of the file's name, where the folder's is no text
            session.end_profiling()
        (trace,) = set(folder.glob(TRACES)) - earlier
    except Exception as error:
        if problem := translated(error, "ONNX Runtime cannot profile the model", model):
            raise problem from error
        raise
    return trace, {**record, "providers": session.get_providers(), "model": str(request.model.path)}
