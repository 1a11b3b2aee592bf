"""ONNX Runtime's profile of a session: Chrome trace events, made into one operation a node."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trt_workbench.backends.ort.names import origin
from trt_workbench.backends.profiling import Operation
from trt_workbench.backends.roles import node_role
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.layer_precision import data_type
from trt_workbench.model.node_names import ModelNodes

_KERNEL_TIME = "_kernel_time"
_Event = Mapping[str, Any]


@dataclass(frozen=True)
class OrtTrace:
    """What a trace holds of the runs that count.

    Attributes:
        run_ms: time of each run of the model, profiling included.
        operations: one a node, in the order of execution.
    """

    run_ms: list[float]
    operations: list[Operation]


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
            f"ONNX Runtime's profile cannot be read ({error}); is there room where --output points to? File: {path}"
        ) from error
    events = [event for event in document if isinstance(event, dict) and event.get("ph") == "X"]
    runs = sorted(
        (event for event in events if event.get("cat") == "Session" and event.get("name") == "model_run"),
        key=lambda event: float(event["ts"]),
    )[warmup:]
    if not runs:
        raise UsageProblem(f"ONNX Runtime's profile holds no run of the model after {warmup} to warm up: {path}")
    nodes = _collect(events, runs)
    operations = [_operation(node, len(runs), model, place) for place, node in enumerate(nodes)]
    return OrtTrace([float(run["dur"]) / 1e3 for run in runs], operations)


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
    threads: dict[Any, list[_Event]] = defaultdict(list)
    for event in events:
        threads[event.get("tid")].append(event)
    found: list[tuple[_Event, float]] = []
    for line in threads.values():
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
