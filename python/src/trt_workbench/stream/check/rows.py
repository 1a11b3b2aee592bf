"""Whether padding, and other streams of a batch, leave a stream as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from trt_workbench.stream.check.steps import ChunkRun
from trt_workbench.stream.check.trial import CheckTally, ContractTrial

_MOST_BATCH = 4


def padding(trial: ContractTrial, found: CheckTally) -> None:
    """What stands behind the valid frames of a chunk changes nothing."""
    if trial.contract.length is None:
        found.reason = "the model has no input that says how much of a chunk is valid (role length)"
        return
    name, tensor = trial.contract.signal
    signal = trial.signal()
    base = list(trial.stepper.run(trial.schedule(), signal))
    for step in (base[0], base[len(base) // 2]):
        low = trial.contract.length[1].range[0].whole(step.values)
        for valid in sorted({max(low, 1), (max(low, 1) + step.chunk.size) // 2} & set(range(step.chunk.size))):
            short = step.chunk.model_copy(update={"new": max(valid - step.chunk.left_context, 0)})
            if not short.new:
                continue
            held = trial.held(step)
            quiet = trial.stepper.step(short, signal, held)
            padded = np.moveaxis(quiet.inputs[name].copy(), tensor.time_axis, -1)
            padded[..., short.valid :] = 3 * trial.rng.standard_normal(padded[..., short.valid :].shape)
            loud = trial.stepper.step(short, signal, held, {name: np.moveaxis(padded, -1, tensor.time_axis)})
            words = f"is changed by the padding behind {short.valid} valid frames of {short.size}"
            for output, distance in trial.distances(loud, quiet, trial.contract.outputs).items():
                found.equal(distance, trial.limit, words, step.chunk, output)
    if not found.cases:
        found.reason = f"{trial.contract.length[0]} is always the whole chunk"


def batch(trial: ContractTrial, found: CheckTally) -> None:
    """Streams of different age in one batch equal each of them alone; of one age where they share a counter."""
    contract, later = trial.contract, trial.contract.chunking.later.size
    batch = contract.batch_symbol
    fits = [one for one in contract.profiles if batch and one.covers({contract.time_symbol: later})]
    most = max((one.symbols[batch][2] for one in fits if batch), default=1)
    if trial.stepper.streams != 1 or most < 2 or batch is None:
        found.reason = "no profile takes both one stream and several"
        return
    count = min(most, _MOST_BATCH)
    # an input that the streams of a call share says one age of all of them
    shared = [name for name in contract.computed if contract.batch_axis(name) is None]
    ages = [3 if shared else 1 + 2 * stream for stream in range(count)]
    chunks = list(contract.chunks(trial.frames(max(ages) + 2)))
    alone = [
        list(trial.stepper.run(chunks[: age + 2], trial.signal(chunks, stream))) for stream, age in enumerate(ages)
    ]
    apart = {
        pair.input: [steps[age].inputs[pair.input] for steps, age in zip(alone, ages, strict=True)]
        for pair in contract.state
    }
    if any(one.shape != several[0].shape for several in apart.values() for one in several):
        found.reason = "a state has another shape in an older stream"
        return
    held = {name: np.concatenate(several, contract.batch_axis(name) or 0) for name, several in apart.items()}
    for ahead in range(2):
        parts = [steps[age + ahead] for steps, age in zip(alone, ages, strict=True)]
        edits = {
            name: np.concatenate([part.inputs[name] for part in parts], axis)
            for name in contract.inputs
            if name not in held and (axis := contract.batch_axis(name)) is not None
        }
        chunk = parts[0].chunk
        together = trial.stepper.step(chunk, trial.signal(chunks, streams=count), held, edits)
        for row, part in enumerate(parts):
            for name in contract.outputs:
                if (axis := contract.batch_axis(name)) is None or together.outputs[name].shape[axis] != count:
                    continue
                own = np.take(together.outputs[name], [row], axis)
                distance = trial.distances(_only(part, name, own), part, [name])[name]
                words = f"row {row} of a batch of {count} differs from the same stream alone"
                found.equal(distance, trial.limit, words, part.chunk, name)
        held = contract.next_state(together.outputs)


def _only(step: ChunkRun, name: str, array: Any) -> ChunkRun:
    return ChunkRun(step.chunk, step.values, step.inputs, {**step.outputs, name: array})
