"""What `eval-stream --streams` finds: streams joined into batches compared with each alone, and paced in real time."""

from __future__ import annotations

from itertools import takewhile
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import Strict
from trt_workbench.core.statistics.summary import Summary, claimed, too_few

Kind = Literal["first", "later"]


class JoinedCheck(Strict):
    """Streams of different age in batches, compared with each of them alone with its state passed on by the host.

    Attributes:
        streams: most that were open at once.
        chunks: that were compared.
        rows: numbers of streams of a batch that occurred.
        bit_equal: whether no bit of any output or state differs.
        rel_l2_max: largest relative L2 of an output or state after a chunk; None where something is not finite.
        limit: up to which it passes; whole numbers have to be equal.
        tensor: with the largest.
        text: what was found, in words.
    """

    passed: bool
    streams: PositiveInt
    chunks: PositiveInt
    rows: list[PositiveInt]
    bit_equal: bool
    rel_l2_max: NonNegativeFloat | None
    limit: PositiveFloat
    tensor: str | None
    text: str


class Switch(Strict):
    """What a chunk, alone in a warm pool, loses because the one before it had the other size.

    Attributes:
        rounds: samples of each.
        again_ms: a first chunk after a first one, a later chunk after a later one.
        switched_ms: a first chunk after a later one, a later chunk after a first one.
        cost: median of the differences within a round, in relation to the median of `again_ms`.
    """

    rounds: PositiveInt
    again_ms: dict[Kind, Summary]
    switched_ms: dict[Kind, Summary]
    cost: dict[Kind, FiniteFloat]


class Level(Strict):
    """So many streams in real time.

    Attributes:
        chunks: that were run.
        complete: whether all were that should have been; a level that falls far behind is stopped.
        latency_ms: from the moment at which a chunk is due to its outputs on the host.
        latency_p99_9_ms: the same, its 99.9th percentile; None where the chunks are too few to claim it.
        within_hop: whether it is complete and p99 is at most a hop; None where the chunks are too few to claim a p99.
        real_time_factor: time that the pool was at work, in relation to the streams' audio: streams x time.
        busy: share of the time in which the pool was at work.
        rows_mean: streams of a batch.
        rows_max: the most.
        parts_ms: of every chunk's latency: `wait` (until the pool is free), then those of the pool's push.
    """

    streams: PositiveInt
    chunks: PositiveInt
    complete: bool
    latency_ms: Summary
    latency_p99_9_ms: NonNegativeFloat | None
    within_hop: bool | None
    real_time_factor: NonNegativeFloat
    busy: NonNegativeFloat
    rows_mean: PositiveFloat
    rows_max: PositiveInt
    parts_ms: dict[str, Summary]

    @property
    def times_ms(self) -> dict[str, float | None]:
        """The latency's figures that its chunks let claim, None of the others, in the order of a table."""
        summary = {**self.latency_ms, "p99.9": self.latency_p99_9_ms}
        return {name: claimed(summary, name) for name in ("p50", "p99", "p99.9", "max")}

    @property
    def verdict(self) -> str:
        """Whether it is within a hop at p99, in a word or two."""
        if not self.complete:
            return "no, it fell behind"
        if self.within_hop is None or self.times_ms["p99"] is None:
            return "cannot tell"
        return "yes" if self.within_hop else "no"


class Paced(Strict):
    """Streams in real time in one precision.

    Attributes:
        precision: that was asked for.
        judged_as: whose limit holds, read from what ran.
        on_device: whether states stay on the device.
        cuda_graphs: whether the pool uses them, such as "on: 4 graphs captured"; empty on the host.
        hop_ms: how often each stream has a chunk.
        seconds: of real time that a level should take.
        buckets: numbers of rows that the model is run with.
        memory_bytes: what the states take by purpose; `per_stream` is one stream's.
        check: its verdict; no level is run where it failed.
        switch: where first and later chunks differ in size.
        most_streams: the largest level that stays within a hop, as all smaller ones do; None where none is known to.
    """

    precision: str
    judged_as: str
    provenance: dict[str, Any] = {}
    on_device: bool
    cuda_graphs: str = ""
    hop_ms: PositiveFloat
    seconds: PositiveFloat
    buckets: Annotated[list[PositiveInt], Field(min_length=1)]
    memory_bytes: dict[str, NonNegativeInt]
    check: JoinedCheck
    switch: Switch | None = None
    levels: list[Level] = []
    most_streams: PositiveInt | None = None

    @property
    def text(self) -> str:
        """How many streams stay within a hop at p99, and for what that is unknown."""
        judged = list(takewhile(lambda one: one.verdict == "yes", self.levels))
        unknown = [one for one in self.levels if one.verdict == "cannot tell"]
        count = judged[-1].streams if judged else 0
        found = [f"up to {counted(count, 'stream')}"] if count else []
        if unknown:
            counts = ", ".join(str(one.streams) for one in unknown)
            found.append(
                f"cannot tell for {counts}, as {too_few(unknown[-1].latency_ms, ['p99'], 'chunks')}; raise --seconds"
            )
        return f"Within a hop at p99: {'; '.join(found) or 'none of these numbers of streams'}."
