"""The dynamic checks of a contract: what a model does with streams, beside what its contract says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trt_workbench.evaluate.contract_steps import (
    Arrays,
    CannotRun,
    Step,
    Stepper,
    apart,
    lengths_by,
    row_values,
    valid_part,
)
from trt_workbench.pipeline.streaming.parts import Chunk, State
from trt_workbench.runs.contract import Check, Finding, StateFact

_MOST_FINDINGS = 20
_MOST_SIZES = 24
_MOST_BATCH = 4
_MOST_MEMORY = 512
# A state is alive where noise in it moves an output this many times further than a repetition does.
_ABOVE_REPETITION = 10


@dataclass
class Found:
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
    findings: list[Finding] = field(default_factory=list)

    def add(
        self, what: str, chunk: Chunk | None = None, tensor: str | None = None, invariant: str | None = None
    ) -> None:
        """Add what does not hold."""
        self.findings.append(
            Finding(what=what, chunk=chunk.index if chunk else None, tensor=tensor, invariant=invariant)
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


class ContractChecks:
    """All dynamic checks on one session.

    Attributes:
        checks: made so far.
        states: what was found out about every state.
        chunks: of the longest stream.
    """

    def __init__(self, stepper: Stepper, chunks: int, tolerance: float, seed: int) -> None:
        """Prepare.

        Args:
            stepper: runs the model.
            chunks: of the stream that most checks look at.
            tolerance: relative L2 up to which tensors count as equal.
            seed: of noise.
        """
        self._stepper, self._contract, self.chunks, self._limit = stepper, stepper.contract, chunks, tolerance
        self._rng = np.random.default_rng([seed, 2**31])
        self.checks: list[Check] = []
        self.states: list[StateFact] = []
        self._floor = 0.0

    def run(self, say: Callable[[str], None]) -> None:
        """Make every check; `say` is called with the name of each before it starts.

        A model that does not run at all ends them: what follows would only repeat it.
        """
        made: tuple[tuple[str, Callable[[Found], None]], ...] = (
            ("invariants", self._invariants),
            ("every chunk size", self._sizes),
            ("whole streams", self._streams),
            ("reset", self._reset),
            ("live state", self._live),
            ("state shift", self._shift),
            ("invalid part", self._garbage),
            ("padding", self._padding),
            ("batch", self._batch),
            ("memory", self._memory),
        )
        for name, make in made:
            say(name)
            found = Found(name)
            try:
                make(found)
            except CannotRun as error:
                found.add(f"the model refuses inputs that the contract promises: {error}")
            self.checks.append(found.check())
            if name == "invariants" and any("refuses" in one.what for one in found.findings):
                return

    # ---------------------------------------------------------------------------------- what holds at every chunk

    def _invariants(self, found: Found) -> None:
        for step in self._stepper.run(self._schedule(), self._signal()):
            self._holds(step, found)

    def _sizes(self, found: Found) -> None:
        """First and later chunks of every size that the profiles allow, at their smallest and largest batch."""
        contract, done = self._contract, set()
        for profile in contract.profiles:
            low, best, high = profile.symbols[contract.time_symbol]
            batches = profile.symbols.get(contract.batch_symbol or "", (self._stepper.streams,) * 3)
            sizes = [size for size in range(low, high + 1) if self._possible(size)] if high - low < 2**20 else []
            sizes = sizes or [low, best, high]
            if len(sizes) > _MOST_SIZES:
                chosen = np.linspace(0, len(sizes) - 1, _MOST_SIZES).round().astype(int)
                found.reason = f"{_MOST_SIZES} of the {len(sizes)} sizes of profile {profile.name}"
                sizes = sorted({low, best, high, *(sizes[place] for place in chosen)})
            points = [(size, batches[0]) for size in sizes] + [(size, batches[2]) for size in {low, best, high}]
            for size, batch in sorted(set(points) - done):
                done.add((size, batch))
                self._at_size(size, batch, found)

    def _at_size(self, size: int, batch: int, found: Found) -> None:
        chunks = self._chunks_of(size)
        if not chunks:
            return
        before, steps = len(found.findings), []
        try:
            for step in self._stepper.run(chunks, self._signal(chunks, streams=batch)):
                self._holds(step, found)
                steps.append(step)
            self._totals(steps, found)
        except CannotRun as error:
            found.add(f"the model refuses inputs that the contract promises: {error}", chunks[len(steps)])
        for place in range(before, len(found.findings)):
            one = found.findings[place]
            where = f"at {self._contract.time_symbol} = {size}, batch {batch}: "
            found.findings[place] = one.model_copy(update={"what": where + one.what})

    def _possible(self, size: int) -> bool:
        contract = self._contract
        try:
            chunk = Chunk(index=1, start=0, new=1, left_context=0, size=size)
            values = contract.chunk_values(chunk, self._stepper.streams, **self._stepper.others)
            for name in contract.tensors:
                contract.shape(name, values)
        except ValueError:
            return False
        return size > contract.chunking.later.left_context

    def _chunks_of(self, size: int) -> list[Chunk]:
        """Return three whole chunks of a size; a first one that has no room for new frames is none."""
        kinds = (self._contract.chunking.first, self._contract.chunking.later, self._contract.chunking.later)
        if any(size <= kind.left_context for kind in kinds):
            return []
        frames = sum(size - kind.left_context for kind in kinds)
        return list(self._contract.chunks(frames, size))

    def _streams(self, found: Found) -> None:
        if not any(one.streams for one in self._contract.invariants):
            found.reason = "no invariant has a total, such as total(encoded_lengths) * 8 == total(new)"
            return
        hop = self._contract.chunking.later.hop
        whole = self._frames(self.chunks)
        # a stream ends anywhere, where the model is told how much of its last chunk is padding
        rests = (0, 1, hop // 2, hop - 1) if self._contract.length else (0,)
        for rest in sorted({rest for rest in rests if 0 <= rest < hop}):
            chunks = list(self._contract.chunks(whole + rest))
            steps = []
            for step in self._stepper.run(chunks, self._signal(chunks)):
                self._holds(step, found)
                steps.append(step)
            self._totals(steps, found)

    def _totals(self, steps: list[Step], found: Found) -> None:
        for one in self._contract.invariants:
            if not one.streams:
                continue
            every = [row_values(self._contract, step, one.check.names) for step in steps]
            for row in range(len(every[0])):
                found.cases += 1
                chunks = [rows[min(row, len(rows) - 1)] for rows in every]
                try:
                    if one.check(chunks[-1], chunks):
                        continue
                    said = (
                        f"{one.check} does not hold over {len(steps)} chunks, {steps[-1].chunk.start} frames and more"
                    )
                except ValueError as error:
                    said = str(error)
                found.add(said + (f"; {one.why}" if one.why else ""), invariant=one.id)
                break

    def _holds(self, step: Step, found: Found) -> None:
        """Add what does not hold at one chunk: dtypes are the session's own concern, as its outputs were converted."""
        contract = self._contract
        shapes = {name: array.shape for name, array in {**step.inputs, **step.outputs}.items()}
        found.cases += 1
        for name, array in step.outputs.items():
            if array.ndim != len(contract.outputs[name].shape):
                found.add(f"has the shape {list(array.shape)}", step.chunk, name)
            if contract.gates.finite and array.dtype.kind in "fV" and not np.isfinite(array.astype(np.float64)).all():
                found.add("has values that are not finite", step.chunk, name)
        for problem in contract.solve(shapes)[1]:
            tensor = next((name for name in step.outputs if problem.endswith(name) or f" {name} " in problem), None)
            found.add(problem, step.chunk, tensor)
        for one in contract.invariants:
            if one.streams:
                continue
            names = one.check.names | (one.when.names if one.when else frozenset())
            for row, known in enumerate(row_values(contract, step, names)):
                found.cases += 1
                try:
                    if (one.when and not one.when(known)) or one.check(known):
                        continue
                    values = ", ".join(f"{name} is {known[name]}" for name in sorted(one.check.names))
                    said = f"{one.check} does not hold{f' in row {row}' if row else ''}: {values}"
                except ValueError as error:
                    said = str(error)
                found.add(said + (f"; {one.why}" if one.why else ""), step.chunk, invariant=one.id)
                break

    # ---------------------------------------------------------------------------------- one stream beside another

    def _reset(self, found: Found) -> None:
        """A stream that comes after another one equals the same stream on a fresh session."""
        chunks = self._schedule()
        first = list(self._stepper.run(chunks, self._signal()))
        for _ in self._stepper.run(chunks, self._signal(stream=1000)):
            pass
        for step, again in zip(first, self._stepper.run(chunks, self._signal()), strict=True):
            for name, distance in self._distances(again, step, self._contract.outputs).items():
                found.equal(distance, self._limit, "differs from the same stream before another one", step.chunk, name)
        self._floor = found.worst or 0.0

    def _live(self, found: Found) -> None:
        if not self._contract.state:
            found.reason = "the contract has no state"
            return
        chunks = self._schedule()
        base = list(self._stepper.run(chunks, self._signal()))
        for pair in self._contract.state:
            found.cases += 1
            fact = self._fact(pair, base)
            self.states.append(fact)
            if fact.live and pair.dead:
                found.add(f"is declared dead and is alive: {fact.reason}", tensor=pair.input)
            elif not fact.live and not pair.dead and self._contract.gates.live_state:
                found.add(f"carries nothing to later chunks and is not declared dead: {fact.reason}", tensor=pair.input)

    def _fact(self, pair: State, base: list[Step]) -> StateFact:
        def said(live: bool, reason: str) -> StateFact:
            return StateFact(input=pair.input, output=pair.output, live=live, declared_dead=pair.dead, reason=reason)

        seen = [step.inputs[pair.input] for step in base]
        if all(np.array_equal(seen[0], one, equal_nan=True) for one in seen[1:]):
            return said(live=False, reason=f"it never leaves its initial value in {len(base)} chunks")
        others = [name for name in self._contract.outputs if name not in {one.output for one in self._contract.state}]
        watched = others or [name for name in self._contract.outputs if name != pair.output]
        for at in sorted({1, len(base) // 2, len(base) - 2} & set(range(1, len(base)))):
            noisy = self._noisy(pair, base[at], seen)
            if noisy is None:
                continue
            held = {one.input: base[at].inputs[one.input] for one in self._contract.state} | {pair.input: noisy}
            chunks = [step.chunk for step in base[at:]]
            for step, plain in zip(self._stepper.run(chunks, self._signal(), held), base[at:], strict=False):
                for name, distance in self._distances(step, plain, watched).items():
                    if distance > _ABOVE_REPETITION * self._floor:
                        return said(
                            live=True,
                            reason=f"noise in it before chunk {at} moves {name} in chunk {step.chunk.index} "
                            f"(relative L2 {distance:.2g})",
                        )
        return said(live=False, reason=f"noise in it changes no output up to chunk {base[-1].chunk.index}")

    def _noisy(self, pair: State, step: Step, seen: list[Any]) -> Any:
        """Return other values for a state: noise of its own spread, or whole numbers that it has elsewhere."""
        held = step.inputs[pair.input]
        if held.dtype.kind in "fV":
            spread = float(np.std(held.astype(np.float64))) or 1.0
            return (held + spread * self._rng.standard_normal(held.shape)).astype(held.dtype)
        given = self._contract.inputs[pair.input]
        bounds = [bound.whole(step.values) for bound in getattr(given, "range", None) or ()]
        choices = [np.full_like(held, bound) for bound in bounds] + seen
        return next((one for one in choices if one.shape == held.shape and not np.array_equal(one, held)), None)

    def _shift(self, found: Found) -> None:
        """What was in a state before a chunk has moved as its shift says."""
        pairs = [pair for pair in self._contract.state if pair.shift and pair.shift.moves]
        if not pairs:
            found.reason = "no state says by how much it moves (shift.moves)"
            return
        for step in self._stepper.run(self._schedule(), self._signal()):
            for pair in pairs:
                assert pair.shift
                assert pair.shift.moves
                before, after, axis = step.inputs[pair.input], step.outputs[pair.output], pair.shift.axis
                moved, size = pair.shift.moves.whole(step.values), step.inputs[pair.input].shape[pair.shift.axis]
                if moved < size and after.shape == before.shape:
                    old, new = np.take(before, range(moved, size), axis), np.take(after, range(size - moved), axis)
                    words = f"does not hold what was there before, moved by {moved}"
                    found.equal(apart(new, old), self._limit, words, step.chunk, pair.output)
        if not found.cases:
            found.reason = "a chunk replaces all of what was there"

    def _garbage(self, found: Found) -> None:
        """Finite values in the invalid part of a state change no output."""
        pairs = [pair for pair in self._contract.state if pair.shift and pair.shift.by]
        if not pairs:
            found.reason = "no state has an invalid part (shift.by)"
            return
        base = list(self._stepper.run(self._schedule(), self._signal()))
        for step in base:
            edits: Arrays = {}
            for pair in pairs:
                array, mask = step.inputs[pair.input], self._valid_state(pair, step, step.inputs[pair.input])
                if mask is not None and not mask.all():
                    spread = max(float(np.std(array.astype(np.float64))), 1.0)
                    noise = (10 * spread * self._rng.standard_normal(array.shape)).astype(array.dtype)
                    edits[pair.input] = np.where(mask, array, noise)
            if edits:
                held = {one.input: step.inputs[one.input] for one in self._contract.state}
                dirty = self._stepper.step(step.chunk, self._signal(), held | edits)
                words = f"is changed by what stands in the invalid part of {' and '.join(edits)}"
                for name, distance in self._distances(dirty, step, self._contract.outputs).items():
                    found.equal(distance, self._limit, words, step.chunk, name)
        if not found.cases:
            found.reason = "the states are valid as a whole in every chunk"

    def _padding(self, found: Found) -> None:
        """What stands behind the valid frames of a chunk changes nothing."""
        if self._contract.length is None:
            found.reason = "the model has no input that says how much of a chunk is valid (role length)"
            return
        name, tensor = self._contract.signal
        base = list(self._stepper.run(self._schedule(), self._signal()))
        for step in (base[0], base[len(base) // 2]):
            low = self._contract.length[1].range[0].whole(step.values)
            for valid in sorted({max(low, 1), (max(low, 1) + step.chunk.size) // 2} & set(range(step.chunk.size))):
                short = step.chunk.model_copy(update={"new": max(valid - step.chunk.left_context, 0)})
                if not short.new:
                    continue
                held = {one.input: step.inputs[one.input] for one in self._contract.state}
                quiet = self._stepper.step(short, self._signal(), held)
                padded = np.moveaxis(quiet.inputs[name].copy(), tensor.time_axis, -1)
                padded[..., short.valid :] = 3 * self._rng.standard_normal(padded[..., short.valid :].shape)
                loud = self._stepper.step(
                    short, self._signal(), held, {name: np.moveaxis(padded, -1, tensor.time_axis)}
                )
                words = f"is changed by the padding behind {short.valid} valid frames of {short.size}"
                for output, distance in self._distances(loud, quiet, self._contract.outputs).items():
                    found.equal(distance, self._limit, words, step.chunk, output)

    def _batch(self, found: Found) -> None:
        """Streams of different age in one batch equal each of them alone."""
        contract, later = self._contract, self._contract.chunking.later.size
        batch = contract.batch_symbol
        fits = [one for one in contract.profiles if batch and one.covers({contract.time_symbol: later})]
        most = max((one.symbols[batch][2] for one in fits if batch), default=1)
        if self._stepper.streams != 1 or most < 2 or batch is None:
            found.reason = "no profile takes both one stream and several"
            return
        count = min(most, _MOST_BATCH)
        ages = [1 + 2 * stream for stream in range(count)]
        chunks = list(contract.chunks(self._frames(max(ages) + 2)))
        alone = [
            list(self._stepper.run(chunks[: age + 2], self._signal(chunks, stream))) for stream, age in enumerate(ages)
        ]
        held = {
            pair.input: np.concatenate(
                [steps[age].inputs[pair.input] for steps, age in zip(alone, ages, strict=True)],
                contract.batch_axis(pair.input) or 0,
            )
            for pair in contract.state
        }
        for ahead in range(2):
            parts = [steps[age + ahead] for steps, age in zip(alone, ages, strict=True)]
            edits = {
                name: np.concatenate([part.inputs[name] for part in parts], axis)
                for name in contract.inputs
                if name not in held and (axis := contract.batch_axis(name)) is not None
            }
            chunk = parts[0].chunk
            together = self._stepper.step(chunk, self._signal(chunks, streams=count), held, edits)
            for row, part in enumerate(parts):
                for name in contract.outputs:
                    if (axis := contract.batch_axis(name)) is None or together.outputs[name].shape[axis] != count:
                        continue
                    own = np.take(together.outputs[name], [row], axis)
                    distance = self._distances(_only(part, name, own), part, [name])[name]
                    words = f"row {row} of a batch of {count} differs from the same stream alone"
                    found.equal(distance, self._limit, words, part.chunk, name)
            held = contract.next_state(together.outputs)

    def _memory(self, found: Found) -> None:
        """A state of finite memory is forgotten after as many chunks as the contract says."""
        memory = self._contract.chunking.memory
        if memory is None or memory.chunks is None:
            found.reason = "the contract names no finite memory"
            return
        later = next(self._contract.chunks(self._contract.chunking.first.hop)).model_copy(
            update={"size": self._contract.chunking.later.size}
        )
        horizon = memory.chunks.whole(self._contract.chunk_values(later, self._stepper.streams, **self._stepper.others))
        if not 0 <= horizon <= _MOST_MEMORY:
            found.reason = f"{horizon} chunks are more than the {_MOST_MEMORY} that are tried"
            return
        chunks = list(self._contract.chunks(self._frames(horizon + 4)))
        self.chunks = max(self.chunks, len(chunks))
        base = list(self._stepper.run(chunks, self._signal(chunks)))
        held = {pair.input: base[2].inputs[pair.input] for pair in self._contract.state}
        for pair in self._contract.state:
            if held[pair.input].dtype.kind in "fV":
                held[pair.input] = self._noisy(pair, base[2], [])
        watched = [name for name in self._contract.outputs if name not in {one.output for one in self._contract.state}]
        for step in self._stepper.run(chunks[2:], self._signal(chunks), held):
            if step.chunk.index >= 2 + horizon:
                words = f"still holds something of a state {step.chunk.index - 2} chunks before"
                for name, distance in self._distances(step, base[step.chunk.index], watched).items():
                    found.equal(distance, self._limit, words, step.chunk, name)

    # --------------------------------------------------------------------------------------------- what they share

    def _frames(self, chunks: int) -> int:
        return self._contract.chunking.first.hop + (chunks - 1) * self._contract.chunking.later.hop

    def _schedule(self) -> list[Chunk]:
        return list(self._contract.chunks(self._frames(self.chunks)))

    def _signal(self, chunks: list[Chunk] | None = None, stream: int = 0, streams: int | None = None) -> Any:
        frames = chunks[-1].start + chunks[-1].hop if chunks else self._frames(self.chunks)
        return self._stepper.signal(frames, stream, streams)

    def _distances(self, one: Step, other: Step, names: Mapping[str, Any] | list[str]) -> dict[str, float]:
        """Return how far outputs of two steps are apart in their valid parts; `other` says which these are."""
        return {name: apart(one.outputs[name], other.outputs[name], self._valid(name, other)) for name in names}

    def _valid(self, name: str, step: Step) -> Any:
        output, array = self._contract.outputs[name], step.outputs[name]
        if output.valid and output.valid.axis < array.ndim:
            lengths = lengths_by(output.valid.by, self._contract, step)
            return valid_part(array, output.valid.axis, lengths, self._contract.batch_axis(name), "start")
        for pair in self._contract.state:
            if pair.output == name:
                return self._valid_state(pair, self._as_inputs(step), array)
        return None

    def _valid_state(self, pair: State, step: Step, array: Any) -> Any:
        if pair.shift is None or pair.shift.by is None or pair.shift.axis >= array.ndim:
            return None
        lengths = lengths_by(pair.shift.by, self._contract, step)
        return valid_part(array, pair.shift.axis, lengths, self._contract.batch_axis(pair.input), pair.shift.valid_at)

    def _as_inputs(self, step: Step) -> Step:
        """Return the step with its states as the next chunk takes them, by which their valid parts are known."""
        return Step(step.chunk, step.values, step.inputs | self._contract.next_state(step.outputs), {})


def _only(step: Step, name: str, array: Any) -> Step:
    return Step(step.chunk, step.values, step.inputs, {**step.outputs, name: array})
