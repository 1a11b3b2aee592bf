"""The backend `ort-trt`: ONNX Runtime with its TensorRT execution provider."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trt_workbench.backends.base import Availability, Session, SessionOptions
from trt_workbench.backends.extra_options import INT16, INT32, SIZE, Option
from trt_workbench.backends.graph_precision import model_in_precision
from trt_workbench.backends.ort.backend import LoadRequest, OrtBackend
from trt_workbench.backends.ort.common import CPU_PROVIDER, CUDA_PROVIDER, TENSORRT_PROVIDER
from trt_workbench.backends.ort.gpu import checked_options, load_gpu_session, profile_options, provider_options
from trt_workbench.backends.ort.libraries import gpu_availability
from trt_workbench.backends.ort.plugin import PluginProvider, tensorrt_plugin, tensorrt_plugin_availability
from trt_workbench.backends.tf32 import check_tf32_allowed, forbid_tf32
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.gpu import driver_report, why_no_gpu
from trt_workbench.core.hashing import hash_document, hash_file
from trt_workbench.core.precision import get, names
from trt_workbench.core.settings import parts
from trt_workbench.core.workspace import cache_root
from trt_workbench.engine.tensorrt import decode_version

# Left out on purpose: trt_onnx_bytestream* and trt_external_data_bytestream* (addresses in memory),
# trt_engine_decryption_* (loads a library that is handed every engine), user_compute_stream, and
# trt_load_user_initializer, which ONNX Runtime's binding refuses.
# trt_engine_cache_enable, trt_engine_cache_path, trt_timing_cache_enable and trt_timing_cache_path have defaults here
# that ONNX Runtime does not: one folder for everything that can change an engine.
TRT_OPTIONS: Mapping[str, Option] = {
    "device_id": Option(int, default=0, minimum=0, maximum=INT16, help="Index of the GPU."),
    "trt_max_partition_iterations": Option(
        int, minimum=1, maximum=INT32, help="Largest number of attempts at partitioning the graph."
    ),
    "trt_min_subgraph_size": Option(
        int, minimum=1, maximum=INT32, help="Fewest nodes of a subgraph given to TensorRT."
    ),
    "trt_op_types_to_exclude": Option(str, help="Operators kept from TensorRT, separated by commas."),
    "trt_max_workspace_size": Option(
        int, minimum=1, maximum=SIZE, help="Largest workspace in bytes; by default all the memory."
    ),
    "trt_fp16_enable": Option(bool, help="Allow fp16 tactics; follows the precision by default."),
    "trt_bf16_enable": Option(bool, help="Allow bf16 tactics; follows the precision by default."),
    "trt_int8_enable": Option(bool, help="Allow int8 tactics; follows the precision by default."),
    "trt_int8_calibration_table_name": Option(str, help="File with the calibration table."),
    "trt_int8_use_native_calibration_table": Option(bool, help="The table is TensorRT's own, not ONNX Runtime's."),
    "trt_layer_norm_fp32_fallback": Option(bool, help="Keep Pow and Reduce of layer normalisation in fp32."),
    "trt_dla_enable": Option(bool, help="Use the deep-learning accelerator of a Jetson."),
    "trt_dla_core": Option(int, minimum=0, maximum=INT32, help="Index of the accelerator."),
    "trt_engine_cache_enable": Option(bool, default=True, help="Keep engines between processes."),
    "trt_engine_cache_path": Option(str, help="Folder of the engines; one per hash of all inputs by default."),
    "trt_engine_cache_prefix": Option(str, help="Prefix of the engines' file names."),
    "trt_engine_hw_compatible": Option(bool, help="Engines for every GPU from Ampere on; slower."),
    "trt_weight_stripped_engine_enable": Option(bool, help="Engines without weights, refitted at load."),
    "trt_onnx_model_folder_path": Option(str, help="Folder of the model that refits a stripped engine."),
    "trt_timing_cache_enable": Option(bool, default=True, help="Keep timings of tactics between builds."),
    "trt_timing_cache_path": Option(str, help="Folder of the timing cache; that of the engines by default."),
    "trt_force_timing_cache": Option(bool, help="Accept a timing cache of another GPU model."),
    "trt_force_sequential_engine_build": Option(bool, help="Build one engine at a time."),
    "trt_context_memory_sharing_enable": Option(bool, help="Subgraphs share their activation memory."),
    "trt_builder_optimization_level": Option(int, minimum=0, maximum=5, help="0 (fast build) to 5 (most tactics)."),
    "trt_build_heuristics_enable": Option(bool, help="Choose tactics by heuristics; faster builds."),
    "trt_sparsity_enable": Option(bool, help="Use structured sparsity of weights."),
    "trt_auxiliary_streams": Option(int, minimum=-1, maximum=INT32, help="Auxiliary streams; -1 lets TensorRT choose."),
    "trt_tactic_sources": Option(str, help="Tactic sources to add or remove, such as -CUDNN,+CUBLAS."),
    "trt_preview_features": Option(("ALIASED_PLUGIN_IO_10_03",), help="A preview feature by name."),
    "trt_extra_plugin_lib_paths": Option(str, help="Plugin libraries, separated by semicolons; they are code."),
    "trt_profile_min_shapes": Option(str, help="Smallest shapes: input:1x3x640x640,… for every dynamic input."),
    "trt_profile_opt_shapes": Option(str, help="Shapes to optimise for."),
    "trt_profile_max_shapes": Option(str, help="Largest shapes."),
    "trt_cuda_graph_enable": Option(bool, help="Replay CUDA graphs; follows cuda_graph by default."),
    "trt_dump_subgraphs": Option(bool, help="Write each subgraph as ONNX into the current folder."),
    "trt_dump_ep_context_model": Option(bool, help="Write an ONNX file that holds or names the engines."),
    "trt_ep_context_file_path": Option(str, help="Path of that file."),
    "trt_ep_context_embed_mode": Option(
        int, minimum=0, maximum=1, help="1 embeds the engine in that file, 0 refers to it."
    ),
    "trt_detailed_build_log": Option(bool, help="Log each step of a build."),
}

# Options that only the plug-in has, and those that only ONNX Runtime's own provider has. The plug-in fails at
# trt_engine_hw_compatible, as it never reads the card's compute capability.
PLUGIN_OPTIONS: Mapping[str, Option] = {
    "trt_dla_mem_pool_limit": Option(int, minimum=0, maximum=SIZE, help="Memory of the accelerator in bytes."),
    "trt_dla_gpu_fallback_enable": Option(bool, help="Run on the GPU what the accelerator does not take."),
    "trt_dla_enable_uint8_asymmetric_quantization": Option(bool, help="Asymmetric uint8 on the accelerator."),
    "trt_dla_adjust_for_dla": Option(bool, help="Change the network for the accelerator."),
}
NOT_OF_PLUGIN = frozenset({"trt_engine_hw_compatible", "trt_preview_features"})

LEFT_OUT = frozenset(
    {
        "trt_onnx_bytestream",
        "trt_onnx_bytestream_size",
        "trt_external_data_bytestream",
        "trt_external_data_bytestream_size",
        "trt_engine_decryption_enable",
        "trt_engine_decryption_lib_path",
        "trt_load_user_initializer",
    }
)
# Ours: what the provider is told is a profile.
_OWN_OPTIONS: Mapping[str, Option] = {
    "max_batch": Option(int, minimum=1, maximum=INT32, help="Largest batch, where only the batch is dynamic."),
}
PROFILE_OPTIONS = ("trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_profile_max_shapes")


if TYPE_CHECKING:
    from trt_workbench.model.opened import Model

# Part of every cache folder's name: bump when the meaning of a setting changes.
_KEY_VERSION = 1
# From TensorRT 11 on a network's types are those of its graph; the provider's flags have no effect.
_TYPED_FROM = 110000
_FLAGS = {name: option for name in reversed(names()) if (option := f"trt_{name}_enable") in TRT_OPTIONS}
# Where files are kept says nothing about what is in an engine.
_NOT_IN_KEY = ("trt_engine_cache_path", "trt_timing_cache_path", "trt_detailed_build_log", "trt_dump_subgraphs")
_PROFILE = re.compile(r"^[^,]+:\d+(x\d+)*(,[^,]+:\d+(x\d+)*)*$")


class OrtTrtBackend(OrtBackend):
    """ONNX Runtime with TensorRT engines; nodes may only be on TensorRT unless `allow_fallback` is set.

    Extra options: those of ONNX Runtime's TensorRT provider by their own names (TRT_OPTIONS), and `allow_fallback`,
    `cuda_graph`, `keep_fp32`, `graph_optimization_level`, `allow_spinning`, `state`. With `allow_fallback`, the CUDA
    provider and then the CPU provider take what TensorRT does not.
    """

    name: ClassVar[str] = "ort-trt"
    precisions: ClassVar[tuple[str, ...]] = ("fp32", *_FLAGS)
    devices: ClassVar[tuple[str, ...]] = ("cuda",)
    gpu_option: ClassVar[str | None] = "device_id={}"
    ranges: ClassVar[bool] = True
    times_kernels: ClassVar[bool] = True
    state: ClassVar[bool] = True
    provider: ClassVar[str] = TENSORRT_PROVIDER

    def availability(self) -> Availability:
        """Say whether the TensorRT provider and what it links can be opened, and whether a GPU answers.

        It is ONNX Runtime's own where that serves, else the plug-in that `build-ort` makes.
        """
        own = gpu_availability(TENSORRT_PROVIDER)
        return own if own.ok or why_no_gpu(driver_report()) else tensorrt_plugin_availability(own)

    def check_options(self, options: SessionOptions) -> None:
        """Raise UsageProblem for an option that is unknown, wrong or does not fit the others."""
        super().check_options(options)
        checked_options(self.name, {**TRT_OPTIONS, **PLUGIN_OPTIONS, **_OWN_OPTIONS}, options)

    def request(self, model: Path, options: SessionOptions, versions: Mapping[str, str] | None = None) -> LoadRequest:
        """Return the settings for a session. Needs neither TensorRT nor a GPU.

        Args:
            model: the ONNX file.
            options: of the session.
            versions: as `availability` reports them; without "tensorrt" TensorRT 10 is assumed.

        Raises:
            UsageProblem: an option is unknown, or does not fit the others or the model.
        """
        from trt_workbench.backends.simulation import refuse_formats
        from trt_workbench.model.opened import Model

        extra = checked_options(self.name, {**TRT_OPTIONS, **PLUGIN_OPTIONS, **_OWN_OPTIONS}, options)
        plugin = tensorrt_plugin(versions or {}, extra["device_id"])
        _check_serving(extra, plugin)
        opened = Model.open(model)
        release = decode_version(int((versions or {}).get("tensorrt", 100000)))[0]
        refuse_formats(self.name, opened, names(lambda one: one.is_built_by(release)))
        _check_profiles(extra, opened)
        loaded, precision = self._precision(opened, options, extra, int((versions or {}).get("tensorrt", 0)))
        if options.tf32:
            check_tf32_allowed()
        provider = _profile(extra, opened, options) | provider_options({**TRT_OPTIONS, **PLUGIN_OPTIONS}, extra)
        if extra["trt_cuda_graph_enable"] is None:
            provider["trt_cuda_graph_enable"] = str(extra["cuda_graph"])
        digest = _cache_key(opened, provider, options, versions or {})
        folder = cache_root() / "ort-trt" / digest
        if extra["trt_engine_cache_enable"]:
            provider.setdefault("trt_engine_cache_path", str(folder))
        if extra["trt_timing_cache_enable"]:
            provider.setdefault("trt_timing_cache_path", str(folder))
        cuda = {"device_id": provider["device_id"], "use_tf32": str(options.tf32)}
        return LoadRequest(
            backend=self.name,
            model=loaded,
            source=opened,
            providers=((plugin.name, provider), (CPU_PROVIDER, {}))
            if plugin
            else ((TENSORRT_PROVIDER, provider), (CUDA_PROVIDER, cuda), (CPU_PROVIDER, {})),
            accepted=(plugin.name if plugin else TENSORRT_PROVIDER,),
            plugin=plugin,
            extra=extra,
            provenance={**precision, "tf32": options.tf32, "cache_key": digest},
            may_choose=(options.precision,)
            if loaded is opened and extra.get(_FLAGS.get(options.precision, ""))
            else (),
        )

    def prepare(self, model: Path, options: SessionOptions) -> LoadRequest:
        """Return the request with its cache folders; forbid TF32 for the process, as the provider has no option."""
        found = self.availability().required(self.name)
        request = self.request(model, options, found.versions)
        # TensorRT allows TF32 unless disabled
        record: dict[str, Any] = {} if options.tf32 else {"tf32_how": forbid_tf32()}
        for option in ("trt_engine_cache_path", "trt_timing_cache_path"):
            if folder := request.providers[0][1].get(option):
                # engines are code: whoever can write here can run code
                Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        record |= {
            "tensorrt": found.versions.get("tensorrt"),
            "provider_is": "plug-in" if request.plugin else "ONNX Runtime's own",
        }
        return replace(request, provenance={**request.provenance, **record})

    def _load(self, model: Path, options: SessionOptions) -> Session:
        return load_gpu_session(self.prepare(model, options), options)

    def _precision(
        self, model: Model, options: SessionOptions, extra: dict[str, Any], tensorrt: int
    ) -> tuple[Model, dict[str, Any]]:
        """Set the provider's flags for the precision that was requested, or convert the model where there are none."""
        asked = options.precision
        self.check_precision(asked)
        flag = _FLAGS.get(asked)
        chosen = sorted(name for name in _FLAGS.values() if extra[name])
        if asked == "fp32" and chosen:
            raise UsageProblem(
                f"{', '.join(chosen)} was set, but fp32 requested; request the precision itself (fp16, bf16, int8)."
            )
        # of quantised files TensorRT takes the types from the graph
        if asked == "fp32" or get(asked).is_quantised or tensorrt >= _TYPED_FROM:
            loaded, record = model_in_precision(self.name, model, asked, keep_fp32=parts(extra["keep_fp32"]))
        else:
            loaded, record = model, {"precision": asked, "how": f"{flag}=True: TensorRT may choose {asked} or fp32"}
        if flag and tensorrt < _TYPED_FROM and extra[flag] is None:
            extra[flag] = True
        if flag and extra[flag] is False and tensorrt < _TYPED_FROM:
            raise UsageProblem(f"{asked} was requested, but {flag} forbids it; omit one of them.")
        return loaded, record


