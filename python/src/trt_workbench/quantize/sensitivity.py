"""How much each group of a model loses in a lower precision: one group at a time low, and the noise that it makes.

The noise of groups nearly adds up, so that one at a time low shows its share of the total. One at a time left
alone would show a group only as far as the noise of all others lets it be seen.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import load_reference
from trt_workbench.core.compare import Sums
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.precision import HEAD
from trt_workbench.model.low_precision.groups import Outsider, PrecisionGroup, quantisable
from trt_workbench.model.low_precision.preparation import prepare, raise_opset
from trt_workbench.model.low_precision.qdq import ranged_tensors
from trt_workbench.model.opened import Model
from trt_workbench.model.weights import save_model
from trt_workbench.quantize.calibrate import Calibrated, Progress, fixed_batch, named
from trt_workbench.quantize.candidates import (
    Candidate,
    all_groups,
    kept_groups,
    lowered,
    make_candidate,
    method_of,
    other_products,
    weight_elements,
)
from trt_workbench.quantize.data import Batch, Half, batches, calibration_data
from trt_workbench.quantize.document import GroupLoss, Sensitivity, decibels, noisiest
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings

Outputs = Sequence[Mapping[str, NDArray[Any]]]
# Of which noise is measured: groups differ by orders of magnitude, samples by little.
SAMPLES = 4
# Of an output that is NaN, or all there is in place of zeros.
_MOST_NOISE = 1e12


class Maker:
    """Makes candidates of one model with chosen groups left alone; the calibration ran once."""

    def __init__(
        self, model: Model, precision: str, calibrated: Calibrated | None, placement: PlacementSettings
    ) -> None:
        self.model, self.precision, self.placement = model, precision, replace(placement, keep_sensitive=False)
        self.calibrated = calibrated

    def make(self, kept: Sequence[str], output: Path, **facts: Any) -> Candidate:
        """Return the candidate with `kept` left alone. Raises as `make_candidate`."""
        placement = replace(self.placement, keep=(*self.placement.keep, *kept))
        return make_candidate(
            self.model, self.precision, output, calibration=self.calibrated, placement=placement, **facts
        )


def choices(
    model: Model, precision: str, calibrated: Calibrated | None, placement: PlacementSettings
) -> tuple[onnx.ModelProto, tuple[PrecisionGroup, ...], dict[str, str], dict[str, str]]:
    """Return the groups of a model that a format can be chosen for.

    Returns:
        The document of `prepare`, all groups with the shapes that the data have, those that `quantize` leaves in fp32
        with the same options, and those among them that are not even tried, with their reasons.

    Raises:
        UsageProblem: there is none to be tried.
    """
    document, _ = prepare(model)
    groups = quantisable(document, calibrated.shapes if calibrated else {})
    anyway, left_out = (
        kept_groups(document, groups, precision, one, model.path)
        for one in (placement, replace(placement, keep_sensitive=False))
    )
    if len(left_out) == len(groups):
        reasons = ", ".join(dict.fromkeys(left_out.values()))
        raise UsageProblem(
            f"{all_groups(len(groups))} kept in fp32 ({reasons}), so nothing can be measured: {model.path}"
        )
    return document, groups, anyway, left_out


def measure_sensitivity(
    model: Model,
    precision: str,
    calibrated: Calibrated | None,
    settings: CalibrationSettings,
    placement: PlacementSettings,
    *,
    half: Half | None = None,
    on_progress: Progress | None = None,
    only: Collection[str] | None = None,
    until: float = math.inf,
) -> Sensitivity:
    """Measure the noise that each group alone makes in the format.

    Args:
        model: of floats.
        precision: the format.
        calibrated: of the model; None for a format without ranges.
        settings: which samples the noise is measured on, the first few of them.
        placement: how ranges are chosen, and what is left alone in any case.
        half: of the data, as of `calibration_data`.
        on_progress: called with the groups done and their total.
        only: names of the groups that a search asks for; None for all, with what keeping the noisiest brings.
        until: time, as of `time.monotonic`, after which no further group is measured.

    Raises:
        UsageProblem: the model cannot be made so, or the data do not fit it.
        ComponentMissing: ONNX Runtime is absent.
    """
    began = time.monotonic()
    method = method_of(precision, placement)
    document, groups, anyway, left_out = choices(model, precision, calibrated, placement)
    free = [group for group in groups if group.name not in left_out]
    shapes = calibrated.shapes if calibrated else {}
    placement = replace(placement, keep_sensitive=False)
    products: list[PrecisionGroup | Outsider] = [*groups, *other_products(document, precision, shapes).values()]
    macs, weights = sum(one.macs for one in products), sum(weight_elements(products))
    data = calibration_data(model, settings, half)
    first = replace(data, names=data.names[:SAMPLES], read=lambda: itertools.islice(data.read(), SAMPLES))
    taken = list(batches(first, fixed_batch(model)))
    # noise is measured at what the convolutions return that make the outputs, or at the outputs: behind such
    # convolutions, a detector that picks its boxes returns them in another order for the slightest change
    makers = {group.name for group in groups if group.sensitive == HEAD}
    heads = tuple(node.output[0] for node in document.graph.node if node.name in makers)
    tensors = heads or tuple(value.name for value in document.graph.output)
    # outputs of the model before anything is made of it, so that it returns them in float32 always
    there = {value.name for value in document.graph.output}
    document.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in tensors if name not in there
    )
    document = raise_opset(document, precision, model.path)
    options = SessionOptions(threads=settings.threads)
    with scratch_folder() as name:
        path = Path(name) / model.path.name

        def outputs(changed: onnx.ModelProto) -> Outputs:
            save_model(changed, path)
            with named(path, model.path), load_reference(path, options) as session:
                return [_floats(batch, session.run(batch.inputs), tensors) for batch in taken]

        @functools.cache  # all groups, those that quantize makes and one alone may be the same
        def noise(*low: PrecisionGroup) -> tuple[float, Mapping[str, str]]:
            copy = onnx.ModelProto()
            copy.CopyFrom(document)
            ranges = calibrated.ranges(ranged_tensors(copy, low), method, precision) if calibrated else {}
            made = lowered(copy, low, precision, ranges, placement)
            return _noise(reference, outputs(made.model)), made.kept

        wanted = free if only is None else [group for group in free if group.name in only]
        reference = outputs(document) if wanted else ()
        whole, unmade = noise(*free) if only is None else (None, {})
        left_out |= {group.name: unmade[group.name] for group in free if group.name in unmade}
        free, wanted = ([group for group in each if group.name not in left_out] for each in (free, wanted))
        found = []
        for number, group in enumerate(wanted):
            if time.monotonic() > until:
                break
            loss = _loss(group, noise(group)[0], macs, weights)
            found.append(loss.model_copy(update={"kept": anyway.get(group.name, "")}))
            if on_progress:
                on_progress(number + 1, len(wanted))
        found.sort(key=lambda one: (bool(one.kept), -one.noise))
        made = [group for group in free if group.name not in anyway] if only is None else []
        plain = noise(*made)[0] if made else None
        advised = [one.name for one in noisiest([one for one in found if not one.kept])]
        rest = [group for group in made if group.name not in advised]
        kept = noise(*rest)[0] if rest and advised else None  # quantize refuses to leave every group alone
        if plain is None or kept is None or kept >= plain:
            advised = []
    return Sensitivity(
        model=str(model.path),
        model_sha256=model.sha256,
        to=precision,
        method=method if calibrated else None,
        calibrated=calibrated is None or calibrated.evidence.kind == "data",
        data_sha256=calibrated.evidence.data_sha256 if calibrated else None,
        samples=min(SAMPLES, len(data.names)),
        seed=settings.seed,
        tensors=list(tensors),
        noise=whole,
        sqnr_db=None if whole is None else decibels(whole),
        groups=found,
        plain=plain,
        advised=advised,
        kept=kept,
        left_out=left_out,
        wall_s=time.monotonic() - began,
    )


def _loss(group: PrecisionGroup, noise: float, macs: int, weights: int) -> GroupLoss:
    return GroupLoss(
        name=group.name,
        op_type=group.op_type,
        macs_share=group.macs / (macs or 1),
        weights_share=group.weight_elements / (weights or 1),
        noise=noise,
        sqnr_db=decibels(noise),
    )


def _floats(batch: Batch, outputs: Mapping[str, NDArray[Any]], tensors: Sequence[str]) -> dict[str, NDArray[Any]]:
    return {
        name: batch.of_samples(outputs[name]) for name in tensors if np.issubdtype(outputs[name].dtype, np.floating)
    }


def _noise(reference: Outputs, outputs: Outputs) -> float:
    """Return the power of the difference over that of the reference, mean over the tensors."""
    ratios = []
    for name in reference[0]:
        sums = Sums()
        for one, other in zip(reference, outputs, strict=True):
            sums.add(other[name], one[name])
        ratios.append(min(sums.rel_l2**2, _MOST_NOISE))
    if not ratios:
        raise UsageProblem("The model has no float output to compare.")
    return float(np.mean(ratios))
