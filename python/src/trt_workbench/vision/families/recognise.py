"""Which family a model is of, from its outputs and metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS, Preparation
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem, did_you_mean
from trt_workbench.core.extensions import FAMILIES, Guard, extensions, load_extension, package_of
from trt_workbench.model.opened import Model
from trt_workbench.vision.families.base import DetectorFacts, DoesNotFit, Family
from trt_workbench.vision.families.classifier import Classifier
from trt_workbench.vision.families.detr import Detr
from trt_workbench.vision.families.detr_logits import DetrLogits, pair_of
from trt_workbench.vision.families.detr_masks import DetrMasks, masks_among
from trt_workbench.vision.families.detr_pixels import DetrPixels
from trt_workbench.vision.families.metadata import read_facts
from trt_workbench.vision.families.semantic import Semantic
from trt_workbench.vision.families.yolov8 import YoloV8, YoloV8Keypoints, YoloV8Masks, YoloV8Rotated
from trt_workbench.vision.families.yolov10 import YoloV10, YoloV10Keypoints, YoloV10Masks, YoloV10Rotated
from trt_workbench.vision.families.yolox import YoloX
from trt_workbench.vision.preparation import options_of

_KINDS: tuple[type[Family], ...] = (
    *(YoloV10, YoloV8, YoloX, Detr, DetrLogits, DetrPixels),
    *(YoloV8Masks, YoloV10Masks, DetrMasks, YoloV8Keypoints, YoloV10Keypoints),
    *(YoloV8Rotated, YoloV10Rotated, Classifier, Semantic),
)
# These are recognised by the names of inputs or outputs alone.
_BY_NAMES = (DetrLogits, DetrPixels)
_FAMILIES = {family.name: family for family in _KINDS}
# YOLOX, with the reading of its boxes fixed instead of decided by their values.
_YOLOX_ENCODINGS: dict[str, Literal["raw", "decoded"]] = {"yolox-raw": "raw", "yolox-decoded": "decoded"}


ADVICE = "Pass --family with one of"

_OWN_NAMES = (*_FAMILIES, *_YOLOX_ENCODINGS)


def family_names() -> tuple[str, ...]:
    """Return the values of `--family`, those of other packages last."""
    return (*_OWN_NAMES, *extensions(FAMILIES, _OWN_NAMES))


def check_family(name: str, source: str) -> None:
    """Raise UsageProblem unless a family is called `name`; `source` is where the name is from."""
    if name not in (known := family_names()):
        raise UsageProblem(f"There is no detector family called {name!r} (from {source}); {did_you_mean(name, known)}")


def recognise(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    metadata: Mapping[str, str],
    said: Preparation = AS_THE_MODEL_SAYS,
) -> Family:
    """Determine how a detector's outputs become boxes.

    A family named by the user, else by the metadata key `family`, is taken if the outputs can be of it at all.
    Boxes and class logits by their names are only of family detr-logits, with masks of detr-masks.
    Otherwise the model must have as many outputs as the one family that their shapes, with the metadata, fit.
    Those of other packages are tried where none of our own fits.

    Args:
        inputs: the session's inputs.
        outputs: the session's outputs.
        metadata: the model's own key-value metadata.
        said: what the user says of it: the family, one of `family_names()`, and how images are prepared.

    Raises:
        UsageProblem: the family is unknown, does not fit or is not certain; the message says what was seen.
        ComponentMissing: the package that the named family comes from cannot be used.
    """
    asked, pair = said.family or metadata.get("family"), pair_of(outputs)
    source = "--family" if said.family else "the model's metadata"
    if pair and asked in _OWN_NAMES and not issubclass(_kind(asked), DetrLogits):
        raise UsageProblem(
            f"Outputs {pair[0].name} and {pair[1].name} belong to family {DetrLogits.name}, a DETR with separate boxes "
            f"and class logits, not to family {asked} (from {source}). Outputs: {_show(outputs)}."
        )
    if len(inputs) > 1 and asked in _OWN_NAMES and asked != DetrPixels.name:
        raise UsageProblem(f"Family {asked} (from {source}) takes only the image; the inputs are {_show(inputs)}.")
    if len(inputs) > 1 and not asked:
        asked, source = DetrPixels.name, "the names of its inputs"
    elif pair and not asked:
        asked, source = (DetrMasks if masks_among(outputs) else DetrLogits).name, "the names of its outputs"
    facts = read_facts(inputs, outputs, metadata, said, forced=bool(asked))
    found = _named(asked, source, outputs, facts) if asked else _guessed(outputs, facts)
    if said.background and not found.has_background:
        raise UsageProblem(f"--background has no meaning for family {found.name}, whose classes are all objects.")
    return found


def family_of(model: Model, said: Preparation = AS_THE_MODEL_SAYS) -> Family:
    """Determine how the outputs of an ONNX model become boxes, as `recognise`."""
    facts = model.facts
    inputs, outputs = (tuple(map(TensorSpec.of, tensors)) for tensors in (facts.inputs, facts.outputs))
    return recognise(inputs, outputs, facts.metadata, said)


def with_said(family: Family, chosen: Mapping[str, str]) -> Family:
    """Return a family with settings of its images as if the user said them. Raises UsageProblem if that cannot be."""
    said = dataclasses.replace(family.facts.said, **chosen)  # type: ignore[arg-type]
    try:
        return _create(family.name, family.output, dataclasses.replace(family.facts, said=said))
    except DoesNotFit as reason:
        raise UsageProblem(f"{options_of(chosen)} does not fit the model: {reason}.") from reason


def others(family: Family) -> list[tuple[str, Family]]:
    """Return our own families that the output of one could be of as well, by their names on the command line."""
    facts = dataclasses.replace(family.facts, forced=True)
    found = [(name, _encoded(name, one)) for name in _OWN_NAMES for one in _try([name], [family.output], facts)[0]]
    return [(name, one) for name, one in found if name != family.name]


def _named(name: str, source: str, outputs: Sequence[TensorSpec], facts: DetectorFacts) -> Family:
    check_family(name, source)
    _kind(name)  # says at once what its package lacks
    fits, reasons = _try([name], outputs, facts)
    if len(fits) != 1:
        why = "; ".join(reasons) if reasons else "more than one output fits"
        raise UsageProblem(
            f"The model does not fit family {name} (from {source}): {why}. Its outputs: {_show(outputs)}."
        )
    return _encoded(name, fits[0])


def _encoded(name: str, family: Family) -> Family:
    """Return a family with the reading of its boxes that its name on the command line says."""
    encoding = _YOLOX_ENCODINGS.get(name)
    return dataclasses.replace(family, encoding=encoding) if encoding and isinstance(family, YoloX) else family


def _guessed(outputs: Sequence[TensorSpec], facts: DetectorFacts) -> Family:
    likely = [one for one in _KINDS if (one.task == facts.task if facts.task else one.by_shape)]
    likely = [one for one in likely if one.reads == len(outputs) and one not in _BY_NAMES]
    fits, reasons = _try([one.name for one in likely], outputs, facts)
    if not fits:
        # a broken package must not block a run that did not name its family
        answers = (DoesNotFit, ComponentMissing, DeviceFailure)
        fits, more = _try(extensions(FAMILIES, _OWN_NAMES), outputs, facts, answers)
        reasons += more
    fits = [one for one in fits if one.reads == len(outputs)]
    if len(fits) == 1:
        return fits[0]
    if len(outputs) > 1 and not fits and facts.task in (None, "boxes"):
        why = f"it has {len(outputs)} outputs, and detectors of known families have one"
    elif fits:
        why = f"it could be {' or '.join(found.name for found in fits)}"
    else:
        # classifiers and maps of classes are never guessed by their shape
        whole = (
            []
            if facts.task
            else _try((Classifier.name, Semantic.name), outputs, dataclasses.replace(facts, forced=True))[0]
        )
        if whole:
            raise UsageProblem(
                f"The detector family of the model is not certain: its output {_show(outputs)} fits --family "
                f"{whole[0].name}, which is never guessed by its shape."
            )
        why = "; ".join(reasons)
    named = f" and {counted(len(facts.names), 'class name')} in its metadata" if facts.names else " and no class names"
    raise UsageProblem(
        f"The detector family of the model is not certain: {why}. "
        f"It has outputs {_show(outputs)}{named}. {ADVICE} {', '.join(family_names())}."
    )


def _kind(name: str) -> type[Family]:
    if name in _OWN_NAMES:
        return _FAMILIES.get(name, YoloX)
    try:
        return load_extension(extensions(FAMILIES, _OWN_NAMES)[name], Family, name)  # type: ignore[type-abstract]
    except ComponentMissing as problem:
        raise ComponentMissing(f"Detector family {name} is not available: {problem}") from problem


def _create(name: str, output: TensorSpec, facts: DetectorFacts) -> Family:
    kind = _kind(name)
    if facts.task is not None and facts.task != kind.task:
        raise DoesNotFit(f"the metadata says that the model is for {facts.task}, not {kind.task}")
    if name in _OWN_NAMES:
        return kind.create(output, facts)
    package = package_of(extensions(FAMILIES, _OWN_NAMES)[name])
    guard = Guard(f"Detector family {name}", package, {"create": Family}, (DoesNotFit,))
    family: Family = guard.guarded(guard.call(kind.create, output, facts))
    return family


def _try(
    names: Iterable[str],
    outputs: Sequence[TensorSpec],
    facts: DetectorFacts,
    answers: tuple[type[Exception], ...] = (DoesNotFit, ComponentMissing),
) -> tuple[list[Family], list[str]]:
    fits, reasons = [], []
    for output in outputs:
        for name in names:
            try:
                if not output.dtype.startswith("float"):
                    raise DoesNotFit(f"it holds {output.dtype}, not floating-point numbers")
                fits.append(_create(name, output, facts))
            except answers as reason:
                reasons.append(f"not {name} from {output.name}, because {reason}")
    return fits, reasons


def _show(specs: Sequence[TensorSpec]) -> str:
    return "; ".join(map(str, specs))
