"""What can be asked of a candidate, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.core.precision import precisions
from trt_workbench.core.settings import Seed, Setting, duration
from trt_workbench.model.low_precision.kinds import Method
from trt_workbench.vision import CLASSES

if TYPE_CHECKING:
    from trt_workbench.model.opened import Model
    from trt_workbench.quantize.data import CalibrationData
    from trt_workbench.quantize.scores import ResampledScore

MADE = precisions(lambda one: one.makes)
"""What `quantize` and `sensitivity` make."""
FEWEST_SAMPLES = 8
"""Ranges from fewer are refused."""
MOST_SCORED = 500
"""Samples of the held-out half that candidates are scored on."""
AP = "AP"
"""Stands for the figure that models of a task are compared by, such as mask_AP."""
_DATA = "Calibration"
_PLACEMENT = "Quantisation"
_SCORE = "Scoring"
_SPEECH = "Speech"


def made_precision(option: str, text: str) -> str:
    """Return a precision that a model can be made in. Raises UsageProblem for any other text."""
    if text not in MADE:
        raise UsageProblem(f"{option}: there is no target format {text!r}; {did_you_mean(text, MADE)}")
    return text


TO = Setting(f"Target format: {', '.join(MADE)}.", flags="--to", kind=str, read=made_precision)


def score_named(option: str, given: Any) -> str:
    """Return the name of a score: one of ours, of a package's, or the place of a function; a function gives its own.

    Raises:
        UsageProblem: there is no such score, or another process could not load the function.
    """
    if callable(given):
        plain = inspect.unwrap(given)
        code, name = getattr(plain, "__code__", None), getattr(plain, "__qualname__", type(plain).__name__)
        # under its name a file has the function with its decorators; what else wraps one would be lost
        if not (
            code
            and given in (plain, getattr(sys.modules.get(plain.__module__), name, None))
            and name.isidentifier()
            and Path(code.co_filename).is_file()
        ):
            raise UsageProblem(
                f"{option}: another process loads the function, so it has to be a `def` at the top of a file, which "
                f"may call what you have; {name}{f' in {code.co_filename}' if code else ''} is not."
            )
        given = f"{code.co_filename}:{plain.__name__}"
    place, _, function = str(given).rpartition(":")
    from trt_workbench.quantize.figures import METRICS, PLUGGED

    if given in METRICS or given in PLUGGED or (place and function.isidentifier()):
        return str(given)
    from trt_workbench.core.extensions import SCORES, extensions

    if given not in (others := extensions(SCORES, METRICS)):
        known = did_you_mean(str(given), [*{**METRICS, **PLUGGED, **others}])
        raise UsageProblem(f"{option}: there is no score {given!r}; {known} A function of yours is FILE.py:function.")
    return str(given)


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A score, whatever has it: AP, WER, perplexity, how like fp32's outputs are, a function of the user's.

    `metric_of` knows all of them.

    Attributes:
        kind: as `--score` names it.
        name: as pages show it.
        unit: what is resampled, in the plural.
        of: the data that it is of, for messages.
        elsewhere: what gives it, where a model alone has none in `eval-vision` and `upgrade`; "" where it has.
        is_share: whether it is at most 1, so that no more of it can be lost.
        takes_targets: whether what `--annotations` names are arrays or values that it compares outputs with.
        flags: further options of `eval-vision` where upgrade asks for it.
        files: folder of a run directory of `eval-vision` that `read` takes; "" for that itself.
    """

    kind: str
    name: str
    unit: str = "samples"
    of: str = "samples without annotations, such as .npz or .jsonl files"
    elsewhere: str = ""
    is_share: bool = False
    takes_targets: bool = False
    flags: tuple[str, ...] = ()
    files: str = "score"

    def loaded(self) -> Self:
        """Return it with what identifies it. Raises UsageProblem where there is no such score."""
        return self

    @abstractmethod
    def read(self, folder: Path, seed: int, names: Sequence[str] = ()) -> ResampledScore:
        """Return the score that was left in a folder, with its resamples by `seed`.

        Args:
            folder: of its files.
            seed: of the resamples.
            names: of the figures of that run: the score, then its others; those that the metric is for by default.

        Raises:
            UsageProblem: a file is damaged, or there is no such score in it.
        """


