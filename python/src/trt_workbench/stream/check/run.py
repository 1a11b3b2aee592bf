"""`check-contract`: a contract compared with its model, and with what the model does with streams on a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import AUTO, require_backend
from trt_workbench.core.array_files import load_arrays
from trt_workbench.core.documents import json_values
from trt_workbench.core.elements import is_finite
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_file
from trt_workbench.core.precision import STREAM
from trt_workbench.core.settings import with_flags
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.model.randomness import refuse_random
from trt_workbench.stream.check.document import Check, ContractCheck, reach_of
from trt_workbench.stream.check.holds import invariants, sizes, streams
from trt_workbench.stream.check.settings import ContractSettings
from trt_workbench.stream.check.states import garbage, live, memory, reset, shift
from trt_workbench.stream.check.steps import CannotRun, ChunkRun, Stepper
from trt_workbench.stream.check.trial import CheckTally, ContractTrial
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.expressions import Uncomputable
from trt_workbench.stream.contract.model_tensors import MODEL_SUFFIX, read_tensors
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.contract.size_check import loosely_named
from trt_workbench.stream.contract.state_names import state_pairs
from trt_workbench.stream.lane_gates import judged_as

_MOST_BATCH = 4


def padding(trial: ContractTrial, found: CheckTally) -> None:
    """Data after the valid frames of a chunk changes nothing."""
    if trial.contract.length is None:
        found.reason = "the model has no input that says how much of a chunk is valid (role length)"
        return
    name, tensor = trial.contract.signal
    signal, base = trial.signal(), trial.base
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
            words = f"is changed by the padding after {short.valid} valid frames of {short.size}"
            for output, distance in trial.distances(loud, quiet, trial.contract.outputs).items():
                found.equal(distance, trial.limit, words + _lacking(trial, output), step.chunk, output)
    if not found.cases:
        found.reason = f"{trial.contract.length[0]} is always the whole chunk"


def _lacking(trial: ContractTrial, output: str) -> str:
    """Return the key whose absence may be the reason for a finding, as the end of a sentence."""
    contract = trial.contract
    if contract.outputs[output].valid or any(pair.output == output for pair in contract.state):
        return ""
    return f"; if only a part of it counts, add outputs.{output}.valid to the contract"


def batch(trial: ContractTrial, found: CheckTally) -> None:
    """Streams of different age in one batch equal each of them alone; of one age where they share a counter."""
    contract, later = trial.contract, trial.contract.chunking.later.size
    batch = contract.batch_symbol
    fits = [one for one in contract.profiles if batch and one.covers({contract.time_symbol: later})]
    most = max((one.symbols[batch][2] for one in fits if batch), default=1)
    if trial.stepper.streams != 1 or most < 2 or batch is None:
        found.reason = "no profile accepts both one stream and several"
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
        found.reason = "a state has a different shape in an older stream"
        return
    held = {name: np.concatenate(several, contract.batch_axis(name) or 0) for name, several in apart.items()}
    for ahead in range(2):
        parts = [steps[age + ahead] for steps, age in zip(alone, ages, strict=True)]
        edits = {
            name: np.concatenate([part.inputs[name] for part in parts], axis)
            for name in contract.inputs
            if name not in held and (axis := contract.batch_axis(name)) is not None
        }
        together = trial.stepper.step(parts[0].chunk, trial.signal(chunks, streams=count), held, edits)
        for row, part in enumerate(parts):
            for name in contract.outputs:
                if (axis := contract.batch_axis(name)) is None or together.outputs[name].shape[axis] != count:
                    continue
                own = np.take(together.outputs[name], [row], axis)
                row_alone = ChunkRun(part.chunk, part.values, part.inputs, {**part.outputs, name: own})
                distance = trial.distances(row_alone, part, [name])[name]
                words = f"row {row} of a batch of {count} differs from the same stream alone"
                found.equal(distance, trial.limit, words, part.chunk, name)
        held = contract.next_state(together.outputs)


STATIC = "documents"
# The first one has to run at all: what follows would only repeat that it does not. Repetitions come before what is
# compared with their spread.
_CHECKS: tuple[tuple[str, Callable[[ContractTrial, CheckTally], None]], ...] = (
    ("invariants", invariants),
    ("chunk sizes", sizes),
    ("whole streams", streams),
    ("reset", reset),
    ("live state", live),
    ("state shift", shift),
    ("invalid part", garbage),
    ("padding", padding),
    ("batch", batch),
    ("memory", memory),
)


def check_contract(
    settings: ContractSettings, say: Callable[[str], None], note: Callable[[str], None]
) -> ContractCheck:
    """Check a contract.

    Args:
        settings: what is asked for.
        say: called with the name of each check before it starts.
        note: called with notes for the user.

    Returns:
        The document; `passed` is false where a dynamic check failed.

    Raises:
        Contradictions: the contract contradicts itself or the model.
        UsageProblem: a file or option cannot be used, or the model is nondeterministic.
        ComponentMissing: the backend cannot serve here.
        DeviceFailure: the device failed or is out of memory.
    """
    say(STATIC)
    tensors = read_tensors(settings.target)
    contract = read_contract(settings.contract, tensors)
    by_name, _ = state_pairs(tensors.inputs, tensors.outputs)
    for pair in contract.state:  # states of one shape: no check can detect that they were exchanged
        if (other := by_name.get(pair.input, pair.output)) != pair.output:
            note(f"By name, state {pair.input} takes {other}, but the contract says {pair.output}.")
    for text in loosely_named(contract, tensors):
        note(f"{text[:1].upper()}{text[1:]}.")
    static = Check(name=STATIC, verdict="passed", cases=len(contract.tensors))
    if settings.static:
        return _document(settings, contract, None, None, [static])
    is_model = settings.target.suffix == MODEL_SUFFIX
    if is_model:
        refuse_random(Model.open(settings.target), "compared", "--static checks only the contract's text")
    backend = require_backend(settings.backend, settings.target.suffix, note)
    if settings.backend == AUTO:
        note(f"auto chose backend {backend.name}.")
    trust = {"trust": settings.trust} if backend.plans and not is_model else {}
    extra = with_flags(settings.options, backend.device_option(settings.device) | trust)
    if backend.plans and is_model:
        extra.setdefault("profiles", [str(contract.engine_profile(one)) for one in contract.profiles])
    options = SessionOptions(precision=settings.precision, extra=extra, note=note)
    with backend.load(settings.target, options) as session:
        trial = ContractTrial(
            Stepper(contract, session, settings.contract.parent, settings.seed, _given(settings, contract)),
            settings.chunks,
            _tolerance(contract, session),
            settings.seed,
        )
        checks = [static, *dynamic_checks(trial, say)]
        return _document(settings, contract, backend.name, session, checks, trial)


def dynamic_checks(trial: ContractTrial, say: Callable[[str], None] = lambda _: None) -> list[Check]:
    """Run a contract's model and return what was found; `say` is called with the name of each check."""
    checks: list[Check] = []
    for name, make in _CHECKS:
        say(name)
        found = CheckTally(name)
        try:
            make(trial, found)
        except CannotRun as error:
            found.add(f"the model rejects inputs that the contract allows: {error}", error.chunk)
        except Uncomputable as error:
            found.add(str(error))
        checks.append(found.check())
        if name == _CHECKS[0][0] and found.findings and not found.cases:
            break
    return checks


