"""What the ONNX Runtime backends have in common: a provider, and a request of what a session is made with."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from trt_workbench.backends.abilities import DividesModels, Profiles, Reproduces, Reproduction
from trt_workbench.backends.base import Backend, SessionOptions

if TYPE_CHECKING:
    from trt_workbench.backends.ort.plugin import PluginProvider
    from trt_workbench.backends.profiling import Profiled, ProfiledRuns
    from trt_workbench.model.opened import Model
    from trt_workbench.model.partitions import PartitionRequest, Partitions

ProviderOptions = dict[str, str]
_ONNX_RUNTIME = """session = ort.InferenceSession(here / "minimal.onnx", providers=["{provider}"])
found = dict(zip(expected, session.run(list(expected), inputs)))
"""


@dataclass(frozen=True)
class LoadRequest:
    """What a session will be made with; nothing of it needs a GPU.

    Attributes:
        backend: name of the backend, for messages.
        model: what to load, after a conversion if one was needed.
        source: what was named.
        providers: in order of preference, with their options as ONNX Runtime takes them.
        accepted: providers on which nodes may be without it being a fallback.
        extra: the checked options.
        provenance: what is known before loading.
        may_choose: precisions that the provider may take besides those of the graph.
        plugin: where the first provider is, if it is in a library of its own.
    """

    backend: str
    model: Model
    source: Model
    providers: tuple[tuple[str, ProviderOptions], ...]
    accepted: tuple[str, ...]
    extra: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    may_choose: tuple[str, ...] = ()
    plugin: PluginProvider | None = None


class OrtBackend(Backend, Profiles, DividesModels, Reproduces):
    """ONNX Runtime with one of its providers. It can be asked where nodes go, and for the time that each of them takes.

    Attributes:
        provider: name of the execution provider.
    """

    file_kinds: ClassVar[tuple[str, ...]] = (".onnx",)
    # its rewrites are wrong at times: zeros that a Pad adds become minus infinity inside a MaxPool (ONNX Runtime 1.31)
    as_reference: ClassVar[Mapping[str, Any]] = MappingProxyType({"graph_optimization_level": "disable"})
    provider: ClassVar[str]

    @abc.abstractmethod
    def request(self, model: Path, options: SessionOptions) -> LoadRequest:
        """Return what a session would be made with. Needs no GPU; converts the model where the precision needs it.

        Raises:
            UsageProblem: an option is unknown or does not fit the others, or the model is not available as requested.
        """

    def prepare(self, model: Path, options: SessionOptions) -> LoadRequest:
        """Return the request, with folders and process made ready for it.

        Raises:
            UsageProblem: as `request`.
            ComponentMissing: the provider cannot serve here.
        """
        request = self.request(model, options)
        self.availability().required(self.name)
        return request

    def profile(self, model: Path, options: SessionOptions, runs: ProfiledRuns) -> Profiled:
        """Run the model with ONNX Runtime's profiler, as `Profiles` describes."""
        from trt_workbench.backends.ort.profile import profiled_runs, read_trace
        from trt_workbench.backends.profiling import Profiled

        runs.folder.mkdir(parents=True, exist_ok=True)
        count = runs.warmup + runs.iterations
        file, provenance = profiled_runs(self, model, options, runs.feed, count, runs.folder)
        trace = read_trace(file, runs.warmup, runs.nodes)
        return Profiled(trace.operations, provenance, trace.run_ms, notes=trace.notes)

    def partitions(self, request: PartitionRequest) -> Partitions:
        """Ask ONNX Runtime for the assignment that it makes, as `DividesModels` describes."""
        from trt_workbench.backends.ort.partitions import ort_partitions

        return ort_partitions(self, request)

    def reproduction(self, options: SessionOptions, provenance: Mapping[str, Any]) -> Reproduction | None:  # noqa: ARG002
        """Return a script that uses only ONNX Runtime, as `Reproduces` describes."""
        if options.precision != "fp32" or options.extra or options.shapes:
            return None
        body = _ONNX_RUNTIME.format(provider=self.provider)
        return Reproduction("onnxruntime and numpy", "import numpy as np, onnxruntime as ort", body)
