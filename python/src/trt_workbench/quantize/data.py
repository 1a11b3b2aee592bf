"""Calibration data as samples that are drawn by seed from all there are, each with a name for messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.images import ImageTransform
from trt_workbench.backends.measure.inputs import random_inputs, usual_shapes
from trt_workbench.backends.registry import load_reference
from trt_workbench.backends.torch.llm_tokenizer import load_tokenizer
from trt_workbench.core.array_files import count_rows, is_array, load_arrays
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import read_lines
from trt_workbench.core.elements import errors, is_finite, kind
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.extensions import part
from trt_workbench.core.image_files import is_image
from trt_workbench.core.input_files import read_text
from trt_workbench.core.memory import require_room
from trt_workbench.core.workspace import ENCODER, embedded_contract, embedded_model
from trt_workbench.engine.calibration import array_columns, calibration_files, check_sample, hash_data
from trt_workbench.model.facts import ModelTensor
from trt_workbench.model.llm_directory import examine_llm_directory
from trt_workbench.model.low_precision.kinds import RANDOM
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.quantize.settings import FEWEST_SAMPLES, CalibrationSettings
from trt_workbench.stream import CALIBRATION_CODE, CODE
from trt_workbench.vision import ImageFiles, calibration_images, family_of, hash_images

Sample = Mapping[str, NDArray[Any]]
Half = Literal[0, 1]
HALVES: tuple[Half, Half] = (0, 1)
# Of noise: more samples add no information.
_RANDOM_SAMPLES = 16
_TEXT = (".txt",)
_LINES, _IMAGE = ".jsonl", "file_name"  # as in ImageFolder's metadata.jsonl of Hugging Face's datasets
_LINE = 'a line is {"file_name": "a.jpg", "target": 3}, or has the inputs by name'
# What a dimension is called that is the batch.
_LETTERS = ("N", "n", "B", "b", "bs")
# Arrays are checked before the run, which takes minutes.
_LOOKED_AT = 8


def _no_targets(annotations: Path | None) -> list[Sample]:
    """Raise UsageProblem: the samples are no arrays, next to which others could lie."""
    raise UsageProblem(
        "A function as --score takes .npy or .npz files, or JSON Lines with the samples and their targets "
        f"(docs/guides/own-score.md), not other data: {annotations or '--data'}"
    )


@dataclass(frozen=True)
class CalibrationData:
    """Samples to find ranges on.

    Attributes:
        names: of the chosen samples, such as `a.jpg` or `b.npz row 3`.
        available: how many there are to choose from; 0 of random ones.
        transform: how files become tensors.
        random: whether the samples are noise.
        read: yields the samples by input, without the batch dimension, in the order of `names`.
        whole: whether a sample is a call with its batch dimension instead, of its own shape.
        notes: returns what the user should know about the samples read so far, in sentences.
        targets: returns the targets of each sample by name: the arrays in files of their own, or what stands next to
            the inputs and is none.
    """

    names: tuple[str, ...]
    available: int
    transform: str
    random: bool
    read: Callable[[], Iterator[Sample]]
    notes: Callable[[], list[str]] = list
    whole: bool = False
    targets: Callable[[Path | None], list[Sample]] = _no_targets


@dataclass(frozen=True)
class Batch:
    """Samples as a model takes them.

    Attributes:
        names: of the samples; fewer than `size` in an incomplete last batch, which is filled with its own samples.
        inputs: by name, each [size, ...].
        size: samples of one call.
    """

    names: list[str]
    inputs: dict[str, NDArray[Any]]
    size: int

    def samples(self) -> Iterator[Sample]:
        """Yield the samples, without what fills the batch."""
        for row in range(len(self.names)):
            yield {name: array[row] for name, array in self.inputs.items()}

    def of_samples(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return an array of the model without what belongs to the samples that fill the batch.

        The axis that holds the samples, alone or with others, is the one along which those come twice. Where there is
        none, a first axis as long as the batch is assumed to be it; other arrays are returned unchanged.
        """
        count = len(self.names)
        if count == self.size or not values.ndim or not values.size:
            return values
        for axis in (axis for axis, length in enumerate(values.shape) if length % self.size == 0):
            rows = np.moveaxis(values, axis, 0)
            for outer in (1, len(rows) // self.size):  # samples first, or last as in [time, batch] made one axis
                split = rows.reshape(outer, self.size, -1)
                if self._repeats(split):
                    return np.moveaxis(split[:, :count].reshape(-1, *rows.shape[1:]), 0, axis)
        return values[:count] if len(values) == self.size else values

    def _repeats(self, split: NDArray[Any]) -> bool:
        """Whether the rows [any, size, any] that fill the batch equal those of the samples that they are of."""
        count = len(self.names)
        filled, source = split[:, count:], split[:, np.arange(count, self.size) % count]
        top = float(np.abs(split[is_finite(split)].astype(np.float64)).max(initial=0)) if not kind(split).counted else 0
        return bool((errors(filled, source) <= 1e-4 * top).all())


@dataclass(frozen=True)
class WholeCall(Batch):
    """A sample that is a call, such as a chunk of a stream with its states."""

    def samples(self) -> Iterator[Sample]:
        """Yield the inputs, flat, as only their statistics are alike from call to call."""
        yield {name: array.ravel() for name, array in self.inputs.items()}


def batches(data: CalibrationData, size: int) -> Iterator[Batch]:
    """Yield the samples in batches of `size`; those that are calls one by one."""
    samples = zip(data.names, data.read(), strict=True)
    if data.whole:
        yield from (WholeCall([name], dict(sample), 1) for name, sample in samples)
        return
    while taken := list(itertools.islice(samples, size)):
        rows = [sample for _, sample in itertools.islice(itertools.cycle(taken), size)]
        if any(row[name].shape != rows[0][name].shape for row in rows for name in row):
            raise UsageProblem(f"The samples of one call have different shapes: {', '.join(one for one, _ in taken)}")
        stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        yield Batch([name for name, _ in taken], stacked, size)


def calibration_data(model: Model, settings: CalibrationSettings, half: Half | None = None) -> CalibrationData:
    """Return the samples that settings ask for.

    Args:
        model: what takes the samples.
        settings: which data.
        half: draw from only one half of the data, split by the seed; the other half holds none of its samples.

    Raises:
        UsageProblem: there is no such data, it does not fit the model, or is too little.
        ComponentMissing: a text needs transformers.
    """
    if settings.calibration is None:
        raise UsageProblem(
            "Activation ranges need data: pass --calibration with images, .npy or .npz files or a text, or "
            "--calibration random for a model that is labelled as not calibrated."
        )
    inputs = model.facts.inputs
    if empty := [one.name for one in inputs if one.shape and one.shape[0] == 0]:
        raise UsageProblem(f"Input {empty[0]} was exported with a batch of 0 and takes no sample: {model.path}")
    if settings.calibration == RANDOM:
        return _random(model, inputs, settings)
    if spoken := spoken_in(model.path, settings):
        return _chunks(model, spoken, settings, half)
    require_batch_first(model)
    path = Path(settings.calibration)
    if is_text_file(path):
        return _text(model, path, inputs, settings, half)
    if path.suffix == _LINES:
        return _lines(model, path, inputs, settings, half)
    images = calibration_images(model, path, settings)
    if images is None:
        return _arrays(model, path, inputs, settings, half)
    files = images.files
    chosen = [files[place] for place in drawn(len(files), settings, path, half)]
    read_image = images.read

    def read() -> Iterator[Sample]:
        return _checked(((file, read_image(file)) for file in chosen), inputs)

    return CalibrationData(tuple(map(str, chosen)), len(files), images.description, False, read, images.notes)


def require_batch_first(model: Model) -> None:
    """Raise UsageProblem where another dimension of an input than the first one is the batch.

    It is called so, or all outputs begin with it and the first dimension, which is not 1, is in none of them.
    """
    outputs = [output.shape or () for output in model.facts.outputs]
    for tensor in model.facts.inputs:
        first, *others = tensor.shape or (None,)
        for axis, dim in enumerate(others, 1):
            called = _names_a_batch(dim) and (first != 1 or dim not in _LETTERS)  # of [1, n, 3] n may be points
            begins = (
                first != 1  # else a row is a whole call
                and isinstance(dim, str)
                and all(shape[:1] == (dim,) and first not in shape for shape in outputs)
            )
            if not _names_a_batch(first) and first != dim and (called or begins):
                shape = ", ".join(str(one or "?") for one in (first, *others))
                raise UsageProblem(
                    f"Samples are taken along the first dimension, but the batch of input {tensor.name} [{shape}] is "
                    f"dimension {axis}, {dim}; export the model with the batch first: {model.path}"
                )


def _names_a_batch(dim: int | str | None) -> bool:
    return isinstance(dim, str) and (dim in _LETTERS or "batch" in dim.lower())


def speech() -> Any:
    """Return the module of the plug-in that reads utterances and scores their words. Raises ComponentMissing."""
    return part("words", "speech", "Reading utterances")


def spoken_by(model: Path, source: str, contract: Path | None) -> Any:
    """Return the utterances of a manifest as a model hears them; None where no contract makes it one of streams.

    Args:
        model: its file; the embedded encoder has its own contract and utterances.
        source: the manifest; "code" for utterances of the embedded code that are scored, "calibration code" for others.
        contract: of any other model.

    Returns:
        A `Spoken` of the plug-in for speech.

    Raises:
        ComponentMissing: the plug-in is not installed.
    """
    if contract is None:
        try:
            ours, contract = embedded_model(ENCODER), embedded_contract()
        except ComponentMissing:  # then it is another model
            return None
        if sha256_of(model) != sha256_of(ours):
            return None
    return speech().Spoken(contract, source)


def spoken_in(model: Path, settings: CalibrationSettings) -> Any:
    """Return the utterances that calibrate a model of streams; None of any other model, and of noise."""
    if settings.calibration is None or settings.calibration == RANDOM:
        return None
    source = CALIBRATION_CODE if settings.calibration == CODE else settings.calibration
    return spoken_by(model, source, settings.contract)


def is_text_file(path: Path) -> bool:
    """Whether data are a text, which a tokenizer cuts."""
    return path.suffix in _TEXT and path.is_file()


def data_hash(model: Path, settings: CalibrationSettings) -> str:
    """Return what identifies calibration data: a hash of their files; of all else what was requested."""
    calibration = settings.calibration
    data = Path(calibration or "")
    if spoken := spoken_in(model, settings):
        return str(spoken.sha256)
    if calibration is None or calibration == RANDOM or not data.exists():
        return str(calibration)  # `calibration_data` says what is wrong with it
    if data.suffix == _LINES:
        return hash_data(data, [data, *_files_of(data, read_lines(data, dict[str, Any]))])
    return hash_images(data)


def drawn(available: int, settings: CalibrationSettings, path: Path, half: Half | None) -> list[int]:
    """Return which of the samples are used, in order. Raises UsageProblem if they are too few."""
    places = np.arange(available)
    if half is not None:
        places = np.random.default_rng([settings.seed, available]).permutation(available)[half::2]
    if len(places) < FEWEST_SAMPLES:
        of = f", {len(places)} in the half that is used" if half is not None else ""
        raise UsageProblem(
            f"The data have {counted(available, 'sample')}{of}; ranges and scores need {FEWEST_SAMPLES} or more: {path}"
        )
    count = min(len(places), settings.samples)
    return sorted(np.random.default_rng(settings.seed).choice(places, count, replace=False).tolist())


def _checked(samples: Iterable[tuple[Path, Sample]], inputs: Sequence[ModelTensor]) -> Iterator[Sample]:
    """Yield samples of files. Raises UsageProblem where one is none of the inputs."""
    for file, sample in samples:
        for tensor in inputs:
            check_sample(file, sample[tensor.name], tensor)
        yield sample


def _arrays(
    model: Model, path: Path, inputs: Sequence[ModelTensor], settings: CalibrationSettings, half: Half | None
) -> CalibrationData:
    names = [tensor.name for tensor in inputs]
    places = _rows(path)
    chosen = drawn(len(places), settings, path, half)

    def read() -> Iterator[Sample]:
        rows = _rows_of(places, chosen, lambda file: array_columns(file, names))
        return _checked(((file, sample) for (file, _), sample in rows), inputs)

    def targets(annotations: Path | None) -> list[Sample]:
        own = _rows(annotations) if annotations else places
        if len(own) != len(places):
            raise UsageProblem(f"There are {counted(len(own), 'target')} for {len(places)} samples: {annotations}")
        found = [
            row
            for _, row in _rows_of(
                own, chosen, lambda file: array_columns(file, [] if annotations else names, others=True)
            )
        ]
        if not found[0]:
            raise UsageProblem(
                f"No targets for --score: pass them with --annotations, or add their array to the file: {path}"
            )
        return found

    _check_values(model, settings, read, path)
    return CalibrationData(
        tuple("{} row {}".format(*places[one]) for one in chosen), len(places), "arrays", False, read, targets=targets
    )


def _rows(path: Path) -> list[tuple[Path, int]]:
    """Return the place of every sample in files of arrays: the file and the row."""
    return [(file, row) for file in calibration_files(path) for row in range(count_rows(file))]


def _rows_of(
    places: Sequence[tuple[Path, int]], chosen: Sequence[int], columns: Callable[[Path], dict[str, NDArray[Any]]]
) -> Iterator[tuple[tuple[Path, int], Sample]]:
    """Yield the places that are chosen, with their rows by name."""
    opened: Path | None = None
    for place in chosen:
        file, row = places[place]
        if file != opened:
            opened, found = file, columns(file)
        yield (file, row), {name: column[row] for name, column in found.items()}


def _lines(
    model: Model, path: Path, inputs: Sequence[ModelTensor], settings: CalibrationSettings, half: Half | None
) -> CalibrationData:
    lines: list[dict[str, Any]] = read_lines(path, dict[str, Any], _LINE)
    chosen = drawn(len(lines), settings, path, half)
    if absent := next((file for file in _files_of(path, lines) if not file.is_file()), None):
        raise UsageProblem(f"A file that a line names does not exist: {absent}, of {path}")
    files = tuple(path.parent / str(line[_IMAGE]) for line in lines if _IMAGE in line)
    images = calibration_images(model, ImageFiles(files), settings) if files else None

    def read() -> Iterator[Sample]:
        for place in chosen:
            line, where = lines[place], f"{path}:{place + 1}"
            sample = dict(images.read(path.parent / str(line[_IMAGE]))) if images and _IMAGE in line else {}
            for tensor in inputs:
                if tensor.name in line:
                    sample[tensor.name] = _value(line[tensor.name], path.parent, where, tensor.dtype)
                if tensor.name not in sample:
                    raise UsageProblem(f"The line has no input {tensor.name}; {_LINE}: {where}")
                remedy = f" (an image named by {_IMAGE} is prepared)" if is_image(str(line.get(tensor.name))) else ""
                check_sample(Path(where), sample[tensor.name], tensor, remedy)
            yield sample

    def targets(annotations: Path | None) -> list[Sample]:
        if annotations:
            raise UsageProblem(f"The targets of JSON Lines stand in the lines; remove --annotations {annotations}")
        known, found = {_IMAGE, *(tensor.name for tensor in inputs)}, list[Sample]()
        for place in chosen:
            line, where = lines[place], f"{path}:{place + 1}"
            found.append({name: _value(one, path.parent, where) for name, one in line.items() if name not in known})
            if not found[0] or found[-1].keys() != found[0].keys():
                raise UsageProblem(f"The line has no target, or others than the first; {_LINE}: {where}")
        return found

    labels = tuple(str(lines[one].get(_IMAGE, f"{path} line {one + 1}")) for one in chosen)
    words, notes = (images.description, images.notes) if images else ("arrays", list)
    return CalibrationData(labels, len(lines), words, False, read, notes, targets=targets)


def _files_of(path: Path, lines: Iterable[Mapping[str, Any]]) -> Iterator[Path]:
    """Yield the files that lines name, each beside the file of the lines."""
    return (path.parent / value for line in lines for value in line.values() if _names_a_file(value))


def _names_a_file(value: Any) -> bool:
    return isinstance(value, str) and (is_array(value) or is_image(value))


def _value(given: Any, folder: Path, where: str, dtype: str | None = None) -> NDArray[Any]:
    """Return a value of a line: the array or the pixels of the file that it names, else of JSON in a type."""
    try:
        if not _names_a_file(given):
            leaves = {type(one) for one in np.asarray(given, object).flat}
            if not (leaves <= {str} or leaves <= {bool, int, float}):
                raise ValueError("it has to be a number, a text, or an array of numbers or of texts")
            found = np.asarray(given, dtype)
            if found.dtype.kind in "biu" and found.tolist() != given:
                raise ValueError(f"it does not fit {dtype}")
            return found
        if is_array(given):
            return next(iter(load_arrays(folder / given).values()))
        with Image.open(folder / given) as image:
            return np.asarray(image)
    except (OSError, ValueError, TypeError, OverflowError, SyntaxError, Image.DecompressionBombError) as error:
        raise UsageProblem(f"{given!s:.60} cannot be read ({error}): {where}") from error


def _check_values(
    model: Model, settings: CalibrationSettings, read: Callable[[], Iterator[Sample]], path: Path
) -> None:
    """Raise UsageProblem where arrays cannot be images as a detector's inference feeds them."""
    transform = _transform(model, settings)
    samples = [sample for sample, _ in zip(read(), range(_LOOKED_AT), strict=False)]
    if transform is None or len(samples[0]) != 1:
        return
    values = [next(iter(sample.values())) for sample in samples]
    least, most = min(float(one.min()) for one in values), max(float(one.max()) for one in values)
    low, high = _fed(transform)
    span = high - low
    # a set of dark images reaches a twentieth of the range at least
    if not (low - span * 0.1 <= least and low + span * 0.05 <= most <= high + span * 0.1):
        raise UsageProblem(
            f"The arrays have values from {least:.4g} to {most:.4g}, but inference feeds this model "
            f"{low:.4g} to {high:.4g}: they were normalised differently or not at all. Prepare them as for inference, "
            f"or pass the images themselves: {path}"
        )


def _transform(model: Model, settings: CalibrationSettings) -> ImageTransform | None:
    """Return how inference prepares images; None for a model that is no known detector."""
    try:
        return family_of(model, settings).preparation()
    except (UsageProblem, ComponentMissing):
        if settings.family:
            raise
        return None


def _fed(transform: ImageTransform) -> tuple[float, float]:
    """Return the least and the largest value that a transform makes of pixels."""
    ends = [
        (grey * transform.scale - mean) / std
        for grey in (0, 255)
        for mean, std in zip(transform.mean, transform.std, strict=True)
    ]
    return min(ends), max(ends)


def _text(
    model: Model, path: Path, inputs: Sequence[ModelTensor], settings: CalibrationSettings, half: Half | None
) -> CalibrationData:
    known = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
    names = {tensor.name for tensor in inputs}
    if "input_ids" not in names or names - known:
        raise UsageProblem(
            "A text calibrates models whose inputs are input_ids and possibly "
            f"{', '.join(sorted(known - {'input_ids'}))}; this one takes {', '.join(sorted(names))}. Pass .npz files "
            f"with these inputs. Model: {model.path}"
        )
    tokenizer = load_tokenizer(examine_llm_directory(settings.tokenizer or model.path.parent))
    try:
        ids = tokenizer.encode(read_text(path)).ids
    except UnicodeDecodeError as error:
        raise UsageProblem(f"The calibration text is not UTF-8 ({error}): {path}") from error
    shape = next(tensor.shape for tensor in inputs if tensor.name == "input_ids") or ()
    fixed = shape[1] if len(shape) > 1 else None
    window = fixed if isinstance(fixed, int) else settings.window
    starts = range(0, len(ids) - window + 1, window)
    chosen = [starts[place] for place in drawn(len(starts), settings, path, half)]

    def read() -> Iterator[Sample]:
        for start in chosen:
            made = {
                "input_ids": ids[start : start + window],
                "attention_mask": np.ones(window, np.int64),
                "token_type_ids": np.zeros(window, np.int64),
                "position_ids": np.arange(window),
            }
            yield {tensor.name: made[tensor.name].astype(tensor.dtype) for tensor in inputs}

    labels = tuple(f"{path} tokens {start} to {start + window}" for start in chosen)
    return CalibrationData(labels, len(starts), f"windows of {window} tokens", False, read)


def _chunks(model: Model, spoken: Any, settings: CalibrationSettings, half: Half | None) -> CalibrationData:
    """Return chunks along utterances with the states that the float model reaches by then."""
    chosen = drawn(len(spoken.utterances), settings, Path(spoken.source), half)
    said = [spoken.utterances[place] for place in chosen]
    all_chunks = [len(spoken.chunks(one)) for one in said]
    each = -(-settings.samples // len(said))
    # evenly along an utterance, as its states fill from chunk to chunk
    places = [[at * count // min(count, each) for at in range(min(count, each))] for count in all_chunks]

    def read() -> Iterator[Sample]:
        with load_reference(model.path, SessionOptions(threads=settings.threads)) as session:
            for one, chunks in zip(said, places, strict=True):
                yield from spoken.calls(session, one, chunks)

    names = tuple(f"{one.name} chunk {place}" for one, chunks in zip(said, places, strict=True) for place in chunks)
    return CalibrationData(names, sum(all_chunks), "chunks with their states", False, read, whole=True)


def _random(model: Model, inputs: Sequence[ModelTensor], settings: CalibrationSettings) -> CalibrationData:
    """Return noise: in the range of pixels as inference feeds them where the model is a detector."""
    transform = _transform(model, settings)
    asked = {inputs[0].name: (1, *transform.shape)} if transform and len(inputs) == 1 else None
    specs, shapes = usual_shapes(model, asked=asked)
    if scalars := [name for name, shape in shapes.items() if not shape]:
        raise UsageProblem(f"Inputs without a batch dimension cannot be sampled: {', '.join(scalars)} of {model.path}")
    if asked and transform:
        require_room(f"Input {specs[0].name}", transform.shape, 8)  # drawn as float64
    count = min(settings.samples, _RANDOM_SAMPLES)

    def read() -> Iterator[Sample]:
        for number in range(count):
            if asked and transform:
                low, high = _fed(transform)
                generator = np.random.default_rng([settings.seed, number])
                yield {specs[0].name: generator.uniform(low, high, transform.shape).astype(transform.dtype)}
            else:
                drawn = random_inputs(specs, shapes, settings.seed + number, hint="pass samples (--calibration FILES)")
                yield {name: array[0] for name, array in drawn.items()}

    return CalibrationData(tuple(f"random sample {number}" for number in range(count)), 0, "noise", True, read)