def _given(settings: ContractSettings, contract: Contract) -> dict[str, Any] | None:
    if settings.input is None:
        return None
    arrays = load_arrays(settings.input)
    if len(arrays) != 1:
        raise UsageProblem(f"--input takes one array, but the file has {len(arrays)}: {settings.input}")
    name, signal = contract.signal
    (array,) = arrays.values()
    if str(array.dtype) != signal.dtype:
        raise UsageProblem(f"--input is {array.dtype}, but {name} is {signal.dtype}: {settings.input}")
    if not is_finite(array).all():
        raise UsageProblem(f"--input holds NaN or infinity: {settings.input}")
    return {name: array}


def _tolerance(contract: Contract, session: Session) -> float:
    """Return up to which relative L2 tensors count as equal: by the gate of what the session computes in."""
    kind = judged_as(session.record()["precision_ran"], "fp32", contract)
    return contract.gates.of(kind).rel_l2_max or STREAM.limit(kind)


def _document(
    settings: ContractSettings,
    contract: Contract,
    backend: str | None,
    session: Session | None,
    checks: list[Check],
    trial: ContractTrial | None = None,
) -> ContractCheck:
    return ContractCheck(
        contract=json_values(contract),
        contract_sha256=hash_file(settings.contract),
        target={"file": settings.target.name, "sha256": sha256_of(settings.target)},
        backend=backend,
        session=json_values(session.record(), str) if session else None,
        precision=settings.precision,
        seed=settings.seed,
        tolerance_rel_l2=trial.limit if trial else None,
        chunks=trial.chunks if trial else 0,
        checks=tuple(checks),
        states=tuple(trial.states) if trial else (),
        passed=reach_of(checks).passed,
    )
