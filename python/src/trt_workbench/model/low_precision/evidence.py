"""How a candidate was made: the evidence of its calibration, stored inside the ONNX file and beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from trt_workbench.core.counts import decimals
from trt_workbench.core.documents import Strict
from trt_workbench.core.input_files import parse_json
from trt_workbench.core.statistics.bootstrap import is_certain
from trt_workbench.model.low_precision.kinds import Method

METADATA_KEY = "trtw.quantization"


class TensorRange(Strict):
    """What calibration saw of one activation, and what range was taken.

    Attributes:
        largest: largest absolute value over all samples.
        threshold: absolute value that the largest code stands for; larger values are clipped.
        clipped: share of the values seen that are larger than `threshold`.
    """

    largest: float
    threshold: float
    clipped: float


class InputStatistics(Strict):
    """Values of one input over samples: by channel of images, of anything else all together.

    Attributes:
        mean: of each channel.
        spread: standard deviation of each channel.
        image: whether the samples have the shape of images.
        tilt: of three channels, how far the first one's mean is above the last one's, mean over the samples, and the
            standard error of that; None of fewer than two samples.
    """

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    image: bool
    tilt: tuple[float, float] | None = None


class CalibrationEvidence(Strict):
    """The data that ranges were found on.

    Attributes:
        kind: "data", or "random" where there was none.
        samples: how many were used.
        available: how many there were; 0 of random ones.
        data_sha256: hash of the samples used with their transform; None of random ones.
        transform: how files became tensors.
        seed: of the choice of samples, or of the random ones.
        percentile: of the method of that name.
        inputs: statistics of what was fed, by input of floats.
    """

    kind: Literal["data", "random"]
    samples: int
    available: int
    data_sha256: str | None
    transform: str
    seed: int
    percentile: float
    inputs: dict[str, InputStatistics] = {}


class SearchPoint(Strict):
    """One candidate that a search scored.

    Attributes:
        kept: how many groups it leaves unchanged.
        low_macs: share of the multiply-accumulates that are in the format, 0 to 1.
        value: its score.
        loss: the float model's score minus it.
        loss_ci95: ends of the 95 % interval of the loss over resamples of the samples, drawn for both models together.
        seen_loss: the same loss on the samples that ranges were found on; None where `loss` is beyond the bound anyway.
        loss_sd: standard error of the mean of both losses; None where only one is known.
    """

    kept: int
    low_macs: float
    value: float
    loss: float
    loss_ci95: tuple[float, float] | None
    seen_loss: float | None = None
    loss_sd: float | None = None

    @property
    def mean_loss(self) -> float:
        """On all samples: the mean of both halves, or what is known."""
        return self.loss if self.seen_loss is None else (self.loss + self.seen_loss) / 2

    def words(self, bound: float) -> str:
        """Return its score and losses, in digits that distinguish them from a bound."""
        digits = digits_for(bound)
        ends = f" (95 %: {' to '.join(decimals(end, digits) for end in self.loss_ci95)})" if self.loss_ci95 else ""
        seen = (
            "" if self.seen_loss is None else f", {decimals(self.seen_loss, digits)} on the half used for calibration"
        )
        return f"{self.value:.{digits}f}, loss {decimals(self.loss, digits)}{ends}{seen}"

    def keeps(self, bound: float) -> bool:
        """Whether the loss is within a bound on both halves of the data: on one half, that is often chance."""
        return self.loss <= bound and self.seen_loss is not None and self.seen_loss <= bound


def digits_for(bound: float) -> int:
    """Return how many decimals distinguish losses from a bound: 4, and more for a bound below 0.001."""
    return max(4, 1 - math.floor(math.log10(bound))) if bound > 0 else 6


class SearchEvidence(Strict):
    """How the groups left unchanged were chosen.

    Attributes:
        bound: loss of the score that was allowed.
        figure: name of the score.
        unit: what a sample is, in the plural.
        samples: how many were scored; ranges were found on others.
        baseline: score of the float model.
        is_error: whether less is better, as of a perplexity; a loss is then the share by which it grows.
        weighed_by: what an unchanged group costs; times in earlier releases, where that was asked for.
        began: the first of these, as `quantize` makes it without a search; None of earlier releases.
        chosen: the candidate that was taken; None where none keeps the bound.
        curve: all that were scored, fewest unchanged groups first.
        seed: of everything drawn.
    """

    bound: float
    figure: str
    unit: str
    samples: int
    baseline: float
    is_error: bool
    weighed_by: Literal["arithmetic", "time"] = "arithmetic"
    began: SearchPoint | None = None
    chosen: SearchPoint | None
    curve: tuple[SearchPoint, ...]
    seed: int

    @property
    def words(self) -> str:
        """What the candidate that was taken scores, and what that can claim."""
        assert self.chosen is not None
        chosen, digits = self.chosen, digits_for(self.bound)
        said = f"{self.figure} on {self.samples} held-out {self.unit}: {chosen.words(self.bound)}"
        if not chosen.keeps(self.bound):
            said += (
                f"; the mean of both is {chosen.mean_loss:.{digits}f}, "
                f"its standard error {chosen.loss_sd or 0:.{digits}f}"
            )
        if chosen.loss_ci95 and not is_certain(chosen.loss_ci95, self.samples, self.bound):
            said += f"; too few {self.unit} to prove a loss of at most {self.bound:g}"
        return said


class Evidence(Strict):
    """How a candidate was made.

    Attributes:
        to: its format.
        method: of choosing ranges; None where the format needs none.
        calibrated: whether activations have ranges from real data, or need none.
        calibration: the data; None where the format needs none.
        ranges: by tensor of the source model.
        kept: unchanged groups, with the reason.
        low_macs: share of the multiply-accumulates that are in the format, 0 to 1.
        low_weights: share of the weights' elements that are.
        opset: operator set of the candidate.
        source_opset: of the source model.
        notes: messages for the user, in sentences.
        search: how the unchanged groups were chosen; None where that was not by a score.
        source: file name of the source model.
        source_sha256: its hash, external data included.
        versions: of onnx, onnxruntime, numpy and this package.
    """

    schema_version: Literal[1] = 1
    to: str
    method: Method | None = None
    calibrated: bool
    calibration: CalibrationEvidence | None = None
    ranges: dict[str, TensorRange] = {}
    kept: dict[str, str] = {}
    low_macs: float
    low_weights: float
    opset: int
    source_opset: int
    notes: tuple[str, ...] = ()
    search: SearchEvidence | None = None
    source: str
    source_sha256: str
    versions: dict[str, str]

    def short(self) -> str:
        """Return the JSON that the ONNX file carries: without what may be long."""
        return self.model_dump_json(include={*type(self).model_fields} - {"ranges", "kept", "notes", "search"})


def evidence_in(metadata: Mapping[str, str]) -> Evidence | None:
    """Return the short evidence that a model's metadata holds; None where there is none, or it is damaged."""
    try:
        return Evidence.model_validate(parse_json(metadata[METADATA_KEY]))
    except (ValueError, TypeError, KeyError):
        return None


def calibration_inputs(metadata: Mapping[str, str]) -> dict[str, InputStatistics]:
    """Return what calibration on data fed, by a model's metadata; nothing of noise or where it does not say."""
    found = evidence_in(metadata)
    return found.calibration.inputs if found and found.calibration and found.calibration.kind == "data" else {}


def is_calibrated(metadata: Mapping[str, str]) -> bool:
    """Return False where a model's metadata says that its ranges come from noise, or is damaged there."""
    try:
        return METADATA_KEY not in metadata or parse_json(metadata[METADATA_KEY])["calibrated"] is True
    except (ValueError, TypeError, KeyError):
        return False
