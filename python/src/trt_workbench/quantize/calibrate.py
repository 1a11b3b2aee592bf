"""Calibration: the float model runs on the CPU over samples, and every activation's values are counted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import load_reference
from trt_workbench.core.elements import Array
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.hashing import hash_arrays
from trt_workbench.core.settings import FREE_SIZE
from trt_workbench.model.low_precision.evidence import CalibrationEvidence, TensorRange
from trt_workbench.model.low_precision.groups import Shapes, tensor_elements
from trt_workbench.model.low_precision.input_statistics import Gatherer, gather
from trt_workbench.model.low_precision.kinds import Method
from trt_workbench.model.low_precision.preparation import prepare
from trt_workbench.model.low_precision.qdq import ranged_tensors
from trt_workbench.model.low_precision.ranges import PERCENTILE, Histogram
from trt_workbench.model.opened import Model
from trt_workbench.model.weights import save_model
from trt_workbench.quantize.data import Batch, CalibrationData, Half, batches, calibration_data
from trt_workbench.quantize.settings import CalibrationSettings


@contextmanager
def named(copy: Path, known_as: Path | str) -> Iterator[None]:
    """Let an error of the block that names a copy, which is gone with its folder, say what it is a copy of.

    Raises:
        WorkbenchError: of the same kind as that of the block.
    """
    try:
        yield
    except WorkbenchError as error:
        said = str(error.args[0]) if error.args else ""
        if str(copy) not in said:
            raise
        raise type(error)(said.replace(str(copy), str(known_as))) from error


Progress = Callable[[int, int], None]
# Of the activations of one call; where a model has more, the data are read once for every part.
_MOST_BYTES = 1 << 30
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Calibrated:
    """What one run over the data found, for every method, format and choice of groups of one model.

    Attributes:
        source_sha256: of the model.
        histograms: by activation.
        evidence: of the data.
        shapes: of the model's inputs and activations in the first call.
        known: ranges that were chosen before.
        notes: what the user should know about the data, in sentences.
    """

    source_sha256: str
    histograms: Mapping[str, Histogram]
    evidence: CalibrationEvidence
    shapes: Shapes = field(default_factory=dict)
    known: dict[tuple[str, Method, str], TensorRange] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def ranges(self, tensors: Sequence[str], method: Method, precision: str) -> dict[str, TensorRange]:
        """Return the ranges of activations by one method."""
        for name in tensors:
            if (name, method, precision) not in self.known:
                self.known[name, method, precision] = self.histograms[name].range(
                    method, precision, self.evidence.percentile
                )
        return {name: self.known[name, method, precision] for name in tensors}


def calibrate(
    model: Model, settings: CalibrationSettings, on_progress: Progress | None = None, half: Half | None = None
) -> Calibrated:
    """Run a float model over calibration data and count the values of its activations.

    Args:
        model: of floats.
        settings: which data.
        on_progress: called with the samples done and their total.
        half: of the data, as of `calibration_data`.

    Raises:
        UsageProblem: the model cannot be quantised or run, the data do not fit it, or an activation is NaN or infinite;
            the message names its layer and the sample.
        ComponentMissing: ONNX Runtime is absent, or transformers for a text.
    """
    document, groups = prepare(model)
    data = calibration_data(model, settings, half)
    tensors = ranged_tensors(document, groups, every_choice=True)
    histograms = {name: Histogram() for name in tensors}
    parts = _parts(document, tensors)
    digest = hashlib.sha256()
    shapes: dict[str, tuple[int, ...]] = {}
    fed: dict[str, Gatherer] = {}
    notes: list[str] = []
    done = 0
    for number, part in enumerate(parts):
        for batch, activations in _runs(model, document, part, data, settings):
            if number == 0:
                digest.update(hash_arrays(batch.inputs).encode())
                gather(fed, batch.samples())
            for name, array in activations.items():
                shapes.setdefault(name, array.shape)
            for name in part:
                _count(histograms[name], batch.of_samples(activations[name]), name, document, batch.names)
            done += len(batch.names)
            if on_progress:
                on_progress(done, len(data.names) * len(parts))
        notes = notes or data.notes()  # every part reads all of them again
    evidence = CalibrationEvidence(
        kind="random" if data.random else "data",
        samples=len(data.names),
        available=data.available,
        data_sha256=None if data.random else digest.hexdigest(),
        transform=data.transform,
        seed=settings.seed,
        percentile=PERCENTILE,
        inputs={name: gatherer.statistics() for name, gatherer in fed.items()},
    )
    used = {*(tensor.name for tensor in model.facts.inputs), *tensors}
    return Calibrated(
        model.sha256,
        histograms,
        evidence,
        {name: shape for name, shape in shapes.items() if name in used},
        notes=tuple(notes),
    )


def _parts(document: onnx.ModelProto, tensors: Sequence[str]) -> list[list[str]]:
    """Return the tensors in parts of which one call may return all."""
    sizes, room = tensor_elements(document), _MOST_BYTES
    parts: list[list[str]] = [[]]
    for name in tensors:
        size = sizes.get(name, 0) * _FLOAT_BYTES
        if parts[-1] and size > room:
            parts.append([])
            room = _MOST_BYTES
        parts[-1].append(name)
        room -= size
    return parts


def _runs(
    model: Model, document: onnx.ModelProto, part: Sequence[str], data: CalibrationData, settings: CalibrationSettings
) -> Iterator[tuple[Batch, dict[str, Array]]]:
    """Yield one batch after the other, with its activations."""
    options = SessionOptions(threads=settings.threads)
    with scratch_folder() as folder:
        path = Path(folder) / model.path.name
        _save_with_outputs(document, part, path)
        with named(path, model.path):
            session = load_reference(path, options)
        with session:
            for batch in batches(data, fixed_batch(model)):
                try:
                    with named(path, model.path):
                        activations = session.run(batch.inputs)
                except UsageProblem as error:
                    raise UsageProblem(f"{_refused(batch, data)} {error}") from error
                yield batch, {**batch.inputs, **activations}


def _refused(batch: Batch, data: CalibrationData) -> str:
    """Say on what the model does not run, and what to do about it."""
    if data.random:
        return (
            f"The model does not run on noise with free dimensions of {FREE_SIZE}; pass samples that it runs on "
            "(--calibration FILES)."
        )
    return f"The model does not run on the calibration sample {', '.join(batch.names)}; pass others with --calibration."


def _save_with_outputs(document: onnx.ModelProto, tensors: Sequence[str], path: Path) -> None:
    """Write the model with further outputs; `document` is unchanged."""
    graph = document.graph
    there = {value.name for value in (*graph.input, *graph.output)}
    before = len(graph.output)
    graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in tensors if name not in there
    )
    try:
        save_model(document, path)
    finally:
        del graph.output[before:]


def fixed_batch(model: Model) -> int:
    """Return the batch of the model's inputs; 1 where it is open."""
    first = {tensor.shape[0] for tensor in model.facts.inputs if tensor.shape}
    return max((size for size in first if isinstance(size, int)), default=1)


def _count(histogram: Histogram, values: Array, tensor: str, document: onnx.ModelProto, names: Sequence[str]) -> None:
    try:
        histogram.add(values)
    except ValueError as error:
        maker = next((node for node in document.graph.node if tensor in node.output), None)
        if maker is None:
            raise UsageProblem(
                f"The calibration sample {', '.join(names)} has {error} in input {tensor}; it has no range."
            ) from error
        raise UsageProblem(
            f"The float model itself computes {error} in output {tensor} of {maker.op_type} {maker.name} on the "
            f"calibration sample {', '.join(names)}; it has no range. Check the sample, or the model with trtw verify."
        ) from error
