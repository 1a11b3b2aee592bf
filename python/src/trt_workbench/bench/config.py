"""What `trtw bench` is asked to measure: models x runtimes x scenarios x repetitions, checked before anything runs."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.backends.preparation import Background, ChannelOrder, Normalize, Resize
from trt_workbench.backends.registry import default_backends, get_backend
from trt_workbench.bench.matrix import LLM_KINDS, STREAM, STREAM_DIMS
from trt_workbench.bench.settings import MatrixSettings
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import check_any
from trt_workbench.core.workspace import EMBEDDED_MODELS
from trt_workbench.core.yaml_settings import load_yaml_settings

ScenarioKind = Literal["arrays", "image-to-boxes", "prefill", "generate", "generate-cached", "stream"]
Positive = Annotated[int, Field(ge=1)]
Size = tuple[Positive, Positive]
Swept = Annotated[tuple[Positive, ...], Field(min_length=1)]
_NO_NAME = re.compile(r"[^A-Za-z0-9._+-]")
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RepetitionSettings(_Strict):
    """How long one repetition runs. The defaults are google/benchmark's half second and trtexec's warm-up.

    Attributes:
        warmup_ms: time that is run before any sample counts; a later slice has its share of it.
        duration_s: least time of samples.
        min_iterations: least number of samples.
        max_iterations: most samples; a long run stops here even before `duration_s`.
        slices: parts into which a repetition is cut where several runtimes of a work take turns, slice by slice, so
            that noise from other programs reaches all alike. Each has at least one sample; there are never more than
            `max_iterations`. With turns the card's power and energy are not measured.
    """

    warmup_ms: Annotated[float, Field(ge=0)] = 200.0
    duration_s: Annotated[float, Field(gt=0)] = 0.5
    min_iterations: Positive = 10
    max_iterations: Positive = 1_000_000
    slices: Positive = 10

    @model_validator(mode="after")
    def _ordered(self) -> RepetitionSettings:
        if self.max_iterations < self.min_iterations:
            raise ValueError(f"max_iterations ({self.max_iterations}) is below min_iterations ({self.min_iterations})")
        return self

    def slice_limits(self, number: int, slices: int, call_ms: float | None) -> SamplingLimits:
        """Return how long one of `slices` runs: its share of the repetition.

        Args:
            number: which one, from 0.
            slices: how many there are.
            call_ms: latency in the slice before, whose call is not repeated to warm up if it takes longer than the
                share of the warm-up; None for the first slice, which has the whole warm-up.
        """
        share = self.warmup_ms / slices
        return SamplingLimits(
            warmup_ms=self.warmup_ms if call_ms is None else share if call_ms < share else 0.0,
            duration_s=self.duration_s / slices,
            min_iterations=math.ceil(self.min_iterations / slices),
            max_iterations=self.max_iterations * (number + 1) // slices - self.max_iterations * number // slices,
        )


class ModelEntry(_Strict):
    """One model: a file, an embedded one by name, or one that the command line has to name.

    Attributes:
        path: ONNX file, plan or folder of a language model, relative to the configuration file.
        embedded: name of a model that comes with the workbench, instead of a path.
        needs: instead of both, a sentence on what is needed and how to get it; `--model NAME=PATH` gives the file.
        family: detector family for image-to-boxes; recognised by default.
        normalize: how pixels are normalised for it; this and the next three are those of `eval-coco`.
        resize: how images are resized.
        channel_order: of the model's input.
        background: which slot of a DETR's logits is the background.
        contract: of a streaming model, relative to the configuration file; the embedded encoder has its own.
        graphs: folder of export-llm with the graphs of a language model; exported at their first use by default.
        files: other files of the same model by name, such as candidates in a lower precision; a runtime takes one by
            its `file`, and is compared with the others as a runtime of the same work.
    """

    path: Path | None = None
    embedded: str | None = None
    needs: str | None = None
    family: str | None = None
    normalize: Normalize | None = None
    resize: Resize | None = None
    channel_order: ChannelOrder | None = None
    background: Background | None = None
    contract: Path | None = None
    graphs: Path | None = None
    files: dict[Name, Path] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_source(self) -> ModelEntry:
        if sum(source is not None for source in (self.path, self.embedded, self.needs)) != 1:
            raise ValueError("a model needs one of path, embedded and needs")
        if self.embedded is not None and self.embedded not in EMBEDDED_MODELS:
            raise ValueError(f"there is no embedded model {self.embedded}; there are: {', '.join(EMBEDDED_MODELS)}")
        return self


class RuntimeEntry(_Strict):
    """One way to execute the models.

    Attributes:
        backend: name of the backend, as `trtw backends` lists it.
        precision: precision that the backend is asked for; a list is swept.
        tf32: whether fp32 matrix products may use TF32.
        threads: processors that the runtime may use, None for all; a list is swept.
        concurrency: calls in flight at once, each on a stream of its own where the runtime has streams; a list is
            swept.
        options: options of this backend only; a list of values is swept.
        file: which of the model's `files` it executes; a list is swept, and null in it is the model itself.
        name: label in tables; by default the backend, with the precision where one other than "fp32" is asked for: that
            one leaves a model as it was exported, in whatever precision; and with the file.
    """

    backend: str
    precision: str | Annotated[tuple[str, ...], Field(min_length=1)] = "fp32"
    tf32: bool = False
    threads: Positive | Swept | None = None
    concurrency: Positive | Swept = 1
    options: dict[str, Any] = Field(default_factory=dict)
    file: Name | Annotated[tuple[Name | None, ...], Field(min_length=1)] | None = None
    name: Name | None = None

    @model_validator(mode="after")
    def _swept_options(self) -> RuntimeEntry:
        if empty := [name for name, value in self.options.items() if value == []]:
            raise ValueError(
                f"option {empty[0]} is a list to sweep without a value; an empty list as a value is written [[]]"
            )
        return self

    @property
    def label(self) -> str:
        """The name in tables."""
        asked = isinstance(self.precision, str) and self.precision != "fp32"
        parts = [
            self.backend,
            *([str(self.precision)] if asked else []),
            *([self.file] if isinstance(self.file, str) else []),
        ]
        return self.name or "-".join(parts)


class ScenarioEntry(_Strict):
    """One kind of work. `batch`, `dims` values and `imgsz` take one value or a list, which is swept.

    Attributes:
        kind: "arrays" (raw input arrays to output arrays), "image-to-boxes" (decoded uint8 image to boxes), "prefill"
            (one pass over a prompt), "generate" (greedy generation without a cache), "generate-cached" (with one) or
            "stream" (one chunk of `batch` streams, each with its state).
        models: names of the models it runs; all by default.
        batch: first dimension of every input that is dynamic there.
        dims: values of the other named dynamic dimensions, such as `sequence`; of a language model, `prompt` and
            `new_tokens`; of streams, `chunk` (frames, by default the contract's).
        imgsz: height and width in pixels, or a list of such pairs: of the source image for image-to-boxes, of the
            model's own dynamic image size for arrays.
        saturation: stop a batch sweep, smallest batch first, once throughput grows by less than this share; None to run
            it all.
    """

    kind: ScenarioKind
    models: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    batch: Positive | Swept = 1
    dims: dict[str, Positive | Swept] = Field(default_factory=dict)
    imgsz: Size | Annotated[tuple[Size, ...], Field(min_length=1)] | None = None
    saturation: Annotated[float, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _fits_kind(self) -> ScenarioEntry:
        if self.kind in LLM_KINDS or self.kind == STREAM:
            known = tuple(LLM_KINDS.get(self.kind, STREAM_DIMS))
            if unknown := sorted(self.dims.keys() - set(known)):
                raise ValueError(f"{self.kind} has no dimension {unknown[0]}; it has: {', '.join(known)}")
            if self.imgsz is not None:
                raise ValueError(f"{self.kind} has no imgsz")
        return self


class BenchConfig(_Strict):
    """A whole matrix.

    Attributes:
        schema_version: of the configuration, 1.
        title: heading of the report.
        seed: of the order of the runs and of random inputs.
        repetitions: how often each point is measured. Mann-Whitney's test is called unreliable below 9
            (google/benchmark, compare.py).
        measure: how long one repetition runs.
        processes: most runtimes that are loaded, and measured in turn, at one time.
        loading: "apart", one runtime after the other, so that each load is timed separately; or "together",
            which is faster where loading means compiling (TensorRT times kernels, and still loads alone).
        compare_outputs: whether the outputs of every point are compared with those of a reference before it is ranked.
        timeout_s: longest time that loading or one slice of a repetition may take before it counts as failed.
        models: by name.
        runtimes: in the order of the tables.
        scenarios: by name.
    """

    schema_version: Literal[1] = 1
    title: str = "Benchmark"
    seed: int = 0
    repetitions: Positive = 9
    measure: RepetitionSettings = RepetitionSettings()
    processes: Positive = 8
    loading: Literal["apart", "together"] = "apart"
    compare_outputs: bool = True
    timeout_s: Annotated[float, Field(gt=0)] = 1800.0
    models: Annotated[dict[Name, ModelEntry], Field(min_length=1)]
    runtimes: Annotated[tuple[RuntimeEntry, ...], Field(min_length=1)]
    scenarios: Annotated[dict[Name, ScenarioEntry], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> BenchConfig:
        labels = [runtime.label for runtime in self.runtimes]
        doubled = sorted({label for label in labels if labels.count(label) > 1})
        if doubled:
            raise ValueError(f"two runtimes are called {doubled[0]}; give one of them another name")
        for name, scenario in self.scenarios.items():
            unknown = sorted(set(scenario.models or ()) - self.models.keys())
            if unknown:
                raise ValueError(f"scenario {name} names the model {unknown[0]}, which is not under models")
        for runtime in self.runtimes:
            for file in runtime.file if isinstance(runtime.file, tuple) else (runtime.file,):
                if lacking := [name for name, model in self.models.items() if file and file not in model.files]:
                    raise ValueError(f"runtime {runtime.label} takes the file {file}, which model {lacking[0]} lacks")
        return self


def load_config(file: Path) -> BenchConfig:
    """Read and check a configuration; relative model paths become relative to its folder.

    Raises:
        UsageProblem: the file is absent, no YAML, or a setting is unknown or wrong; the message names the line.
    """
    config = load_yaml_settings(BenchConfig, file, noun="bench settings")
    folder = file.absolute().parent
    models = {
        name: entry.model_copy(
            update={
                "path": entry.path and folder / entry.path,
                "contract": entry.contract and folder / entry.contract,
                "graphs": entry.graphs and folder / entry.graphs,
                "files": {file: folder / path for file, path in entry.files.items()},
            }
        )
        for name, entry in config.models.items()
    }
    return config.model_copy(update={"models": models})


def matrix_of(model: Path, asked: MatrixSettings) -> tuple[BenchConfig, list[str]]:
    """Return the matrix of one model file: its arrays on every backend, in every precision, at every size.

    Returns:
        The configuration, and why a backend is not asked for a precision, in sentences.

    Raises:
        UsageProblem: a backend or a precision is unknown, or none serves any of the precisions.
    """
    runtimes, refused = [], []
    for name in asked.backends or default_backends():
        backend = get_backend(name)
        for precision in asked.precisions or ("fp32",):
            try:
                backend.check_precision(precision)
                runtimes.append(RuntimeEntry(backend=name, precision=precision))
            except UsageProblem as problem:
                refused.append(str(problem))
    served = {runtime.precision for runtime in runtimes}
    for precision in asked.precisions:
        if precision not in served:
            check_any(precision)
    if not runtimes:
        raise UsageProblem(refused[0])
    name = _NO_NAME.sub("_", model.stem).lstrip("._+-") or "model"
    arrays = ScenarioEntry(kind="arrays", batch=asked.batch or 1, dims=dict(asked.dims))
    models, scenarios = {name: ModelEntry(path=model.absolute())}, {"arrays": arrays}
    return BenchConfig(title=model.name, models=models, runtimes=tuple(runtimes), scenarios=scenarios), refused


def shipped_configs() -> dict[str, Path]:
    """Return the configurations that come with the workbench, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "configs").glob("*.yaml"))}
