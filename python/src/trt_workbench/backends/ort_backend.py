"""What the ONNX Runtime backends have in common: a provider, and a request of what a session is made with."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trt_workbench.backends.base import Backend, SessionOptions

if TYPE_CHECKING:
    from trt_workbench.model.opened import Model

ProviderOptions = dict[str, str]


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
        may_choose: precisions that the provider may take beside those of the graph.
    """

    backend: str
    model: Model
    source: Model
    providers: tuple[tuple[str, ProviderOptions], ...]
    accepted: tuple[str, ...]
    extra: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    may_choose: tuple[str, ...] = ()


class OrtBackend(Backend):
    """ONNX Runtime with one of its providers. It can be asked where nodes go, and for the time that each of them takes.

    Attributes:
        provider: name of the execution provider.
    """

    file_kinds: ClassVar[tuple[str, ...]] = (".onnx",)
    provider: ClassVar[str]

    @abc.abstractmethod
    def request(self, model: Path, options: SessionOptions) -> LoadRequest:
        """Return what a session would be made with. Needs no GPU; converts the model where the precision needs it.

        Raises:
            UsageProblem: an option is unknown or does not fit the others, or the model cannot be had as asked.
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
