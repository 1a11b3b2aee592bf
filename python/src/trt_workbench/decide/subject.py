"""The model of a decision with its data: the embedded ones where none is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trt_workbench.backends.preparation import Preparation
from trt_workbench.backends.registry import (
    check_backend_options,
    check_builds,
    check_name,
    default_backends,
    get_backend,
)
from trt_workbench.core.array_files import is_array
from trt_workbench.core.errors import ComponentMissing, UsageProblem, did_you_mean
from trt_workbench.core.files import require_file, require_there
from trt_workbench.core.hashing import hash_arrays, hash_file
from trt_workbench.core.workspace import embedded_model
from trt_workbench.decide.document import BASELINE
from trt_workbench.decide.elsewhere import command_elsewhere, words_elsewhere
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.engine.calibration import holds_images
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.low_precision.kinds import RANDOM
from trt_workbench.model.low_precision.preparation import refuse_quantised
from trt_workbench.model.opened import Model
from trt_workbench.quantize import (
    ANNOTATED,
    AP,
    COSINE,
    HALVES,
    INT8_MIXED,
    MOST_SCORED,
    PERPLEXITY,
    SCORED_SAMPLES,
    WER,
    CalibrationSettings,
    Detection,
    Half,
    Likeness,
    SearchSettings,
    Task,
    calibration_data,
    is_text_file,
    labels_of,
    metric_for,
    metric_of,
    speech,
    spoken_by,
    spoken_in,
)
from trt_workbench.stream import CODE, RATES, read_contract, read_tensors
from trt_workbench.vision import (
    CALIBRATION_SPLIT,
    DataPlace,
    check_annotations,
    class_lines,
    embedded_dataset,
    embedded_name,
    family_of,
    image_files,
    look_for_data,
    make_calibration_scenes,
    make_embedded_dataset,
    read_dataset,
    refuse_split,
    task_of,
    threshold_in,
)


def images_overlap(calibration: str | None, images: Path, annotations: Path, split: str | None = None) -> bool:
    """Whether one of the calibration images is, by its bytes, one that an annotation file lists.

    Arrays are never treated as images: their preprocessing is unknown.

    Raises:
        UsageProblem: the annotations cannot be read, or there is no calibration data.
    """
    path = Path(calibration or "")
    if calibration is None or calibration == RANDOM or path.resolve() == images.resolve():
        return calibration != RANDOM
    if (used := image_files(path)) is None:
        return False
    listed = read_dataset(images, annotations, split=split, allow_missing=True)
    scored = [file for image in listed.images if (file := listed.path(image)).is_file()]
    # only files of a size that both have are read
    sizes = [{file: file.stat().st_size for file in files} for files in (used.files, scored)]
    both = set(sizes[0].values()) & set(sizes[1].values())
    found = [{hash_file(file) for file, size in files.items() if size in both} for files in sizes]
    return bool(found[0] & found[1])


def samples_overlap(model: Model, calibration: CalibrationSettings, scored: CalibrationSettings) -> bool:
    """Whether one of the samples that ranges or a search may use equals one that is scored."""
    source = calibration.calibration
    if source is None or source == RANDOM or Path(source).resolve() == Path(scored.calibration or "").resolve():
        return source != RANDOM
    try:
        used = set(_hashes(model, calibration, None))
        used |= {one for half in HALVES for one in _hashes(model, calibration, half)}
        return any(one in used for one in _hashes(model, scored, None))
    except UsageProblem:  # reported where the data are used
        return False


def _hashes(model: Model, settings: CalibrationSettings, half: Half | None) -> Iterator[str]:
    """Yield a hash of every sample that is drawn for ranges, or of one half for ranges and for the score."""
    for count in (settings.samples,) if half is None else {settings.samples, MOST_SCORED}:
        try:
            data = calibration_data(model, replace(settings, samples=count), half)
        except UsageProblem:
            if half is None:
                raise
            return  # too few for halves
        yield from map(hash_arrays, data.read())


@dataclass(frozen=True)
class Subject:
    """The model and data of a decision.

    Attributes:
        model: the float model.
        task: what it is scored by, and on what.
        calibration: where ranges are found.
        search: by what int8-mixed is found on them; None without a search.
        no_search: why there is no search, a sentence; "" where none was requested.
        words: what `decide` is typed with where a card is (`words_elsewhere`).
    """

    model: Model
    task: Task
    calibration: CalibrationSettings
    search: SearchSettings | None = None
    no_search: str = ""
    words: tuple[str, ...] = ()

    def command(self, precisions: Sequence[str]) -> str:
        """Return the command that scores and times precisions on a machine with a GPU."""
        return command_elsewhere(self.words, precisions)


def subject_of(
    path: Path | None, settings: DecideSettings, calibration: CalibrationSettings, note: Callable[[str], None]
) -> Subject:
    """Return what was requested with the defaults filled in.

    Raises:
        UsageProblem: a file is absent, or model and data do not fit each other; a backend or an option of one is
            unknown, or the baseline is not among the precisions.
        ComponentMissing: an embedded model is missing.
    """
    subject = _subject(path or embedded_model(), settings, calibration, note)
    published = subject.task.published
    for name, value in settings.expect.items():
        if name not in published:
            has = did_you_mean(name, published) if published else "it is scored by its distance from fp32."
            raise UsageProblem(f"--expect {name}: this model has no such score; {has}")
        if value > 1 and subject.task.metric.is_share:
            raise UsageProblem(f"--expect {name}={value:g}: {name} is a share, such as {value / 100:g}.")
    embedded = embedded_name(path) if path else None
    return replace(subject, words=words_elsewhere(embedded or path, settings, calibration))


def _subject(
    path: Path, settings: DecideSettings, calibration: CalibrationSettings, note: Callable[[str], None]
) -> Subject:
    asked = metric_of(settings.score, settings.better, settings.max_loss)
    for name in settings.backends or ():
        check_name(name)
        with suppress(ComponentMissing):  # its rows then say why
            if get_backend(name).served:
                raise UsageProblem(f"--backends {name}: a server computes in one precision; there is none to decide.")
    check_backend_options(backends_of(settings), settings.options)
    check_builds(settings.builds, backends_of(settings))
    if BASELINE not in settings.precisions:
        raise UsageProblem(f"Losses are relative to {BASELINE}; add it to --precisions.")
    require_file("model file", path)
    if path.suffix != ".onnx":
        raise UsageProblem(f"Candidates are made from a float ONNX model, not from this file: {path}")
    model = Model.open(path)
    refuse_quantised(model)
    shares = read_precision(model).shares
    if shares and BASELINE not in shares:
        raise UsageProblem(f"The model computes in {', '.join(shares)}, but losses are relative to {BASELINE}: {path}")
    if settings.calibration_annotations is not None:
        if calibration.calibration is None:
            raise UsageProblem("--calibration-annotations needs --calibration, the folder of their images.")
        require_there("annotation file of the calibration data", settings.calibration_annotations)
    if spoken := _spoken(model, settings, calibration):
        return spoken
    if settings.data is None:
        given = {
            "--split": settings.split,
            "--annotations": settings.annotations,
            f"--score {settings.score}": None if asked is ANNOTATED else asked,
        }
        if alone := next((flag for flag, value in given.items() if value is not None), ""):
            raise UsageProblem(f"{alone} needs --data: {asked.of}.")
        settings, calibration = _embedded(model, settings, calibration, note)
    assert settings.data is not None
    require_there("folder or file of --data", settings.data)
    place = None if asked.takes_targets else _data_set(model, settings.data, settings, calibration)
    if place and place.words:
        note(f"Data: {place.words}")
    images = _images_of(place) if place else None
    if calibration.calibration is None:
        calibration = replace(calibration, calibration=str(images or settings.data))
        if settings.annotations is None and place and place.split != CALIBRATION_SPLIT and _has_others(settings.data):
            note(f"--calibration {settings.data} finds ranges on its split {CALIBRATION_SPLIT}, not on what is scored.")
    if place is None or images is None:
        likeness = _likeness(model, settings, settings.data, calibration)
        targets = settings.calibration_annotations if asked.takes_targets else None
        search = SearchSettings(targets, score=likeness.metric.kind, better=settings.better)
        return _searched(Subject(model, likeness, calibration), settings, search)
    metric_for(ANNOTATED, settings.score)
    family = family_of(model, calibration)
    family.preparation()  # what nobody says is refused before anything is made
    listed = read_dataset(place.images, place.annotations, split=place.split, allow_missing=True)
    if listed.missing:
        note(listed.left_out)
    check_annotations(listed)
    class_lines(calibration.classes, listed.categories)
    if (search := SearchSettings(annotations=settings.calibration_annotations)).annotations:
        labels_of(search, calibration)
    overlap = images_overlap(calibration.calibration, images, place.annotations, place.split)
    task = Detection(
        place.images,
        place.annotations,
        Preparation.of(calibration),
        overlap,
        calibration.classes,
        split=place.split,
        **_kept(settings, family.task),
    )
    return _searched(Subject(model, task, calibration), settings, search)


def _spoken(model: Model, settings: DecideSettings, calibration: CalibrationSettings) -> Subject | None:
    """Return the subject of a streaming encoder that transcribes; None of any other model.

    Raises:
        UsageProblem: an option is of images, or contract, manifest and model do not fit one another.
    """
    source = None if settings.data is None else str(settings.data)
    if (spoken := spoken_by(model.path, source or CODE, calibration.contract)) is None:
        if wrong := [name for name in settings.keep if name in RATES]:
            raise UsageProblem(
                f"--keep {','.join(wrong)} is of a streaming encoder; name its contract with --contract."
            )
        return None
    if source is None and calibration.contract is not None:
        raise UsageProblem("With --contract the data to score are a manifest of utterances; pass it with --data.")
    images = {"--annotations": settings.annotations, "--split": settings.split}
    images |= {"--calibration-annotations": settings.calibration_annotations}
    if given := next((name for name, value in images.items() if value is not None), ""):
        raise UsageProblem(f"{given} is of images; utterances have their texts in the manifest.")
    metric = metric_for(metric_of(WER), settings.score)
    if wrong := [name for name in settings.keep if name not in (AP, *RATES)]:
        raise UsageProblem(f"--keep {','.join(wrong)} is of a detector; utterances have {' and '.join(RATES)}.")
    read_contract(spoken.contract_path, read_tensors(model.path))
    spoken.speech(spoken.utterances[: settings.limit])  # what does not fit is refused before anything is made
    if calibration.calibration is None:
        calibration = replace(calibration, calibration=source or CODE)
    keep = tuple(dict.fromkeys(RATES[0] if name == AP else name for name in settings.keep))
    used = spoken_in(model.path, calibration)  # an utterance of these may be scored, too
    task = speech().WordsTask(spoken, used is not None and used.shares(spoken), keep, settings.limit)
    return _searched(Subject(model, task, calibration), settings, SearchSettings(score=metric.kind))


def _has_others(data: Path) -> bool:
    """Whether a data set has images for training, of which calibration takes some."""
    try:
        return bool(image_files(data, CALIBRATION_SPLIT))
    except UsageProblem:
        return False


def _images_of(place: DataPlace) -> Path:
    """Return the folder of the images of a data set, which a `data.yaml` names itself."""
    if place.split is None:
        return place.images
    return read_dataset(place.images, place.annotations, split=place.split, allow_missing=True).folder


def _data_set(model: Model, data: Path, settings: DecideSettings, calibration: CalibrationSettings) -> DataPlace | None:
    """Return the data set of a detector or classifier; None of samples without annotations."""
    if settings.annotations is not None:
        refuse_split(settings.annotations, settings.split)
        return DataPlace(data, settings.annotations, settings.split)
    is_samples = any(is_array(one.name) for one in ([data] if data.is_file() else data.iterdir()))
    found = None if is_samples else look_for_data(data, settings.split)
    if found and found.of_images and not _classifies(model, calibration):
        found = None
    if found is None and settings.split is not None:
        raise UsageProblem(f"--split is of a data set, which --data is not: {data}")
    return found


def _classifies(model: Model, calibration: CalibrationSettings) -> bool:
    try:
        return task_of(family_of(model, calibration).task).of_images
    except UsageProblem:  # of another model folders are no classes
        return False


def backends_of(settings: DecideSettings) -> tuple[str, ...]:
    """Return the backends that were requested, or else all that may serve."""
    return settings.backends or default_backends()


def _searched(subject: Subject, settings: DecideSettings, search: SearchSettings) -> Subject:
    """Return the subject with the search, if it may be searched: never on samples that are scored."""
    if not settings.search or INT8_MIXED not in settings.precisions:
        return subject
    unit = subject.task.metric.unit
    if subject.calibration.calibration == RANDOM:
        return replace(subject, no_search="Noise gives no score.")
    if subject.task.overlap:
        reason = f"Some calibration {unit} are also scored, which a search must not see; pass others."
        return replace(subject, no_search=reason)
    if subject.task.metric is ANNOTATED and search.annotations is None:
        reason = "A search needs the annotations of the calibration images, --calibration-annotations."
        return replace(subject, no_search=reason)
    return replace(subject, search=replace(search, keep_score=settings.max_loss))


def _kept(settings: DecideSettings, task_name: str) -> dict[str, Any]:
    """Return fields of the task. What a task of its kind never has is refused before anything is made."""
    task, names = task_of(task_name), settings.keep
    if not task.measures[0].by_score and (wrong := [name for name in names if threshold_in(name) is not None]):
        raise UsageProblem(
            f"--keep {','.join(wrong)}: {task.words} has no threshold; --keep AP stands for {task.decided_by}."
        )
    return {**Detection.kept(names, task.decided_by), "limit": settings.limit, "seed": settings.seed}


def _likeness(model: Model, settings: DecideSettings, data: Path, calibration: CalibrationSettings) -> Likeness:
    is_text = is_text_file(data)
    metric = metric_for(PERPLEXITY if is_text else COSINE, settings.score, settings.better)
    if not is_text and holds_images(data):
        raise UsageProblem(
            f"Images of a detector need --annotations; other models take .npy or .npz files or a text: {data}"
        )
    if settings.keep != (AP,):
        raise UsageProblem(f"--keep {','.join(settings.keep)} is for a detector with annotations; remove it.")
    scored = replace(calibration, calibration=str(data), samples=settings.limit or SCORED_SAMPLES)
    task = Likeness.checked(model, scored, metric, settings.annotations)
    return replace(task, overlap=samples_overlap(model, calibration, scored))


def _embedded(
    model: Model, settings: DecideSettings, calibration: CalibrationSettings, note: Callable[[str], None]
) -> tuple[DecideSettings, CalibrationSettings]:
    """Return what was requested, with the embedded data of a model."""
    if (name := embedded_name(model.path)) is None:
        raise UsageProblem(
            "The embedded data fit only the embedded models. Pass --data: images with --annotations, folders of "
            f"classes, .npy or .npz files, or a text. Model: {model.path}"
        )
    if not embedded_dataset(name).exists:
        note(f"Generating the embedded dataset (only once): {embedded_dataset(name).root}")
    place = make_embedded_dataset(name)
    settings = replace(settings, data=place.images, annotations=place.annotations)
    if calibration.calibration is not None:
        return settings, calibration
    scenes = make_calibration_scenes(name)
    calibration = replace(calibration, calibration=str(scenes.images))
    return replace(settings, calibration_annotations=scenes.annotations), calibration
