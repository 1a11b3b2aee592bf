"""How much each group of a model loses in a lower precision: one group at a time low, and the noise that it makes.

The noise of groups nearly adds up, so that one at a time low tells what each brings into the whole. One at a time left
alone would show a group only as far as the noise of all others lets it be seen.
"""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import REFERENCE, require_backend
from trt_workbench.decide.calibrate import Calibrated, batches, fixed_batch, save_with_outputs
from trt_workbench.decide.candidates import Candidate, kept_groups, make_candidate
from trt_workbench.decide.data import CalibrationData, Half, calibration_data
from trt_workbench.decide.settings import CalibrationSettings, PlacementSettings
from trt_workbench.engine.hashing import hash_model
from trt_workbench.errors import UsageProblem
from trt_workbench.onnxtools.quantize.groups import HEAD, Group
from trt_workbench.onnxtools.quantize.kinds import To
from trt_workbench.onnxtools.quantize.preparation import prepare
from trt_workbench.runs.sensitivity import GroupLoss, Sensitivity

Progress = Callable[[int, int], None]
Outputs = Sequence[Mapping[str, NDArray[Any]]]
# Of which noise is measured: groups differ by orders of magnitude, samples by little.
SAMPLES = 4
# Of an output that is NaN, or all there is in place of zeros.
_MOST_NOISE = 1e12


@dataclass(frozen=True)
class Choices:
    """The groups of a model among which can be chosen.

    Attributes:
        groups: that can be low, in the graph's order.
        left_out: all others, with the reason.
        total_macs: of all groups.
        total_weights: elements of all groups' weights.
    """

    groups: tuple[Group, ...]
    left_out: Mapping[str, str]
    total_macs: int
    total_weights: int


def choices(model: Path, to: To, placement: PlacementSettings) -> Choices:
    """Return the groups among which can be chosen: also those that are left alone by default.

    Raises:
        UsageProblem: the model cannot be made so, or nothing of it is left to choose.
    """
    document, groups = prepare(model)
    left_out = kept_groups(document, groups, to, replace(placement, keep_sensitive=False), model)
    free = tuple(group for group in groups if group.name not in left_out)
    if not free:
        raise UsageProblem(f"All {len(groups)} groups are left alone, so there is nothing to choose: {model}")
    macs, weights = sum(one.macs for one in groups), sum(one.weight_elements for one in groups)
    return Choices(free, left_out, macs, weights)


class Maker:
    """Makes candidates of one model with chosen groups left alone; the calibration ran once."""

    def __init__(self, model: Path, to: To, calibrated: Calibrated | None, placement: PlacementSettings) -> None:
        self.model, self.to, self.placement = model, to, replace(placement, keep_sensitive=False)
        self.calibrated = calibrated and replace(calibrated, source_sha256=hash_model(model))

    def make(self, kept: Sequence[str], output: Path, **facts: Any) -> Candidate:
        """Return the candidate with `kept` left alone. Raises as `make_candidate`."""
        placement = replace(self.placement, keep=(*self.placement.keep, *kept))
        return make_candidate(
            self.model, self.to, output, calibration=self.calibrated, placement=placement, **facts
        )


