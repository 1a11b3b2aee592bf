"""What a run of `upgrade` keeps: upgrade.json, and side.json of each stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from trt_workbench.core.documents import Open, Strict
from trt_workbench.quantize import RowScore
from trt_workbench.report.verdict import Reach

Outcome = Literal[
    "safe", "wrong", "refused", "lower score", "slower", "not proven", "refused by both", "not run", "recorded"
]
FAILED: frozenset[Outcome] = frozenset(
    {"wrong", "refused", "lower score", "slower", "not proven", "refused by both", "not run"}
)
FILE = "upgrade.json"
NOT_MEASURED = "not measured"


class StackSide(Strict):
    """A stack as it answered: side.json.

    Attributes:
        stack: as the user named it.
        kind: what it is.
        python: version.
        versions: of trt-workbench and of the packages of the backend.
        gpus: names of the GPUs that it sees.
        backend: that was asked for.
        precision: likewise.
        options: of the backend.
        builds: how many of each engine; None where each is built once.
    """

    schema_version: Literal[1] = 1
    stack: str
    kind: str
    python: tuple[int, ...]
    versions: dict[str, str]
    gpus: tuple[str, ...]
    backend: str
    precision: str
    options: dict[str, Any] = {}
    builds: int | None = None


class Checked(Strict):
    """What `verify` said of a model in one stack.

    Attributes:
        verdict: of verify.json; None where the stack refused the model.
        reason: why it refused it, or the first that is wrong or unproven.
        started: whether the stack started at all; where it did not, nothing is known of the model.
        shapes: that were compared.
        relative_l2: the largest of all outputs, where they can be compared.
    """

    verdict: str | None
    reason: str = ""
    started: bool = True
    shapes: int = 0
    relative_l2: float | None = None

    @property
    def word(self) -> str:
        """The verdict, or what stands in its place."""
        return self.verdict or ("refused" if self.started else "not run")


class Reduced(Strict):
    """The smallest wrong part that was found of a model.

    Attributes:
        nodes: names of its nodes.
        operators: of these nodes.
        folder: with the part, its arrays and a script, in the run directory; None without a part.
        reason: why there is none.
    """

    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    folder: str | None = None
    reason: str = ""


class Timed(Strict):
    """The latencies of a model in both stacks.

    Attributes:
        before_ms: median of the repetitions; None where it was not measured.
        after_ms: likewise.
        ratio: after by before: the median of all pairs of turns, without an interval of the medians; None unless both
            were measured.
        ratio_low: lower end of its interval; None with too few repetitions.
        ratio_high: upper end.
        outcome: in words, as of `compare`; NOT_MEASURED where a side has no latencies.
        reason: why a side was not measured.
    """

    before_ms: float | None = None
    after_ms: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    outcome: str
    reason: str = ""


class ScoredPair(Strict):
    """The scores of a model in both stacks.

    Attributes:
        name: of the figure.
        before: score of the old stack.
        after: of the new one, with its loss on the same images.
        images: how many.
        reason: why there is none.
    """

    name: str = ""
    before: RowScore | None = None
    after: RowScore | None = None
    images: int = 0
    reason: str = ""


class Upgraded(Strict):
    """One model.

    Attributes:
        name: of its folders in the run directory.
        model: path.
        model_sha256: with its external data.
        outcome: the worst of what was found; "recorded" where only one side was asked for.
        reasons: sentences, the deciding one first.
        before: of the old stack.
        after: of the new one; None without one.
        reduced: where it is wrong only after the upgrade.
        timed: None where latencies were not asked for, or say nothing.
        scored: None where no score was asked for.
        run_id: of the run that did all of it, or of the part of a run that was resumed.
    """

    name: str
    model: str
    model_sha256: str
    outcome: Outcome
    reasons: tuple[str, ...]
    before: Checked
    after: Checked | None = None
    reduced: Reduced | None = None
    timed: Timed | None = None
    scored: ScoredPair | None = None
    run_id: str = ""

    @property
    def is_final(self) -> bool:
        """Whether every step that was asked for had a result: what was killed, for one, may succeed the next time."""
        failed = self.timed is not None and self.timed.outcome == NOT_MEASURED
        return not (self.outcome == "not run" or failed or (self.scored and self.scored.reason))


class Upgrade(Open):
    """upgrade.json.

    Attributes:
        before: the old stack.
        after: the new one; None of a --record.
        same: whether versions and options of both are equal, so that nothing was compared but two builds of one.
        passed: whether nothing became worse.
        tolerance: of latencies, a share.
        max_loss: of scores.
        models: in the order of asking.
        left: names of the models that were not done before an interrupt.
    """

    schema_version: Literal[1] = 1
    before: StackSide
    after: StackSide | None
    same: bool
    passed: bool
    tolerance: float
    max_loss: float
    models: tuple[Upgraded, ...]
    left: tuple[str, ...] = ()


def reach(models: Sequence[Upgraded], left: Sequence[str], *, same: bool) -> Reach:
    """Return which of the models were compared, and could have become worse: not in one and the same stack."""
    count = len(models)
    return Reach(count + len(left), count, 0 if same else count, sum(one.outcome in FAILED for one in models))
