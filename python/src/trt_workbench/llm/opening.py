"""Open a language model on a backend: PyTorch from the model's folder, every other runtime from an exported graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.language import CachedModel, LanguageBackend, LanguageModel, LogitsModel
from trt_workbench.backends.registry import AUTO, backend_names, get_backend, require_backend
from trt_workbench.backends.state_session import StateSession
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.core.precision import precisions, read
from trt_workbench.engine.profiles import Profile, ShapeRange
from trt_workbench.engine.several_builds import several_builds
from trt_workbench.llm.export import ExportSettings, Note, exported_graph, graph_from_export
from trt_workbench.llm.graph import ExportedGraph, GraphKind, state_names
from trt_workbench.llm.models import SessionCache, SessionLogits, SessionSlots, TwoSessionSlots
from trt_workbench.llm.settings import BackendChoice
from trt_workbench.model.llm_directory import LlmDirectory
from trt_workbench.model.low_precision.kinds import RANDOM

# An exported graph is fp32 and holds no scales for int8: backends refuse that themselves, but only once they have the
# graph, and to export a large model takes minutes.
_WITH_SCALES = "int8"
# Formats that graphs can be made in.
_MADE = precisions(lambda one: one.makes)


@dataclass(frozen=True)
class ModelSource:
    """What is opened, and how.

    Attributes:
        directory: the model.
        device: of a backend that loads the folder itself: "auto", "cpu", "cuda".
        opset: of exported graphs.
        threads: processors that a runtime may use; None for all.
        graphs: folder of export-llm to take graphs from; None to export them here.
        options: further options by backend.
        candidate: makes a graph in another format, where a backend runs graphs as they are; None where none is made.
        say: called with the next step, such as an export.
        note: called with notes about the model for the user, each time that PyTorch loads it.
    """

    directory: LlmDirectory
    device: str
    opset: int
    threads: int | None
    say: Note
    graphs: Path | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    candidate: Callable[[Path, str], Path] | None = None
    note: Note = lambda _: None

    def graph(self, kind: GraphKind, *, slots: int | None = None, batch: int | None = None) -> ExportedGraph:
        """Return an exported graph of the model.

        Raises:
            UsageProblem: it cannot be exported, or the folder of graphs does not hold it.
            CheckFailed: it does not compute what PyTorch computes.
        """
        if self.graphs is not None:
            return graph_from_export(self.graphs, self.directory, kind, slots or 0, batch)
        settings = ExportSettings(opset=self.opset, cache_length=slots, batch=batch)
        return exported_graph(self.directory, kind, settings, self.say)


def parse_backends(text: str) -> tuple[BackendChoice, ...]:
    """Return the backends that a list such as "torch,ort-cpu,trt:fp16" names, in its order.

    Raises:
        UsageProblem: a name is unknown or repeated, or there is none, or a backend does not run language models in
            the precision that it is asked for.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    choices = []
    for part in parts:
        name, _, precision = part.partition(":")
        if name == AUTO or name not in backend_names():
            raise UsageProblem(f"There is no backend {name!r} for --backends; {did_you_mean(name, backend_names())}")
        choices.append(BackendChoice(name, precision or "fp32"))
        check_precision(choices[-1], candidates=True)
    if not choices or len(set(choices)) < len(choices):
        raise UsageProblem(f"--backends takes different backends with commas, such as torch,ort-cpu, not {text!r}.")
    return tuple(choices)


def check_graphs(graphs: Path | None, choices: Sequence[BackendChoice]) -> None:
    """Raise UsageProblem if a folder of graphs is given and no backend runs graphs."""
    if graphs is not None and all(isinstance(get_backend(choice.name), LanguageBackend) for choice in choices):
        names = ", ".join(map(str, choices))
        raise UsageProblem(
            f"--graphs is for backends that run exported graphs; {names} loads the model itself: {graphs}"
        )


def check_precision(choice: BackendChoice, *, candidates: bool = False) -> None:
    """Raise UsageProblem if a backend cannot run any language model in the requested precision.

    Args:
        choice: what is asked for.
        candidates: whether graphs can be made in other formats.
    """
    backend = get_backend(choice.name)
    known = [name for name in backend.precisions if name != _WITH_SCALES]
    if candidates and _takes_candidates(choice.name):
        known += _MADE
    if not known:
        backend.check_precision(choice.precision)
    elif choice.precision not in known:
        raise UsageProblem(
            f"Backend {choice.name} supports language models in {', '.join(known)}, not {choice.precision!r}."
        )


def check_ranges(choices: Sequence[BackendChoice], calibration: str | None, *, cached: bool) -> None:
    """Raise UsageProblem for a format with ranges that cannot be made, before anything is exported.

    Args:
        choices: what is asked for.
        calibration: the text that ranges are found on, or "random"; None without one.
        cached: whether sequences are generated with a cache.
    """
    ranged = [one for one in choices if one.precision in _MADE and _takes_candidates(one.name)]
    ranged = [one for one in ranged if read(one.precision)[0].is_calibrated]
    if not ranged:
        return
    if cached:
        without = [name for name in _MADE if not read(name)[0].is_calibrated]
        raise UsageProblem(
            f"{ranged[0]} cannot generate with a cache: its ranges are calibrated on texts, and the cached graph also "
            f"takes keys and values. Pass --modes generate, or a format without ranges: {', '.join(without)}."
        )
    if calibration is None:
        raise UsageProblem(
            f"{ranged[0]}: Ranges of activations need data: pass --calibration with a text, or --calibration random "
            "for a model labelled as not calibrated."
        )
    if calibration != RANDOM and not Path(calibration).exists():
        raise UsageProblem(f"There is no such file or folder for --calibration: {calibration}")


