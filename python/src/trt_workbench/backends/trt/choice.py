"""How an engine is loaded and run, as it is asked for. Builds are another matter (`engine/options.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from trt_workbench.core.documents import Strict
from trt_workbench.core.settings import Setting

_Count: TypeAlias = Annotated[int, Setting(min=1)]
_Index: TypeAlias = Annotated[int, Setting(min=0)]


class RunnerChoice(Strict):
    """How an engine is loaded and run. Every field is an extra option of the backend.

    Attributes:
        slots: calls in flight at once; None for the session's concurrency.
        cuda_graph: replay captured CUDA graphs.
        spin: wait by polling, for the least latency at the price of a busy core.
        graph_includes_transfers: copies in the graph too; None lets the runner decide by size.
        profile: optimisation profile; None chooses by the shapes of a call.
        state: output name to input name, for tensors that stay on the device between calls.
        trust: load a plan without a matching manifest.
        allow_host_code: allow a version-compatible plan to execute the host code it carries.
        weight_streaming_budget: bytes of device memory for the weights of a plan that was built with weight streaming,
            or "auto"; None keeps all weights on the device.
        rows: most rows of one call; larger batches are split. None for what the manifest says, else no limit.
        force: build even if the cache holds the engine.
        max_batch: largest batch of the profile that is made for a model where only the batch is dynamic; None for the
            shapes that the session's options name, else for a batch of 1.
        config: YAML file with build settings.
    """

    slots: _Count | None = None
    cuda_graph: bool = True
    spin: bool = True
    graph_includes_transfers: bool | None = None
    profile: _Index | None = None
    state: Mapping[str, str] | None = None
    trust: bool = False
    allow_host_code: bool = False
    weight_streaming_budget: Annotated[int, Setting(min=0, max=(1 << 63) - 1)] | Literal["auto"] | None = None
    rows: _Count | None = None
    force: bool = False
    max_batch: _Count | None = None
    config: Path | None = None