def _profile(extra: Mapping[str, Any], model: Model, options: SessionOptions) -> dict[str, str]:
    """Return the options for the shapes that the caller will use; else the provider builds again at each new shape.

    Empty where no range is known of each dynamic input, where values decide shapes, and with `allow_fallback`: what
    TensorRT takes may then begin at tensors inside the model, of which it wants ranges too.
    """
    from trt_workbench.engine.profiles import batch_profile

    inputs = [(tensor.name, tensor.shape) for tensor in model.facts.inputs]
    dynamic = {name for name, shape in inputs if not all(isinstance(dim, int) for dim in shape or (None,))}
    profile = options.shapes or (batch_profile(inputs, extra["max_batch"]) if extra["max_batch"] else None)
    if not (profile and dynamic) or not dynamic <= profile.shapes.keys() or profile.values or extra["allow_fallback"]:
        return {}
    return profile_options("trt", ",", profile)


def _check_serving(extra: Mapping[str, Any], plugin: PluginProvider | None) -> None:
    """Raise UsageProblem for an option that the provider which serves does not have."""
    lacking, serving, other = (
        (NOT_OF_PLUGIN, "the plug-in", "ONNX Runtime's own provider")
        if plugin
        else (PLUGIN_OPTIONS.keys(), "ONNX Runtime's own provider", "the plug-in")
    )
    if unknown := sorted(name for name in lacking if extra[name] is not None):
        raise UsageProblem(f"{unknown[0]} is an option of {other}, but here {serving} serves ort-trt.")
    if plugin and (extra["cuda_graph"] or extra["trt_cuda_graph_enable"]):
        raise UsageProblem(
            "A CUDA graph needs inputs on the GPU, and the plug-in reads them from host memory; use cuda_graph=false."
        )


