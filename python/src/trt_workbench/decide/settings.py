"""What `decide` is asked for, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.core.precision import precisions as all_precisions
from trt_workbench.core.settings import (
    AllowUnverified,
    BuildsOption,
    OptionsByBackend,
    Seed,
    Setting,
    duration,
    latency,
    memory,
    names,
    number,
    numbers,
)
from trt_workbench.quantize import AP, Better, Score
from trt_workbench.stream import RATES
from trt_workbench.vision import AT_THRESHOLD, SCORE_THRESHOLD, at_threshold

PRECISIONS = all_precisions()
"""What can be asked for: `int8` is what `quantize` makes, `int8-mixed` the most int8 that a search found."""
DEFAULT_PRECISIONS = all_precisions(lambda one: one.by_default)
precisions = partial(names, known=PRECISIONS, noun="precision")
"""Reads precisions; raises UsageProblem for an unknown one."""


def kept(option: str, text: str) -> tuple[str, ...]:
    """Return names of figures, such as "AP", "f1@0.25" and "WER". Raises UsageProblem for an unknown one."""
    found = []
    for name in names(option, text):
        figure, _, at = name.partition("@")
        if name in (AP, *RATES):
            found.append(name)
            continue
        if figure not in AT_THRESHOLD:
            known = (AP, *RATES, *(at_threshold(one, SCORE_THRESHOLD) for one in AT_THRESHOLD))
            raise UsageProblem(f"{option}: there is no metric {name!r}; {did_you_mean(name, known)}")
        threshold = number(at) if "@" in name else SCORE_THRESHOLD
        if not 0 <= threshold <= 1:
            raise UsageProblem(f"{option}: a threshold is a number from 0 to 1, as in {figure}@0.25, not {at!r}.")
        found.append(at_threshold(figure, threshold))
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class DecideSettings:
    """What is tried and by what bound it is judged; None where the default is to be chosen."""

    data: Annotated[
        Path | None,
        Setting(
            "Images or a data set of a detector, .npy or .npz files, a text, or with --contract a manifest of "
            "utterances; those of the embedded model by default."
        ),
    ] = None
    annotations: Annotated[
        Path | None, Setting("COCO annotation file of the images; of a function as --score the targets, .npz or .npy.")
    ] = None
    backends: Annotated[
        tuple[str, ...] | None,
        Setting("Runtimes, comma-separated: ort-cpu,trt; by default those available here.", kind=str, read=names),
    ] = None
    precisions: Annotated[
        tuple[str, ...],
        Setting(
            f"Precisions, comma-separated: {', '.join(PRECISIONS)}.",
            kind=str,
            read=precisions,
            default=",".join(DEFAULT_PRECISIONS),
        ),
    ] = DEFAULT_PRECISIONS
    max_loss: Annotated[float, Setting("Acceptable loss of the score.", min=0.0)] = 0.005
    max_latency_ms: Annotated[
        float | None,
        Setting("Largest latency that may be shipped: 2ms, 500us.", flags="--max-latency", kind=str, read=latency),
    ] = None
    max_memory_mib: Annotated[
        float | None,
        Setting("Most memory in use while it is timed: 512MiB, 2GiB.", flags="--max-memory", kind=str, read=memory),
    ] = None
    expect: Annotated[
        Mapping[str, float],
        Setting(
            "Published score of the model, such as AP=0.391: nothing is decided where fp32 is far from it; repeatable.",
            read=numbers,
            metavar="NAME=VALUE",
        ),
    ] = field(default_factory=dict)
    keep: Annotated[
        tuple[str, ...],
        Setting(
            "Metrics to keep within --max-loss, comma-separated: of a detector AP, or at a score threshold f1@0.25, "
            "precision@0.25, recall@0.25, ece@0.25; of utterances WER, token_error_rate.",
            kind=str,
            read=kept,
            default=AP,
        ),
    ] = (AP,)
    split: Annotated[str | None, Setting("Split of --data where that is a data set; val by default.")] = None
    calibration_annotations: Annotated[
        Path | None,
        Setting("Annotations (COCO's, data.yaml, targets) of the --calibration data, for the search for int8-mixed."),
    ] = None
    score: Score = None
    better: Better = None
    search: Annotated[
        bool, Setting("Search for int8-mixed on calibration data that are not scored, if there are any.")
    ] = True
    budget: Annotated[
        float | None, Setting("Start nothing new after this time: 90s, 30m, 2h.", kind=str, read=duration)
    ] = None
    limit: Annotated[
        int | None,
        Setting(
            "Score at most this many samples: of images as eval-coco chooses them; of other data 64 at random.", min=1
        ),
    ] = None
    batch: Annotated[int, Setting("Items per timed call.", min=1)] = 1
    repetitions: Annotated[
        int, Setting("Repetitions per latency, more where rows need them; 0 for scores only.", min=0)
    ] = 9
    builds: BuildsOption = None
    options: OptionsByBackend = field(default_factory=dict)
    certain: Annotated[
        bool,
        Setting("Exit with 0 only if the whole interval of a loss is within --max-loss, not just the loss."),
    ] = False
    allow_unverified: AllowUnverified = False
    seed: Seed = 0

    @property
    def limits(self) -> dict[str, float]:
        """What else is asked for besides the score, by name: `max_latency_ms`, `max_memory_bytes`."""
        given = {"max_latency_ms": self.max_latency_ms}
        given["max_memory_bytes"] = self.max_memory_mib and self.max_memory_mib * 2**20
        return {name: most for name, most in given.items() if most is not None}
