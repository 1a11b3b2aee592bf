"""What the backend `trt` is asked for: build settings and runner settings from `SessionOptions`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trt_workbench.backends.base import SessionOptions
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.engine.options import BuildSettings, load_settings


class RunnerChoice(BaseModel):
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

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: Annotated[int, Field(ge=1)] | None = None
    cuda_graph: bool = True
    spin: bool = True
    graph_includes_transfers: bool | None = None
    profile: Annotated[int, Field(ge=0)] | None = None
    state: Mapping[str, str] | None = None
    trust: bool = False
    allow_host_code: bool = False
    weight_streaming_budget: Annotated[int, Field(ge=0, lt=1 << 63)] | Literal["auto"] | None = None
    rows: Annotated[int, Field(ge=1)] | None = None
    force: bool = False
    max_batch: Annotated[int, Field(ge=1)] | None = None
    config: Path | None = None


_RUNNER_KEYS = tuple(RunnerChoice.model_fields)


def split_options(options: SessionOptions) -> tuple[RunnerChoice, BuildSettings]:
    """Return how to run and how to build.

    Extra options are the fields of `RunnerChoice` and of `BuildSettings`.

    Raises:
        UsageProblem: an option is unknown or wrong.
    """
    known = (*_RUNNER_KEYS, *BuildSettings.model_fields)
    for key in options.extra:
        if key not in known:
            raise UsageProblem(f"Backend trt has no option {key!r}; {did_you_mean(key, known)}")
    choice = _choice({key: options.extra[key] for key in _RUNNER_KEYS if key in options.extra})
    overrides = {key: value for key, value in options.extra.items() if key in BuildSettings.model_fields}
    # the session's precision counts unless a settings file decides and nothing else was asked for
    if "precision" not in overrides and (choice.config is None or options.precision != "fp32" or options.tf32):
        overrides["precision"] = f"{options.precision}+tf32" if options.tf32 else options.precision
    settings = load_settings(choice.config, overrides)
    if choice.slots is not None and choice.slots < options.concurrency:
        raise UsageProblem(f"{options.concurrency} concurrent calls need as many slots, not {choice.slots}.")
    return choice, settings


def _choice(given: Mapping[str, Any]) -> RunnerChoice:
    try:
        return RunnerChoice.model_validate(given)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        name, reason = ".".join(map(str, details["loc"])), details["msg"]
        raise UsageProblem(
            f"Option {name} of backend trt is wrong ({reason[0].lower()}{reason[1:]}): {details['input']!r}."
        ) from error
