"""Loading a model with one of ONNX Runtime's GPU providers, and checking that this provider really runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.extra_options import Option, checked_extra
from trt_workbench.backends.ort.backend import LoadRequest
from trt_workbench.backends.ort.bound import BoundSession
from trt_workbench.backends.ort.common import (
    CPU_PROVIDER,
    CUDA_PROVIDER,
    LEVELS,
    check_counts,
    session_config,
    translated,
)
from trt_workbench.backends.ort.libraries import preload
from trt_workbench.backends.ort.partitions import RECORD_ENTRY, Assignment, check_assignment, read_assignment
from trt_workbench.backends.ort.plugin import open_session
from trt_workbench.backends.ort.rewrites import assigned_graph, optimised_model
from trt_workbench.backends.ort.slot import Binding
from trt_workbench.backends.pinned import PageableHost, PinnedHost
from trt_workbench.core.errors import ComponentMissing, UsageProblem

if TYPE_CHECKING:
    import onnx
    import onnxruntime as ort

    from trt_workbench.engine.profiles import Profile
    from trt_workbench.model.shape_nodes import NodeKey

# Options of every session on a GPU; they are ours, not a provider's.
SESSION_OPTIONS: Mapping[str, Option] = {
    "allow_fallback": Option(bool, default=False, help="Run nodes that the provider does not take elsewhere."),
    "cuda_graph": Option(bool, default=False, help="Capture and replay one CUDA graph per set of input shapes."),
    "graph_optimization_level": Option(tuple(LEVELS), default="all", help="How far ONNX Runtime rewrites the graph."),
    "allow_spinning": Option(bool, help="Whether idle CPU threads poll instead of sleeping."),
    "keep_fp32": Option(str, default="", help="Operators left in fp32 by a conversion to fp16, separated by commas."),
    "state": Option(dict, help="Output name to input name, for tensors that stay on the device between calls."),
}


def provider_options(names: Iterable[str], extra: Mapping[str, Any]) -> dict[str, str]:
    """Return those options of `extra` that have a value, as ONNX Runtime's parsers read them.

    A boolean is True or False: TensorRT's provider takes no other word, the others take 1 and 0 as well.
    """
    return {name: str(extra[name]) for name in names if extra[name] is not None}


def profile_options(prefix: str, separator: str, profile: Profile) -> dict[str, str]:
    """Return the options of a provider that names ranges of shapes, such as trt_profile_min_shapes=x:1x4,y:1."""
    return {
        f"{prefix}_profile_{end}_shapes": separator.join(
            f"{name}:{'x'.join(map(str, getattr(shape, end)))}" for name, shape in profile.shapes.items()
        )
        for end in ("min", "opt", "max")
    }


def checked_options(backend: str, table: Mapping[str, Option], options: SessionOptions) -> dict[str, Any]:
    """Return the value of every option of SESSION_OPTIONS and of the provider's own `table`.

    Raises:
        UsageProblem: an option is unknown, wrong or does not fit the others.
    """
    check_counts(options)
    extra = checked_extra(backend, {**SESSION_OPTIONS, **table}, options.extra)
    _check_together(extra, options.concurrency)
    return extra


def _check_together(extra: Mapping[str, Any], concurrency: int) -> None:
    """Raise UsageProblem where requested features exclude each other: CUDA graphs, state, several runs at once."""
    if extra["cuda_graph"] and concurrency > 1:
        raise UsageProblem(
            "CUDA graphs of one session cannot be replayed concurrently; use concurrency 1 or cuda_graph=false."
        )
    if extra["state"] and concurrency > 1:
        raise UsageProblem("State belongs to one sequence of calls; use concurrency 1, and one session per sequence.")
    if extra["state"] and (extra["cuda_graph"] or extra.get("trt_cuda_graph_enable")):
        raise UsageProblem("A CUDA graph replays fixed addresses, but those of state alternate; use only one of them.")


def load_gpu_session(request: LoadRequest, options: SessionOptions) -> BoundSession:
    """Load `request.model` and check the assignment of its nodes.

    Raises:
        CheckFailed: nodes that compute data were not taken, and that was not allowed.
        ComponentMissing: ONNX Runtime did not load the provider.
        UsageProblem: the model or an option of the provider is not accepted, the state does not fit the model, or
            there is no such GPU.
        DeviceFailure: the device is out of memory or failed.
    """
    import onnxruntime as ort

    from trt_workbench.model.shape_nodes import data_shaped_outputs

    level, spinning = request.extra["graph_optimization_level"], request.extra["allow_spinning"]
    config, record = session_config(ort, options, level, allow_spinning=spinning)
    config.add_session_config_entry(RECORD_ENTRY, "1")
    on_gpu = request.providers[0][0] != CPU_PROVIDER
    on_device = on_gpu and request.plugin is None  # which copies its inputs and outputs by itself
    if on_gpu:
        preload(ort)
    session = _session(ort, request, config)
    request.model.require_unchanged()
    graph = request.model.proto.graph
    assignment = read_assignment(session)
    assigned = check_assignment(
        assignment,
        request.accepted,
        shape_keys(ort, request, graph, assignment),
        allow_fallback=request.extra["allow_fallback"],
        model=request.source.path,
    )
    provenance = {
        **record,
        **request.provenance,
        **assigned,
        "provider_options": request.providers[0][1]
        if request.plugin
        else session.get_provider_options().get(request.providers[0][0], {}),
    }
    host = PinnedHost() if on_device else PageableHost()
    device = "cuda" if on_device else "cpu"
    device_id = int(request.providers[0][1].get("device_id", 0))
    binding = Binding(
        device,
        device_id,
        host,
        cuda_graph=request.extra.get("cuda_graph", False),
        state=request.extra.get("state") or {},
    )
    return BoundSession(
        request.backend, session, request.source, binding, options.concurrency, provenance, data_shaped_outputs(graph),
        graph=request.model, may_choose=(*request.may_choose, *(("tf32",) if options.tf32 else ())),
        optimised=lambda: _optimised(ort, request),
    )  # fmt: skip


def _optimised(ort: Any, request: LoadRequest) -> onnx.ModelProto | None:
    """Return the graph that the session executes; None of a provider that compiles it, again at every session."""
    if request.providers[0][0] not in (CPU_PROVIDER, CUDA_PROVIDER):
        return None
    level = request.extra["graph_optimization_level"]
    return optimised_model(ort, level, lambda config: _session(ort, request, config))


def shape_keys(ort: Any, request: LoadRequest, graph: onnx.GraphProto, assignment: Assignment) -> frozenset[NodeKey]:
    """Return the nodes that compute shapes, by the names of the file and, if they do not suffice, of the runtime.

    A Transpose before a Shape, for one, becomes a Gather after it, under a name that the file does not have.
    """
    from trt_workbench.model.shape_nodes import shape_nodes

    keys = shape_nodes(graph)
    if all(node in keys for _, node in assignment.outside(*request.accepted)):
        return keys
    rewritten = assigned_graph(ort, request.model.path, request.extra["graph_optimization_level"])
    return keys if rewritten is None else keys | shape_nodes(rewritten)


def _session(ort: Any, request: LoadRequest, config: Any) -> ort.InferenceSession:
    names: Sequence[str] = [name for name, _ in request.providers]
    try:
        session = open_session(ort, request.model.path, config, request.providers, request.plugin)
    except Exception as error:
        what = f"ONNX Runtime cannot load the model on {names[0]}"
        if problem := translated(error, what, request.source.path, request.providers[0][1]):
            raise problem from error
        raise
    missing = [name for name in names if name not in session.get_providers()]
    if missing:
        raise ComponentMissing(
            f"ONNX Runtime did not load {', '.join(missing)} and would run the model on "
            f"{', '.join(session.get_providers())} instead; `trtw backends` says what is missing: "
            f"{request.source.path}"
        )
    return session