@dataclass(frozen=True, kw_only=True)
class ArrayMetric(Metric):
    """A score of a model's outputs for samples, which `figures.score_arrays` runs.

    Attributes:
        number: its name in `SampleScores.numbers`; "" for the first.
        ranks: how many dimensions the first output of floats may have; empty for any.
        takes: the input whose values name entries of that output's last dimension; "" for any inputs.
        needs: what a model lacks that has neither, a sentence.
    """

    number: str = ""
    ranks: tuple[int, ...] = ()
    takes: str = ""
    needs: str = ""

    def ready(self, model: Model, data: CalibrationData) -> Self:
        """Return it loaded. Raises UsageProblem where model or samples do not fit it, before anything is run."""
        shape = next((one.shape for one in model.facts.outputs if one.dtype.startswith(("float", "bfloat"))), None)
        fits = not self.ranks or shape is None or len(shape) in self.ranks
        if not fits or self.takes not in ("", *(one.name for one in model.facts.inputs)):
            raise UsageProblem(f"{self.needs} Model: {model.path}")
        entries = shape[-1] if shape and self.takes else None
        if isinstance(entries, int) and any(int(sample[self.takes].max()) >= entries for sample in data.read()):
            raise UsageProblem(
                f"{self.needs} Its output has {entries} entries per token, and the data have larger tokens: "
                f"{model.path}"
            )
        return self.loaded()

    @abstractmethod
    def numbers(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields of `SampleScores`: the numbers of every sample.

        Args:
            run: `outputs` of the model by name, each [samples, ...], and what is `expected`, the baseline's; `ids`,
                int [samples, tokens] of token ids, or None; `names` of the samples; `targets`, which returns those of
                each sample by name; `folder` of the score's files; `seed` of the resamples; `baseline`, the folder of
                its score, or None.

        Raises:
            UsageProblem: there are none of these outputs.
        """

    def read(self, folder: Path, seed: int, names: Sequence[str] = ()) -> ResampledScore:
        """Return the score that `score_arrays` left in a folder."""
        del names
        from trt_workbench.quantize.scores import array_scores

        return array_scores(folder, self, seed)


Score = Annotated[
    str | None,
    Setting(
        "ap, top1, cosine, perplexity, wer, or a function: FILE.py:function, package.module:function. top1 and cosine "
        "compare with fp32; perplexity needs a text, wer a manifest; a function takes --annotations.",
        _SCORE,
        kind=str,
        read=score_named,
        takes_functions=True,
    ),
]
Better = Annotated[
    Literal["higher", "lower"] | None,
    Setting("Which values of a function as --score are better; by default its attribute `better` says it.", _SCORE),
]


@dataclass(frozen=True)
class CalibrationSettings(Preparation):
    """Data that ranges of activations are found on; one run over it serves every method and candidate."""

    calibration: Annotated[
        str | None,
        Setting(
            "Images, .npy or .npz files (a file or a folder), a text, with --contract a manifest of utterances; "
            "`random` for noise, not calibrated.",
            _DATA,
        ),
    ] = None
    samples: Annotated[int, Setting("Use this many samples, drawn at random from all.", _DATA, min=FEWEST_SAMPLES)] = (
        128
    )
    classes: Annotated[str | None, CLASSES] = None
    tokenizer: Annotated[
        Path | None, Setting("Folder of the tokenizer for a text; the model's folder by default.", _DATA)
    ] = None
    window: Annotated[int, Setting("Tokens per sample of a text.", _DATA, min=2)] = 128
    contract: Annotated[
        Path | None,
        Setting("Contract of a streaming model: the data are then manifests, as eval-speech has.", _SPEECH),
    ] = None
    threads: Annotated[int | None, Setting("CPU cores for calibration; all by default.", _DATA, min=1)] = None
    seed: Seed = 0


@dataclass(frozen=True)
class PlacementSettings:
    """Which groups of a model are made low, and how ranges are chosen."""

    method: Annotated[Method | None, Setting("How ranges are chosen: max, entropy, percentile or mse.", _PLACEMENT)] = (
        None
    )
    keep: Annotated[
        tuple[str, ...],
        Setting("Keep this group (a node, or a pattern such as layers.0.*) in fp32; repeatable.", _PLACEMENT),
    ] = ()
    keep_sensitive: Annotated[
        bool,
        Setting(
            "Keep in fp32 the groups that are known to lose most (docs/reference/commands/quantize.md).", _PLACEMENT
        ),
    ] = True
    attention: Annotated[bool, Setting("Also quantise products of two activations.", _PLACEMENT)] = False
    compact: Annotated[
        bool,
        Setting("Keep int8 weights as integers, a quarter of the size; TensorRT 8.6 cannot read them.", _PLACEMENT),
    ] = False


@dataclass(frozen=True)
class ScoreSettings:
    """What candidates are scored by, on the half of the calibration data on which no ranges are found."""

    annotations: Annotated[
        Path | None,
        Setting(
            "Annotations of the calibration images, COCO's or data.yaml: the score is AP. Of a function as --score its "
            "targets, .npz or .npy.",
            _SCORE,
        ),
    ] = None
    split: Annotated[str | None, Setting("Split of a data.yaml; train by default.", _SCORE)] = None
    score: Score = None
    better: Better = None


@dataclass(frozen=True)
class SearchSettings(ScoreSettings):
    """How much of the score may be lost; then the groups that are left alone are searched for."""

    keep_score: Annotated[
        float | None,
        Setting("Keep as few groups in fp32 as keep the score within this loss on half of the data.", _SCORE, min=0.0),
    ] = None
    budget: Annotated[
        float | None,
        Setting("Let the search begin nothing new after this time: 90s, 30m, 2h.", _SCORE, kind=str, read=duration),
    ] = None
