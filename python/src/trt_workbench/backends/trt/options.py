"""What the backend `trt` is asked for: build settings and runner settings from `SessionOptions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.trt.choice import RunnerChoice
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.engine.options import BuildSettings, load_settings

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