def measure_sensitivity(
    model: Path,
    to: To,
    calibrated: Calibrated | None,
    settings: CalibrationSettings,
    placement: PlacementSettings,
    *,
    half: Half | None = None,
    on_progress: Progress | None = None,
) -> Sensitivity:
    """Measure the noise that each group alone makes in the format.

    Args:
        model: the float ONNX file.
        to: the format.
        calibrated: of the model; None for a format without ranges.
        settings: which samples the noise is measured on, the first few of them.
        placement: how ranges are chosen, and what is left alone in any case.
        half: of the data, as of `calibration_data`.
        on_progress: called with the groups done and their total.

    Raises:
        UsageProblem: the model cannot be made so, or the data do not fit it.
        ComponentMissing: ONNX Runtime is absent.
    """
    began = time.monotonic()
    free = choices(model, to, placement)
    with _probe(model) as (probe, tensors), tempfile.TemporaryDirectory() as name:
        data = calibration_data(model, settings, half)
        inputs = [one for _, one in batches(_first(data, SAMPLES), fixed_batch(model))]
        maker, path = Maker(probe, to, calibrated, placement), Path(name) / model.name
        reference = _outputs(probe, inputs, tensors, settings)
        everything = maker.make((), path)
        whole = _noise(reference, _outputs(path, inputs, tensors, settings))
        left_out = {**free.left_out, **{name: why for name, why in everything.evidence.kept.items()}}
        groups = [group for group in free.groups if group.name not in left_out]
        names = [group.name for group in free.groups]
        found = []
        for number, group in enumerate(groups):
            maker.make([one for one in names if one != group.name], path)
            noise = _noise(reference, _outputs(path, inputs, tensors, settings))
            found.append(_loss(group, noise, free))
            if on_progress:
                on_progress(number + 1, len(groups))
    evidence = everything.evidence
    return Sensitivity(
        model=str(model),
        model_sha256=hash_model(model),
        to=to,
        method=evidence.method,
        calibrated=evidence.calibrated,
        data_sha256=evidence.calibration and evidence.calibration.data_sha256,
        samples=min(SAMPLES, len(data.names)),
        seed=settings.seed,
        tensors=list(tensors),
        noise=whole,
        sqnr_db=decibels(whole),
        groups=sorted(found, key=lambda one: -one.noise),
        left_out=left_out,
        wall_s=time.monotonic() - began,
    )


def decibels(noise: float) -> float | None:
    """Return a ratio of noise to signal as SQNR in dB; None where there is no noise."""
    return -10 * math.log10(noise) if noise > 0 else None


def _loss(group: Group, noise: float, free: Choices) -> GroupLoss:
    return GroupLoss(
        name=group.name,
        op_type=group.op_type,
        macs_share=group.macs / (free.total_macs or 1),
        weights_share=group.weight_elements / (free.total_weights or 1),
        noise=noise,
        sqnr_db=decibels(noise),
    )


@contextmanager
def _probe(model: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the model with what the convolutions that make its outputs return as further outputs, and their names.

    Behind them, a detector that picks its boxes returns them in another order for the slightest change.
    """
    document, groups = prepare(model)
    makers = {group.name for group in groups if group.sensitive == HEAD}
    tensors = tuple(node.output[0] for node in document.graph.node if node.name in makers)
    tensors = tensors or tuple(value.name for value in document.graph.output)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / model.name
        save_with_outputs(document, tensors, path)
        yield path, tensors


def _first(data: CalibrationData, count: int) -> CalibrationData:
    return replace(data, names=data.names[:count], read=lambda: itertools.islice(data.read(), count))


def _outputs(
    model: Path, inputs: Sequence[Mapping[str, NDArray[Any]]], tensors: Sequence[str], settings: CalibrationSettings
) -> Outputs:
    with require_backend(REFERENCE).load(model, SessionOptions(threads=settings.threads)) as session:
        found = [session.run(dict(one)) for one in inputs]
    return [{name: one[name] for name in tensors if np.issubdtype(one[name].dtype, np.floating)} for one in found]


def _noise(reference: Outputs, outputs: Outputs) -> float:
    """Return the power of the difference over that of the reference, mean over the tensors."""
    ratios = []
    for name in reference[0]:
        pairs = [(one[name].astype(np.float64), other[name].astype(np.float64)) for one, other in zip(reference, outputs, strict=True)]
        signal = sum(float(np.square(one).sum()) for one, _ in pairs)
        noise = sum(float(np.square(one - other).sum()) for one, other in pairs)
        ratio = noise / signal if signal else (_MOST_NOISE if noise else 0.0)
        ratios.append(min(ratio, _MOST_NOISE) if math.isfinite(ratio) else _MOST_NOISE)
    if not ratios:
        raise UsageProblem("The model has no output of floats to compare.")
    return float(np.mean(ratios))
