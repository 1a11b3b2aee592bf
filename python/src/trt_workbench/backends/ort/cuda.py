"""The backend `ort-cuda`: ONNX Runtime with its CUDA execution provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from trt_workbench.backends.base import Availability, Session, SessionOptions
from trt_workbench.backends.extra_options import INT16, INT32, SIZE, Option
from trt_workbench.backends.ort.backend import LoadRequest, OrtBackend
from trt_workbench.backends.ort.common import CPU_PROVIDER, CUDA_PROVIDER
from trt_workbench.backends.ort.gpu import checked_options, load_gpu_session, provider_options
from trt_workbench.backends.ort.libraries import gpu_availability
from trt_workbench.backends.tf32 import check_tf32_allowed
from trt_workbench.core.precision import GRAPH_PRECISIONS
from trt_workbench.core.settings import parts

# The names are ONNX Runtime's; None means its own default. `use_tf32` and `enable_cuda_graph` follow from
# the session's options.
CUDA_OPTIONS: Mapping[str, Option] = {
    "device_id": Option(int, default=0, minimum=0, maximum=INT16, help="Index of the GPU."),
    "gpu_mem_limit": Option(int, minimum=1, maximum=SIZE, help="Largest size of the arena in bytes."),
    "arena_extend_strategy": Option(("kNextPowerOfTwo", "kSameAsRequested"), help="How the arena grows."),
    "cudnn_conv_algo_search": Option(("EXHAUSTIVE", "HEURISTIC", "DEFAULT"), help="How cuDNN chooses an algorithm."),
    "cudnn_conv_use_max_workspace": Option(bool, help="Let cuDNN use as much workspace as it needs."),
    "cudnn_conv1d_pad_to_nc1d": Option(bool, help="Pad 1-D convolutions as [N, C, 1, D]."),
    "do_copy_in_default_stream": Option(bool, help="Copy in the compute stream."),
    "enable_skip_layer_norm_strict_mode": Option(bool, help="Accumulate SkipLayerNormalization in fp32."),
    "fuse_conv_bias": Option(bool, help="Fuse the bias into convolutions."),
    "prefer_nhwc": Option(bool, help="Use channels-last kernels."),
    "sdpa_kernel": Option(int, minimum=0, maximum=INT32, help="Bit mask of the attention kernels allowed."),
    "tunable_op_enable": Option(bool, help="Use tuned operators."),
    "tunable_op_tuning_enable": Option(bool, help="Tune operators while running."),
    "tunable_op_max_tuning_duration_ms": Option(
        int, minimum=0, maximum=INT32, help="Longest tuning of one operator, in ms."
    ),
    "use_ep_level_unified_stream": Option(bool, help="One stream for the whole provider."),
}


class OrtCudaBackend(OrtBackend):
    """ONNX Runtime on a CUDA device; every node that computes data must run there.

    Extra options: those of ONNX Runtime's CUDA provider by their own names (CUDA_OPTIONS), and `allow_fallback`,
    `cuda_graph`, `keep_fp32`, `graph_optimization_level`, `allow_spinning`, `state`. Precision "fp32" is as exported,
    "fp16" converts an fp32 model and records it.
    """

    name: ClassVar[str] = "ort-cuda"
    precisions: ClassVar[tuple[str, ...]] = GRAPH_PRECISIONS
    devices: ClassVar[tuple[str, ...]] = ("cuda",)
    gpu_option: ClassVar[str | None] = "device_id={}"
    state: ClassVar[bool] = True
    provider: ClassVar[str] = CUDA_PROVIDER

    def availability(self) -> Availability:
        """Say whether the CUDA provider and the libraries that it links can be opened, and whether a GPU works."""
        return gpu_availability(CUDA_PROVIDER)

    def check_options(self, options: SessionOptions) -> None:
        """Raise UsageProblem for an option that is unknown, wrong or does not fit the others."""
        super().check_options(options)
        checked_options(self.name, CUDA_OPTIONS, options)

    def request(self, model: Path, options: SessionOptions) -> LoadRequest:
        """Return what a session would be made with, as `OrtBackend` says."""
        from trt_workbench.backends.graph_precision import model_in_precision
        from trt_workbench.backends.simulation import refuse_formats
        from trt_workbench.model.opened import Model

        extra = checked_options(self.name, CUDA_OPTIONS, options)
        if options.tf32:
            check_tf32_allowed()
        keep = parts(extra["keep_fp32"])
        opened = Model.open(model)
        refuse_formats(self.name, opened, ("bf16",))
        loaded, precision = model_in_precision(self.name, opened, options.precision, keep_fp32=keep)
        provider = provider_options(CUDA_OPTIONS, extra)
        provider |= {"use_tf32": str(options.tf32), "enable_cuda_graph": str(extra["cuda_graph"])}
        return LoadRequest(
            backend=self.name,
            model=loaded,
            source=opened,
            providers=((CUDA_PROVIDER, provider), (CPU_PROVIDER, {})),
            accepted=(CUDA_PROVIDER,),
            extra=extra,
            provenance={**precision, "tf32": options.tf32},
        )

    def _load(self, model: Path, options: SessionOptions) -> Session:
        return load_gpu_session(self.prepare(model, options), options)