def open_logits(choice: BackendChoice, source: ModelSource, batch: int, length: int) -> LogitsModel:
    """Open a model for whole sequences of up to `length` tokens, up to `batch` at a time.

    Raises:
        UsageProblem: the model or the precision is not available on this backend.
        ComponentMissing: the backend cannot serve here.
        CheckFailed: the exported graph does not compute what PyTorch computes.
        DeviceFailure: there is not enough memory.
    """
    check_precision(choice, candidates=source.candidate is not None)
    traits = get_backend(choice.name)
    if isinstance(traits, LanguageBackend):
        return _from_folder(choice, source)
    backend = require_backend(choice.name)
    graph = _in_format(choice, source, source.graph("logits"))
    lengths = ShapeRange(min=(1, 1), opt=(batch, length), max=(batch, length))
    shapes = Profile(shapes={"input_ids": lengths, "attention_mask": lengths})
    return SessionLogits(backend.load(graph.path, _options(choice, source, shapes)))


def open_cached(choice: BackendChoice, source: ModelSource, batch: int, prompt: int, capacity: int) -> CachedModel:
    """Open a model for sequences with a cache: `batch` prompts of `prompt` tokens that grow to `capacity`.

    Runtimes of ONNX files keep the keys and values on a GPU, where every step has the same shapes; on the CPU they hand
    them back and forth. TensorRT gets one engine for prompts and one for steps of a single token.

    Raises:
        As `open_logits`.
    """
    check_precision(choice, candidates=source.candidate is not None)
    traits = get_backend(choice.name)
    if isinstance(traits, LanguageBackend):
        return _from_folder(choice, source)
    backend = require_backend(choice.name)
    # without state on the device the cache may grow by a token a step; else buffers and engines are made for one shape
    if not traits.state:
        graph = _in_format(choice, source, source.graph("cached"))
        return SessionCache(backend.load(graph.path, _options(choice, source)), graph)
    graph = source.graph("static", slots=capacity, batch=batch)
    before, after = state_names(graph.layers)
    extra: dict[str, Any] = {"state": dict(zip(after, before, strict=True))}
    lengths = ShapeRange(min=(batch, 1), opt=(batch, prompt), max=(batch, prompt))
    shapes = Profile(shapes={"input_ids": lengths})
    if not traits.plans:
        return SessionSlots(backend.load(graph.path, _options(choice, source, shapes, extra)), graph)
    single = source.graph("step", slots=capacity, batch=batch)
    with several_builds(), ExitStack() as opened:
        prompts = opened.enter_context(backend.load(graph.path, _options(choice, source, shapes, extra)))
        # profiles of the options or their settings file are for prompts: a step has one shape
        fixed = replace(source, options={choice.name: {**source.options.get(choice.name, {}), "profiles": []}})
        steps = opened.enter_context(backend.load(single.path, _options(choice, fixed, extra=extra)))
        assert isinstance(prompts, StateSession)
        assert isinstance(steps, StateSession)
        opened.pop_all()
    return TwoSessionSlots(prompts, steps, graph)


def check_llm_options(backend: str, options: Mapping[str, Any]) -> None:
    """Raise UsageProblem for an option that a backend takes only for other models."""
    if isinstance(found := get_backend(backend), LanguageBackend):
        found.check_language_options(options)


def _from_folder(choice: BackendChoice, source: ModelSource) -> LanguageModel:
    options = source.options.get(choice.name, {})
    check_llm_options(choice.name, options)
    extra = {"device": source.device, **options}
    asked = SessionOptions(threads=source.threads, precision=choice.precision, extra=extra, note=source.note)
    backend = require_backend(choice.name)
    assert isinstance(backend, LanguageBackend)
    return backend.load_language(source.directory, asked)


def _takes_candidates(backend: str) -> bool:
    """Whether a backend runs a graph as it is: another precision is another graph."""
    return get_backend(backend).precisions == ("fp32",)


def _in_format(choice: BackendChoice, source: ModelSource, graph: ExportedGraph) -> ExportedGraph:
    """Return the graph that a backend loads for a precision."""
    precision = choice.precision
    if precision not in _MADE or source.candidate is None or not _takes_candidates(choice.name):
        return graph
    source.say(f"Converting the {graph.kind} graph to {precision}")
    return replace(graph, path=source.candidate(graph.path, precision), data=None)


def _options(
    choice: BackendChoice,
    source: ModelSource,
    shapes: Profile | None = None,
    extra: Mapping[str, Any] | None = None,
) -> SessionOptions:
    return SessionOptions(
        threads=source.threads,
        precision="fp32" if _takes_candidates(choice.name) else choice.precision,
        polls=False,
        extra={**(extra or {}), **source.options.get(choice.name, {})},
        shapes=shapes,
        note=source.say,
    )
