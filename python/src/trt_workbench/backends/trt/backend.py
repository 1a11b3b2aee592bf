"""The backend `trt`: TensorRT through the native core, from a plan or from an ONNX file by way of the engine cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from trt_workbench.backends.abilities import Profiles, Reproduces, Reproduction
from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.graph_precision import model_in_precision
from trt_workbench.backends.measuring import BRIEFLY
from trt_workbench.backends.profiling import Profiled, ProfiledRuns
from trt_workbench.backends.trt.choice import RunnerChoice
from trt_workbench.backends.trt.layers import time_layers
from trt_workbench.core.documents import key_of, refusal
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.core.precision import parse
from trt_workbench.engine.builder import build, prepare_build
from trt_workbench.engine.loading import CheckedPlan, LoadedEngine, load_engine, read_plan
from trt_workbench.engine.options import BuildSettings, load_settings
from trt_workbench.engine.profiles import batch_profile
from trt_workbench.engine.request import STRONGLY_TYPED_FROM
from trt_workbench.engine.target import examine_target
from trt_workbench.model.opened import Model
from trt_workbench.model.sniff import PLAN_SUFFIXES

_TENSORRT = """builder = trt.Builder(logger := trt.Logger(trt.Logger.WARNING))
explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)  # none in TensorRT 11
network = builder.create_network(0 if explicit is None else 1 << int(explicit))
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file(str(here / "minimal.onnx")), parser.get_error(0)
config = builder.create_builder_config()
{settings}
engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
context = engine.create_execution_context()
arrays = inputs | {{name: np.zeros_like(array) for name, array in expected.items()}}
tensors = {{name: torch.from_numpy(array).cuda() for name, array in arrays.items()}}
for name, tensor in tensors.items():
    if name in inputs:
        context.set_input_shape(name, tuple(tensor.shape))
    context.set_tensor_address(name, tensor.data_ptr())
context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
torch.cuda.synchronize()
found = {{name: tensors[name].cpu().numpy() for name in expected}}
"""


def trt_reproduction(options: SessionOptions, provenance: Mapping[str, Any]) -> Reproduction | None:
    """Return the parts of the script, as `Reproduces` describes."""
    settings = _settings(options, provenance)
    if settings is None:
        return None
    body = _TENSORRT.format(settings="\n".join(settings))
    return Reproduction("tensorrt, torch and numpy", "import numpy as np, tensorrt as trt, torch", body)


def _settings(options: SessionOptions, provenance: Mapping[str, Any]) -> list[str] | None:
    """Return the lines that set a TensorRT builder as the session did; None where they would not be equivalent."""
    types = [row for row in parse(options.precision) if row.is_half or row.is_quantised]
    known = {"optimization_level", "tactic_sources"}
    sources = options.extra.get("tactic_sources", ())
    sources = [sources] if isinstance(sources, str) else list(sources)
    only_off = all(str(name).startswith("-") for name in sources)
    unsaid = len(types) > 1 or any(row.is_quantised for row in types) or options.extra.keys() - known
    if unsaid or not only_off or "converted_file" in provenance:
        return None
    lines = [f"config.set_flag(trt.BuilderFlag.{row.flag.upper()})" for row in types]
    if "tf32" not in options.precision.split("+"):
        lines.append("config.clear_flag(trt.BuilderFlag.TF32)")
    if (level := options.extra.get("optimization_level")) is not None:
        lines.append(f"config.builder_optimization_level = {level}")
    if sources:
        off = " | ".join(f"1 << int(trt.TacticSource.{str(name)[1:].upper()})" for name in sources)
        lines.append(f"config.set_tactic_sources(config.get_tactic_sources() & ~({off}))")
    if options.shapes:
        ranges = {name: (one.min, one.opt, one.max) for name, one in options.shapes.shapes.items()}
        lines.append("profile = builder.create_optimization_profile()")
        lines.append(f"for name, shapes in {ranges!r}.items(): profile.set_shape(name, *shapes)")
        lines.append("config.add_optimization_profile(profile)")
    return lines


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
        raise UsageProblem(
            f"Option {key_of(details)} of backend trt {refusal(details)}, not {details['input']!r}."
        ) from error


class TrtBackend(Backend, Profiles, Reproduces):
    """TensorRT. Extra options are the fields of `RunnerChoice` and `BuildSettings`."""

    name: ClassVar[str] = "trt"
    file_kinds: ClassVar[tuple[str, ...]] = (".onnx", *PLAN_SUFFIXES)
    devices: ClassVar[tuple[str, ...]] = ("cuda",)
    plans: ClassVar[bool] = True
    ranges: ClassVar[bool] = True
    times_kernels: ClassVar[bool] = True
    state: ClassVar[bool] = True

    def availability(self) -> Availability:
        """Say whether the native core, TensorRT of its major version and a GPU are here."""
        target = examine_target()
        found = {
            "tensorrt": target.tensorrt_version,
            "tensorrt headers": target.tensorrt_headers,
            "native": target.native_version,
            "cuda": target.cuda_version,
        }
        versions = {name: version for name, version in found.items() if version}
        if target.missing:
            first = target.missing[0]
            return Availability(ok=False, reason=first.reason, fix=first.fix, versions=versions)
        return Availability(ok=True, versions=versions)

    def check_precision(self, precision: str) -> None:
        """Raise UsageProblem for an unknown type; types may be joined, such as int8+fp16."""
        load_settings(None, {"precision": precision})

    def check_options(self, options: SessionOptions) -> None:
        """Raise UsageProblem for an option that is unknown, wrong or does not fit the others."""
        split_options(options)

    def profile(self, model: Path, options: SessionOptions, runs: ProfiledRuns) -> Profiled:
        """Run the engine with TensorRT's profiler, as `Profiles` describes."""
        from trt_workbench.backends.trt.layers import join_layers
        from trt_workbench.backends.trt.opening import whole_engine

        with self.load(model, options) as opened:
            session = whole_engine(opened)
            inputs = runs.feed(session.inputs, session.loaded)
            own = session.measure(inputs, BRIEFLY).split_ms["compute"]
            found = time_layers(session.loaded, inputs, runs.iterations, runs.profile)
            plan, provenance, notes = session.loaded.plan, session.record(), session.loaded.notes
        return Profiled(
            join_layers(found.layers, found.times, runs.nodes.operators),
            provenance,
            [sum(run) for run in zip(*(times.tolist() for _, times in found.times), strict=True)],
            own.tolist(),
            built=plan.path,
            facts={"plan": str(plan.path), "sha256": plan.sha256, "precision": provenance["precision"]},
            notes=[*notes, *found.notes],
        )

    def reproduction(self, options: SessionOptions, provenance: Mapping[str, Any]) -> Reproduction | None:
        """Return a script for TensorRT's own Python package, as `Reproduces` describes."""
        return trt_reproduction(options, provenance)

    def _load(self, model: Path, options: SessionOptions) -> Session:
        from trt_workbench.backends.trt.opening import open_engine

        choice, settings = split_options(options)
        is_model = model.suffix == ".onnx"
        if not is_model:
            _refuse_build_options(model, options)
        conversion: dict[str, Any] = {}
        if is_model:
            typed, conversion = _typed(Model.open(model, recognise=True), settings, options)
            plan = _build(typed, settings, choice, options)
        else:
            plan = read_plan(model, trust=choice.trust)
        loaded = load_engine(
            plan,
            allow_host_code=choice.allow_host_code,
            device=settings.device,
            plugins=settings.plugins,
            weight_streaming_budget=choice.weight_streaming_budget,
        )
        if not is_model:
            _check_precision(loaded, options)
        for text in loaded.notes:
            options.say(text)
        return open_engine(loaded, choice, options.concurrency, conversion)


