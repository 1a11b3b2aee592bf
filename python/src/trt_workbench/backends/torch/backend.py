"""The backends `torch` and `torch-compile`: PyTorch, eager and through torch.compile."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.extra_options import Option, checked_extra
from trt_workbench.backends.language import LanguageBackend
from trt_workbench.backends.ort.common import check_counts
from trt_workbench.backends.torch.common import PRECISIONS, chosen_device, common_record, torch_availability
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.variables import keep_compiled_code

if TYPE_CHECKING:
    import torch as torch_module

    from trt_workbench.backends.torch.llm import TorchLlm
    from trt_workbench.backends.torch.models import TorchModel
    from trt_workbench.model.llm_directory import LlmDirectory

Module = Callable[..., tuple["torch_module.Tensor", ...]]

_OPTIONS: Mapping[str, Option] = {
    "device": Option(str, help="cpu, cuda or cuda:N; by default the GPU if there is one."),
    "channels_last": Option(bool, default=False, help="Store images and filters with the channels last."),
    "trust": Option(bool, default=False, help="Load a .pt2 file, which can contain code."),
}
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_COMPILE_OPTIONS: Mapping[str, Option] = {
    **_OPTIONS,
    "mode": Option(_MODES, default="default", help="reduce-overhead captures CUDA graphs."),
    "dynamic": Option(bool, help="Compile for any size; by default a size that varies becomes dynamic."),
    "fullgraph": Option(bool, help="Fail instead of running a part uncompiled; on by default where possible."),
}
_COMPILERS = ("g++", "clang++", "c++")
_SWITCHES = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")


class TorchBackend(Backend, LanguageBackend):
    """PyTorch, operator by operator. ONNX files are converted to torch.fx; .pt2 files are what torch.export saves.

    Extra options: `device`, `channels_last`, `trust` (for .pt2). Precision fp32, fp16 or bf16: weights and activations
    are held in it, inputs and outputs keep the types of the file. A language model is loaded from its own folder
    (`llm.py`).

    Attributes:
        compiled: whether torch.compile makes the code that runs.
    """

    name: ClassVar[str] = "torch"
    file_kinds: ClassVar[tuple[str, ...]] = (".onnx", ".pt2")
    precisions: ClassVar[tuple[str, ...]] = tuple(PRECISIONS)
    gpu_option: ClassVar[str | None] = "device=cuda:{}"
    compiled: ClassVar[bool] = False
    _options: ClassVar[Mapping[str, Option]] = _OPTIONS

    def availability(self) -> Availability:
        """Say whether PyTorch can be imported and is new enough; versions include the device."""
        return torch_availability()

    def check_options(self, options: SessionOptions) -> None:
        """Raise UsageProblem for an unknown or wrong option."""
        super().check_options(options)
        check_counts(options)
        checked_extra(self.name, self._options, options.extra)

    def check_language_options(self, options: Mapping[str, Any]) -> None:
        """Raise UsageProblem for any option but `device`."""
        if unknown := options.keys() - {"device"}:
            raise UsageProblem(f"{self.name} has no option {min(unknown)!r} for language models, only device.")

    def load_language(self, directory: LlmDirectory, options: SessionOptions) -> TorchLlm:
        """Load a language model by transformers; the option `device` may be "auto"."""
        from trt_workbench.backends.torch.llm import load_torch_llm

        self.check_language_options(options.extra)
        return load_torch_llm(
            directory,
            device=str(options.extra.get("device", "auto")),
            precision=options.precision,
            compiled=self.compiled,
            threads=options.threads,
            note=options.say,
        )

    def _load(self, model: Path, options: SessionOptions) -> Session:
        extra = checked_extra(self.name, self._options, options.extra)
        loaded, device, record = self._prepare(model, options, extra)
        return self._session(loaded.module, loaded, model, device, options, record)

    def _prepare(
        self, model: Path, options: SessionOptions, extra: Mapping[str, Any]
    ) -> tuple[TorchModel, torch_module.device, dict[str, Any]]:
        """Return the model on its device, and the record."""
        self.availability().required(self.name)
        keep_compiled_code()
        import torch

        from trt_workbench.backends.torch.common import translated
        from trt_workbench.backends.torch.models import load_model

        check_counts(options)
        device = chosen_device(extra["device"])
        loaded = load_model(model, getattr(torch, PRECISIONS[options.precision]), trust=extra["trust"])
        record = common_record(options, device, extra["device"])
        try:
            loaded.module.to(device)
            if extra["channels_last"]:
                loaded.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        except Exception as error:
            if problem := translated(error, f"PyTorch cannot put the model on {device}", model):
                raise problem from error
            raise
        return loaded, device, {**record, **loaded.record, "channels_last": extra["channels_last"]}

    def _session(
        self,
        run: Module,
        loaded: TorchModel,
        model: Path,
        device: torch_module.device,
        options: SessionOptions,
        record: Mapping[str, Any],
        lock: threading.Lock | None = None,
    ) -> Session:
        from trt_workbench.backends.torch.session import TorchSession

        return TorchSession(run, loaded, model, device, options, record, lock)


class TorchCompileBackend(TorchBackend):
    """PyTorch through torch.compile; each set of input shapes compiles at its first run, which takes a while.

    What PyTorch does not compile, or no longer after its limit of different inputs, is an error; without one it would
    run uncompiled.

    Extra options: those of `torch`, and `mode` ("reduce-overhead" captures CUDA graphs), `dynamic`, `fullgraph`.
    Runs take turns: compiled code with CUDA graphs has one set of buffers.
    """

    name: ClassVar[str] = "torch-compile"
    compiled: ClassVar[bool] = True
    _options: ClassVar[Mapping[str, Option]] = _COMPILE_OPTIONS

    def availability(self) -> Availability:
        """Say whether PyTorch serves, may compile, and has the C++ compiler that generated code needs."""
        found = torch_availability()
        if found.ok and (switch := next((name for name in _SWITCHES if os.environ.get(name) == "1"), None)):
            reason = f"{switch}=1 disables torch.compile, so everything would run uncompiled."
            return Availability(ok=False, reason=reason, fix=f"Unset {switch}.", versions=found.versions)
        if found.ok and compiler() is None:
            named = os.environ.get("CXX")
            absent = f"{named} is not" if named else f"none of {', '.join(_COMPILERS)} is"
            reason = f"torch.compile needs a C++ compiler, but {absent} installed."
            fix = "Install one (`apt-get install g++`, or `cxx-compiler` from conda-forge) or set CXX to it."
            return Availability(ok=False, reason=reason, fix=fix, versions=found.versions)
        return found

    def _load(self, model: Path, options: SessionOptions) -> Session:
        extra = checked_extra(self.name, self._options, options.extra)
        loaded, device, record = self._prepare(model, options, extra)
        import torch

        # a node that reads a tensor on the host splits the graph; without one a split would be a silent slow-down
        fullgraph = extra["fullgraph"]
        if fullgraph is None:
            fullgraph = not (record.get("host_reads") or record.get("uncompiled"))
        settings = {"mode": extra["mode"], "dynamic": extra["dynamic"], "fullgraph": fullgraph}
        run = torch.compile(loaded.module, **settings)
        if not fullgraph:
            run = _without_giving_up(run)
        record = {**record, "compile": settings, "compiler": compiler()}
        return self._session(run, loaded, model, device, options, record, threading.Lock())


def _without_giving_up(run: Module) -> Module:
    """Make PyTorch raise an error where it would continue uncompiled; with `fullgraph` it does so by itself.

    The settings are of the process, or of the thread, so they hold for one call only.
    """
    from torch._dynamo import config

    strict = config.patch(fail_on_recompile_limit_hit=True, suppress_errors=False)

    def strictly(*tensors: torch_module.Tensor) -> tuple[torch_module.Tensor, ...]:
        with strict:
            return run(*tensors)

    return strictly


def compiler() -> str | None:
    """Return the path of the C++ compiler that torch.compile will find: $CXX, else the usual names; None without."""
    names = (os.environ["CXX"],) if os.environ.get("CXX") else _COMPILERS
    return next(filter(None, map(shutil.which, names)), None)
