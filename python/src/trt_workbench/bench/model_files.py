"""Where the models of a configuration are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trt_workbench.bench.config import BenchConfig, ModelEntry
from trt_workbench.bench.matrix import LLM_KINDS, STREAM
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file
from trt_workbench.core.workspace import ENCODER, embedded_contract, embedded_model
from trt_workbench.model.llm_directory import examine_llm_directory
from trt_workbench.stream import read_contract, read_tensors


def with_models(config: BenchConfig, given: Sequence[str]) -> BenchConfig:
    """Return a configuration with the files that the command line names in place of its own.

    Args:
        config: the configuration.
        given: texts of the form NAME=PATH; a path is relative to the current folder.

    Raises:
        UsageProblem: a text has no such form, or names a model that the configuration lacks.
    """
    models = dict(config.models)
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise UsageProblem(f"--model takes NAME=PATH, not {text!r}.")
        if name not in models:
            raise UsageProblem(f"The configuration has no model {name}; it has: {', '.join(models)}.")
        models[name] = models[name].model_copy(update={"path": Path(path).absolute(), "embedded": None, "needs": None})
    return config.model_copy(update={"models": models})


def model_files(config: BenchConfig) -> Mapping[str, Path]:
    """Return the file, or the folder of a language model, of every model that a scenario runs.

    A model's other files have names as `MODEL/FILE`.

    Raises:
        UsageProblem: a file does not exist, a folder holds no model, or a scenario is for other models.
        ComponentMissing: an embedded model is missing.
    """
    used = [
        name
        for name in config.models
        if any(scenario.models is None or name in scenario.models for scenario in config.scenarios.values())
    ]
    files = {name: _file(name, config.models[name]) for name in used}
    for name in used:
        for other, path in config.models[name].files.items():
            files[f"{name}/{other}"] = _file(f"{name}/{other}", ModelEntry(path=path))
    for scenario, entry in config.scenarios.items():
        for name in entry.models or tuple(config.models):
            if files[name].is_dir() != (entry.kind in LLM_KINDS):
                what = "a folder of a language model" if files[name].is_dir() else "a file, not a folder"
                raise UsageProblem(f"Scenario {scenario} ({entry.kind}) cannot run model {name}, {what}: {files[name]}")
    return files


def contract_file(entry: ModelEntry) -> Path | None:
    """Return the contract of a streaming model; None for any other. Raises ComponentMissing where ours is missing."""
    return embedded_contract() if entry.contract is None and entry.embedded == ENCODER else entry.contract


def check_contracts(config: BenchConfig, files: Mapping[str, Path]) -> None:
    """Raise UsageProblem where a model that a scenario streams has no contract, or one that does not fit."""
    for scenario, entry in config.scenarios.items():
        for name in (entry.models or tuple(config.models)) if entry.kind == STREAM else ():
            path = contract_file(config.models[name])
            if path is None:
                raise UsageProblem(
                    f"Scenario {scenario} ({STREAM}) needs the contract of model {name}; name it in the configuration, "
                    f"next to its path: {files[name]}"
                )
            read_contract(path, read_tensors(files[name]))


def _file(name: str, entry: ModelEntry) -> Path:
    if entry.embedded is not None:
        return embedded_model(entry.embedded)
    if entry.path is None:
        what = (entry.needs or "").rstrip(".")
        raise UsageProblem(f"Model {name} has no file yet: {what}. Then pass --model {name}=PATH.")
    if entry.path.is_dir():
        return examine_llm_directory(entry.path).path
    require_file(f"file of model {name}", entry.path)
    return entry.path
