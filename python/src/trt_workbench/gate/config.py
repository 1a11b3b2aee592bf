"""What `gate` checks, from a YAML file: each part holds limits, and settings of the command that it calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from trt_workbench.core.counts import decimals, digits_of
from trt_workbench.core.documents import Open, Strict
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.yaml_settings import load_yaml_settings


class _Part(Open):
    """A part of the file; what it does not name itself are settings of its command.

    Attributes:
        limits: of which it needs one, as it cannot fail without; none of a part that has its own.
    """

    limits: ClassVar[tuple[str, ...]] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the command by name."""
        return dict(self.model_extra or {})


class VerifyPart(_Part):
    """Settings of `verify`."""


class ScorePart(_Part):
    """Settings of `eval-coco`, or with `score` those of `decide` (of fp32 alone, unless it names others), and limits.

    Attributes:
        at_least: lowest value of figures by name, such as AP.
        at_most: highest value of figures by name, such as perplexity.
        baseline: run directory of an earlier eval-coco, or its metrics.json.
        max_loss: largest loss of the main figure, against the baseline, or with `score` against fp32 of the same run.
    """

    at_least: dict[str, float] = Field(default_factory=dict)
    at_most: dict[str, float] = Field(default_factory=dict)
    baseline: Path | None = None
    max_loss: Annotated[float, Field(ge=0)] = 0.005
    limits: ClassVar[tuple[str, ...]] = ("at_least", "at_most", "baseline")

    @model_validator(mode="after")
    def _can_fail(self) -> ScorePart:
        if not self.is_decided and (self.max_loss >= 1 or any(least <= 0 for least in self.at_least.values())):
            raise ValueError("no score of eval-coco loses 1 or is below 0; give max_loss below 1, at_least above 0")
        return self

    @property
    def is_decided(self) -> bool:
        """Whether `decide` scores it."""
        return "score" in self.settings

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the command by name."""
        given = super().settings
        alone = {"precisions": ("fp32",), "repetitions": 0, "search": False, "max_loss": self.max_loss}
        # a gate does not pass by the images that happen to be there
        return {**(alone if "score" in given else {"allow_missing": False}), **given}

    def margins(self, figures: Mapping[str, float], main: str, words: str) -> tuple[str, bool]:
        """Return figures with their distances from the limits, a clause each, and whether all are within.

        Args:
            figures: of the run by name.
            main: the one that comes first, limited or not.
            words: on that one.

        Raises:
            UsageProblem: a figure with a limit is absent.
        """
        told, within = {main: words}, True
        for limit, bounds in (("at_least", self.at_least), ("at_most", self.at_most)):
            for name, bound in bounds.items():
                value = figure(figures, name, f"score.{limit}")
                away, meets = margin(value, limit, bound, digits_of(value))
                told[name] = f"{told.get(name, f'{name} {decimals(value, digits_of(value))}')}, {away}"
                within = within and meets
        return "; ".join(told.values()), within


def margin(value: float, limit: str, bound: float, digits: int = 4, unit: str = "") -> tuple[str, bool]:
    """Return how far a value is from `at_least` or a limit that it may not exceed, and whether it meets that."""
    meets = value >= bound if limit == "at_least" else value <= bound
    away = f"{abs(value - bound):.{digits}f}{unit} {'above' if meets == (limit == 'at_least') else 'below'}"
    return f"{away} {limit} {bound:g}", meets


def figure(figures: Mapping[str, float], name: str, place: str) -> float:
    """Return a figure of a run. Raises UsageProblem, naming the place in the file, where it has no value."""
    if name not in figures:
        raise UsageProblem(f"{place}: {name} has no value in this run; these have one: {', '.join(figures)}.")
    return figures[name]


class LatencyPart(_Part):
    """Settings of `bench` on a model file, and limits.

    Attributes:
        at_most_ms: largest median latency of any point.
        baseline: run directory of an earlier bench.
        tolerance: share by which a point may be slower than in the baseline.
        allow_different_machines: compare with a baseline of another machine.
    """

    at_most_ms: Annotated[float, Field(gt=0)] | None = None
    baseline: Path | None = None
    limits: ClassVar[tuple[str, ...]] = ("at_most_ms", "baseline")
    tolerance: Annotated[float, Field(ge=0)] = 0.05
    allow_different_machines: bool = False


class GateConfig(Strict):
    """The whole file. Paths are relative to the current folder.

    Attributes:
        schema_version: of the file, 1.
        model: the model file.
        verify: whether it computes what the model says; None to leave it out.
        score: whether its score is good enough.
        latency: whether it is fast enough.
    """

    schema_version: Literal[1] = 1
    model: Path
    verify: VerifyPart | None = None
    score: ScorePart | None = None
    latency: LatencyPart | None = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        """Take a part that is named without settings, which YAML reads as null, for one with the defaults."""
        if not isinstance(given, dict):
            return given
        return {name: {} if value is None and name != "model" else value for name, value in given.items()}

    @model_validator(mode="after")
    def _something(self) -> GateConfig:
        if not (self.verify or self.score or self.latency):
            raise ValueError("nothing is checked; name at least one of verify, score and latency")
        return self


def load_gate(file: Path) -> GateConfig:
    """Read and check a file. Raises UsageProblem as `load_yaml_settings`."""
    return load_yaml_settings(GateConfig, file, noun="gate settings")