def _typed(model: Model, settings: BuildSettings, options: SessionOptions) -> tuple[Model, dict[str, Any]]:
    """Return an fp16 copy of the model, and how it was made, where TensorRT takes types from the graph; else the model.

    So that the same request means the same on every version: before 11 a flag lets TensorRT choose fp16.
    """
    if [name for name in settings.precision if name != "tf32"] != ["fp16"]:
        return model, {}
    version = examine_target(settings.device).tensorrt_version or "0"
    if not settings.strongly_typed and int(version.split(".")[0]) < STRONGLY_TYPED_FROM:
        return model, {}
    typed, record = model_in_precision(TrtBackend.name, model, "fp16")
    if typed is not model:
        names = f"{model.path.name} was converted to fp16: {typed.path}"
        options.say(f"TensorRT {version} takes types from the graph; {names}")
    return typed, record


def _build(model: Model, settings: BuildSettings, choice: RunnerChoice, options: SessionOptions) -> CheckedPlan:
    if not settings.profiles:
        profile = options.shapes if choice.max_batch is None else None
        inputs = [(tensor.name, tensor.shape) for tensor in model.facts.inputs]
        if profile := profile or batch_profile(inputs, choice.max_batch or 1):
            settings = settings.model_copy(update={"profiles": (profile,)})
    return build(prepare_build(model, settings), force=choice.force, note=options.say).plan


def _refuse_build_options(plan: Path, options: SessionOptions) -> None:
    """Raise UsageProblem if an option is given that only a build could honour."""
    # evaluations name the batch that they need, whatever target they get
    building = (BuildSettings.model_fields.keys() | {"config", "force"}) - {"device", "verbosity", "plugins"}
    if asked := sorted(building & options.extra.keys()):
        raise UsageProblem(
            f"Option {asked[0]} is for building, but this is a plan; pass the ONNX file instead, or omit the option: "
            f"{plan}"
        )


def _check_precision(loaded: LoadedEngine, options: SessionOptions) -> None:
    """Raise UsageProblem if another precision is asked for than the plan was built with."""
    manifest = loaded.plan.manifest
    if options.precision == "fp32" or manifest is None:
        return
    asked = BuildSettings.model_validate({"precision": options.precision}).precision_text
    made = "+".join(manifest.precision)
    if asked != made:
        raise UsageProblem(
            f"The plan was built with {made}, not {asked}; build another one, or pass the ONNX file: {loaded.plan.path}"
        )