def _check_profiles(extra: Mapping[str, Any], model: Model) -> None:
    """Raise UsageProblem unless min, opt and max are given together, well formed and for inputs of the model."""
    given = [name for name in PROFILE_OPTIONS if extra[name]]
    if given and len(given) < len(PROFILE_OPTIONS):
        raise UsageProblem(f"A profile needs {', '.join(PROFILE_OPTIONS)}; only {', '.join(given)} was given.")
    names = {tensor.name for tensor in model.facts.inputs}
    shapes: list[dict[str, list[int]]] = []
    for option in given:
        if not _PROFILE.match(extra[option]):
            raise UsageProblem(f"{option} must have the form input:1x3x640x640,other:1x77, not {extra[option]!r}.")
        found = dict(part.rsplit(":", 1) for part in extra[option].split(","))
        if unknown := sorted(found.keys() - names):
            raise UsageProblem(f"{option} names {unknown}, but the model's inputs are {sorted(names)}: {model.path}")
        shapes.append({name: [int(dim) for dim in shape.split("x")] for name, shape in found.items()})
    for name in shapes[0] if shapes else ():
        lowest, best, highest = (part.get(name, []) for part in shapes)
        ordered = len(lowest) == len(best) == len(highest) and all(
            low <= mid <= high for low, mid, high in zip(lowest, best, highest, strict=True)
        )
        if not ordered:
            raise UsageProblem(
                f"The profile of {name} must satisfy min <= opt <= max in every dimension: {lowest}, {best}, {highest}."
            )


def _cache_key(model: Model, provider: Mapping[str, str], options: SessionOptions, versions: Mapping[str, str]) -> str:
    """Return the hash of everything that can change an engine, 32 hexadecimal digits."""
    from trt_workbench.core.gpu import driver_report

    report = driver_report()
    index = int(provider["device_id"])
    gpus = report["gpus"]
    gpu = gpus[index] if index < len(gpus) else {}
    table, plugins = provider.get("trt_int8_calibration_table_name"), provider.get("trt_extra_plugin_lib_paths")
    document = {
        "key_version": _KEY_VERSION,
        "model_sha256": model.sha256,
        "provider": {name: value for name, value in sorted(provider.items()) if name not in _NOT_IN_KEY},
        "precision": options.precision,
        "tf32": options.tf32,
        "versions": dict(sorted(versions.items())),
        "driver": report.get("driver_version"),
        "gpu": [gpu.get("name"), gpu.get("compute_capability")],
        "calibration_sha256": _hash_if_file(table),
        "plugins_sha256": [_hash_if_file(path) for path in (plugins or "").split(";") if path],
    }
    return hash_document(document)


def _hash_if_file(path: str | None) -> str | None:
    return hash_file(Path(path)) if path and Path(path).is_file() else None
