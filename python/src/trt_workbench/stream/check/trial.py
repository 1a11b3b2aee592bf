"""What the dynamic checks of a contract share: the streams that they run, what counts as equal, what they gather."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from trt_workbench.stream.check.document import Check, ContractViolation, StateFact
from trt_workbench.stream.check.steps import Arrays, ChunkRun, Stepper, apart, lengths_by, valid_part
from trt_workbench.stream.contract.parts import Chunk, State

_MOST_FINDINGS = 20


@dataclass
class CheckTally:
    """What one check gathers.

    Attributes:
        name: of the check.
        cases: things compared.
        worst: largest distance of what should be equal.
        reason: why it was not made, or what it leaves out.
        findings: what does not hold.
    """

    name: str
    cases: int = 0
    worst: float | None = None
    reason: str = ""
    findings: list[ContractViolation] = field(default_factory=list)

    def add(
        self, what: str, chunk: Chunk | None = None, tensor: str | None = None, invariant: str | None = None
    ) -> None:
        """Add what does not hold."""
        self.findings.append(
            ContractViolation(what=what, chunk=chunk.index if chunk else None, tensor=tensor, invariant=invariant)
        )

    def equal(self, distance: float, limit: float, what: str, chunk: Chunk, tensor: str) -> None:
        """Count a comparison of what should be equal; beyond the limit, add it."""
        self.cases += 1
        self.worst = max(self.worst or 0.0, distance)
        if distance > limit:
            self.add(f"{what} (relative L2 {distance:.2g}, at most {limit:.2g})", chunk, tensor)

    def check(self) -> Check:
        """Return the record."""
        verdict = "failed" if self.findings else "passed" if self.cases else "not checked"
        worst = self.worst if self.worst is None or np.isfinite(self.worst) else None
        return Check.model_validate(
            {
                "name": self.name,
                "verdict": verdict,
                "cases": self.cases,
                "worst_rel_l2": worst,
                "reason": self.reason,
                "findings": self.findings[:_MOST_FINDINGS],
                "findings_left_out": max(0, len(self.findings) - _MOST_FINDINGS),
            }
        )


class ContractTrial:
    """A contract's model on a session, with the streams that the checks run.

    Attributes:
        stepper: runs the model.
        contract: it.
        chunks: of the stream that most checks look at.
        limit: relative L2 up to which tensors count as equal.
        rng: of noise.
        floor: largest relative L2 between a stream and its repetition.
        states: what was found out about every state.
        others: outputs that are no state.
    """

    def __init__(self, stepper: Stepper, chunks: int, limit: float, seed: int) -> None:
        """Take a stepper; `seed` is that of noise."""
        self.stepper, self.contract, self.chunks, self.limit = stepper, stepper.contract, chunks, limit
        self.rng = np.random.default_rng([seed, 2**31])
        self.floor = 0.0
        self.states: list[StateFact] = []
        states = {pair.output for pair in self.contract.state}
        self.others = [name for name in self.contract.outputs if name not in states]

    def frames(self, chunks: int) -> int:
        """Return the frames of a stream of so many whole chunks."""
        return self.contract.chunking.first.hop + (chunks - 1) * self.contract.chunking.later.hop

    def schedule(self) -> list[Chunk]:
        """Return the chunks of the stream that most checks look at."""
        return list(self.contract.chunks(self.frames(self.chunks)))

    def signal(self, chunks: list[Chunk] | None = None, stream: int = 0, streams: int | None = None) -> Any:
        """Return a signal that is long enough for chunks, of the schedule by default."""
        frames = chunks[-1].start + chunks[-1].hop if chunks else self.frames(self.chunks)
        return self.stepper.signal(frames, stream, streams)

    @cached_property
    def base(self) -> list[ChunkRun]:
        """The stream that most checks look at, run once, from the first chunk on."""
        return list(self.stepper.run(self.schedule(), self.signal()))

    def held(self, step: ChunkRun) -> Arrays:
        """Return what the state inputs of a step held."""
        return {pair.input: step.inputs[pair.input] for pair in self.contract.state}

    def compare(
        self, found: CheckTally, one: ChunkRun, other: ChunkRun, words: str, names: Iterable[str] | None = None
    ) -> None:
        """Count outputs of two steps that should be equal, all by default; `words` say of one that it is not."""
        for name, distance in self.distances(one, other, self.contract.outputs if names is None else names).items():
            found.equal(distance, self.limit, words, other.chunk, name)

    def distances(self, one: ChunkRun, other: ChunkRun, names: Iterable[str]) -> dict[str, float]:
        """Return how far outputs of two steps differ in their valid parts; `other` says which these are."""
        return {name: apart(one.outputs[name], other.outputs[name], self._valid(name, other)) for name in names}

    def _valid(self, name: str, step: ChunkRun) -> Any:
        output, array = self.contract.outputs[name], step.outputs[name]
        if output.valid and output.valid.axis < array.ndim:
            lengths = lengths_by(output.valid.by, self.contract, step)
            batch, offsets = self.contract.batch_axis(name), lengths_by(output.valid.offset, self.contract, step)
            return valid_part(array, output.valid.axis, lengths, batch, "start", offsets)
        for pair in self.contract.state:
            if pair.output == name:
                return self.valid_state(pair, self._as_inputs(step), array)
        return None

    def valid_state(self, pair: State, step: ChunkRun, array: Any) -> Any:
        """Return which entries of a state are valid, by the inputs of a step; None for all of them."""
        if pair.shift is None or pair.shift.by is None or pair.shift.axis >= array.ndim:
            return None
        lengths = lengths_by(pair.shift.by, self.contract, step)
        return valid_part(array, pair.shift.axis, lengths, self.contract.batch_axis(pair.input), pair.shift.valid_at)

    def _as_inputs(self, step: ChunkRun) -> ChunkRun:
        """Return the step with its states as the next chunk takes them, by which their valid parts are known."""
        following = step.chunk.after()
        counted = self.contract.counters(step.values, following)
        inputs = step.inputs | {name: np.full_like(step.inputs[name], number) for name, number in counted.items()}
        return ChunkRun(following, step.values, inputs | self.contract.next_state(step.outputs), {})
