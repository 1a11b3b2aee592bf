"""Timing of a language model: prefill, and greedy generation with and without a cache. What is wrong is not timed."""

from __future__ import annotations

import itertools
import resource
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from trt_workbench.engine.verification import Mark
from trt_workbench.errors import CheckFailed, UsageProblem, WorkbenchError
from trt_workbench.evaluate.llm_files import NotWritten, RecordWriter
from trt_workbench.pipeline.llm.agreement import Agreement, AgreementCheck, Disagreement, Trace, trace
from trt_workbench.pipeline.llm.generation import Run, generate_cached, generate_uncached
from trt_workbench.pipeline.llm.opening import BackendChoice, ModelSource, open_cached, open_logits
from trt_workbench.runs.statistics import summarize
from trt_workbench.verify.gate import keep_agreement, refuse_wrong

TimingMode = Literal["prefill", "generate", "generate-cached"]
TIMING_MODES: tuple[TimingMode, ...] = get_args(TimingMode)
REFERENCE = BackendChoice("torch", "fp32")

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TimingRequest:
    """What is timed.

    Attributes:
        modes: `prefill` is one forward pass over the prompt; `generate` picks the likeliest token over and over with
            a forward pass over all tokens each time; `generate-cached` keeps keys and values.
        prompts: lengths of the prompt in tokens, one after the other on one opened model.
        new_tokens: tokens that are generated.
        batch: sequences at once.
        warmup: repetitions that do not count.
        repetitions: repetitions that count.
    """

    modes: tuple[TimingMode, ...]
    prompts: tuple[int, ...] = (64,)
    new_tokens: int = 64
    batch: int = 1
    warmup: int = 1
    repetitions: int = 5

    @property
    def capacity(self) -> int:
        """Longest sequence of all runs."""
        generates = any(mode != "prefill" for mode in self.modes)
        return max(self.prompts) + (self.new_tokens if generates else 0)


@dataclass
class Timing:
    """What was timed so far, and what could not be.

    Attributes:
        rows: one summary for every mode, backend and length of the prompt whose repetitions are all done.
        failures: one entry for every mode of a backend that failed: its name, the lengths of the prompt that have no
            summary for that reason, the error and its class, and for a wrong result what was compared.
        error: the first of the errors, a wrong result before all others.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    error: WorkbenchError | None = None

    def fail(self, error: WorkbenchError, missing: Sequence[int], facts: Mapping[str, Any]) -> None:
        """Add the failure of a mode of a backend."""
        entry = {**facts, "missing_prompts": list(missing), "error": str(error), "error_kind": type(error).__name__}
        if isinstance(error, Disagreement) and error.agreement:
            entry["agreement"] = asdict(error.agreement)
        self.failures.append(entry)
        if self.error is None or (isinstance(error, CheckFailed) and not isinstance(self.error, CheckFailed)):
            self.error = error
        _release_locals(error)


def time_models(
    request: TimingRequest,
    choices: Sequence[BackendChoice],
    source: ModelSource,
    tokens: NDArray[np.int64],
    records: RecordWriter,
    timing: Timing,
    on_progress: Progress | None = None,
    gate: EngineGate | None = None,
) -> None:
    """Time every mode on every backend, one repetition after the other, one model in memory at a time.

    PyTorch in fp32 generates as well, untimed if it is not among the backends: the others are compared with its logits
    before they are timed, and with its tokens after each repetition. A backend that fails in a mode, or is wrong, does
    not keep the others from being timed.

    Args:
        request: what is timed, as `check_timing` lets it pass.
        choices: the backends.
        source: the model.
        tokens: of the text; its beginning is the prompt, each sequence of a batch has its own part.
        records: gets one line a repetition.
        timing: is filled, so that the caller has what was timed before an interrupt.
        on_progress: called with repetitions done and their total.
        gate: what engines have to pass, and where their agreement will be found.

    Raises:
        NotWritten: a record cannot be written.
        Otherwise as `open_logits` and `open_cached`, for the tokens to compare with.
    """
    prompts = {size: tokens[: request.batch * size].reshape(request.batch, size) for size in request.prompts}
    expected = _reference(request, source, prompts)
    each = len(prompts) * request.repetitions
    total = len(choices) * len(request.modes) * each
    advance = on_progress or (lambda *_: None)
    work = _Work(request, source, prompts, expected, records, total, advance, gate or EngineGate())
    try:
        for number, (choice, mode) in enumerate(itertools.product(choices, request.modes)):
            missing = list(prompts)
            try:
                for row in work.summaries(choice, mode, number * each):
                    timing.rows.append(row)
                    missing.remove(row["prompt_tokens"])
            except NotWritten:
                raise  # no fault of the backend: the next one's records would be lost as well
            except WorkbenchError as error:
                timing.fail(error, missing, {"mode": mode, **_facts(choice, request)})
    finally:
        timing.rows.sort(key=lambda row: request.modes.index(row["mode"]))


@dataclass(frozen=True)
class EngineGate:
    """What TensorRT's engines pass before they are timed: every result of theirs is compared with PyTorch's here.

    So only those are refused that are known to be wrong, and what agrees is kept as the verdict on the others.

    Attributes:
        allow_unverified: let wrong ones pass, too.
        evidence: the run directory that will hold the agreement.
    """

    allow_unverified: bool = False
    evidence: Path | None = None

    def check(self, provenance: Mapping[str, Any]) -> list[Mark]:
        """Return the marks of a model's engines. Raises CheckFailed for one that is wrong."""
        return refuse_wrong(provenance, allow_unverified=self.allow_unverified)

    def agreed(self, provenance: Mapping[str, Any]) -> list[Mark]:
        """Keep that a model's engines agree with PyTorch; return their marks."""
        keep_agreement(provenance, self.evidence)
        return self.check(provenance)


@dataclass(frozen=True)
class _Work:
    """What every backend does: prompts by their length, what PyTorch generates after them, progress."""

    request: TimingRequest
    source: ModelSource
    prompts: Mapping[int, NDArray[np.int64]]
    expected: Mapping[int, Trace]
    records: RecordWriter
    total: int
    on_progress: Progress
    gate: EngineGate

    def summaries(self, choice: BackendChoice, mode: TimingMode, done: int) -> Iterator[dict[str, Any]]:
        """Time one mode of one backend after `done` repetitions; yield a summary for each length of the prompt."""
        with closing(_open(mode, self.request, choice, self.source)) as model:
            self.gate.check(model.provenance)
            for size, prompt in self.prompts.items():
                facts = {**_facts(choice, self.request), "prompt_tokens": size}
                expected = self.expected[size].first(_new_tokens(mode, self.request))
                comparison = AgreementCheck(expected, str(REFERENCE), choice.precision)
                cached, capacity = mode == "generate-cached", self.request.capacity
                right = comparison.logits(model, prompt, cached=cached, capacity=capacity).or_raise()
                lines, agreements = [], []
                for repetition, run in enumerate(_repeat(mode, model, prompt, self.request)):
                    agreements.append(comparison.tokens(right, run.tokens).or_raise())
                    line = {"kind": mode, **facts, "repetition": repetition}
                    figures = _figures(mode, run, prompt.size, model)
                    lines.append({**line, **figures, "first_difference": agreements[-1].first_difference})
                    self.records.write(lines[-1])
                    done += 1
                    self.on_progress(done, self.total)
                summary = {**_summary(lines), "agreement": asdict(_widest(agreements))}
                marks = self.gate.agreed(model.provenance)
                yield {"mode": mode, **facts, **summary, "verification": marks, "provenance": dict(model.provenance)}


def _widest(agreements: Sequence[Agreement]) -> Agreement:
    """Return the agreement of the repetition that is furthest from the reference."""
    return max(agreements, key=lambda one: -1.0 if one.logit_gap is None else one.logit_gap)


def _release_locals(error: BaseException) -> None:
    """Let go of what an error's frames hold: a model, or its activations, would be in the way of the next one."""
    link: BaseException | None = error
    while link:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__


def check_timing(request: TimingRequest, positions: int | None, available: int) -> None:
    """Raise UsageProblem for what cannot be timed on any backend.

    Args:
        request: what is to be timed.
        positions: of the model; None if it has no limit.
        available: tokens of the text.
    """
    longest = max(request.prompts)
    if positions and request.capacity > positions:
        raise UsageProblem(
            f"The model has {positions} positions; {request.capacity} tokens do not fit. Pass fewer --prompt or "
            f"--new-tokens."
        )
    if available < request.batch * longest:
        raise UsageProblem(
            f"The text has {available} tokens, too few for {request.batch} prompts of {longest}; give a longer text "
            f"or pass a smaller --prompt."
        )


def _reference(
    request: TimingRequest, source: ModelSource, prompts: Mapping[int, NDArray[np.int64]]
) -> dict[int, Trace]:
    """What PyTorch in fp32 generates, by length of the prompt."""
    # the quickest mode that is asked for anyway: not every architecture has a cache
    mode = max(request.modes, key=TIMING_MODES.index)
    count, cached = _new_tokens(mode, request), mode == "generate-cached"
    with closing(_open(mode, request, REFERENCE, source)) as model:
        return {
            size: trace(model, prompt, count, cached=cached, capacity=request.capacity)
            for size, prompt in prompts.items()
        }


def _new_tokens(mode: TimingMode, request: TimingRequest) -> int:
    return 1 if mode == "prefill" else request.new_tokens


def _open(mode: TimingMode, request: TimingRequest, choice: BackendChoice, source: ModelSource) -> Any:
    longest = max(request.prompts)
    if mode == "generate-cached":
        return open_cached(choice, source, request.batch, longest, request.capacity)
    return open_logits(choice, source, request.batch, longest if mode == "prefill" else request.capacity)


def _repeat(mode: TimingMode, model: Any, prompt: NDArray[np.int64], request: TimingRequest) -> Iterator[Run]:
    for repetition in range(-request.warmup, request.repetitions):
        run = _once(mode, model, prompt, request)
        if repetition >= 0:
            yield run


def _once(mode: TimingMode, model: Any, prompt: NDArray[np.int64], request: TimingRequest) -> Run:
    if mode == "generate-cached":
        return generate_cached(model, prompt, request.new_tokens, request.capacity)
    return generate_uncached(model, prompt, _new_tokens(mode, request))


def _facts(choice: BackendChoice, request: TimingRequest) -> dict[str, Any]:
    return {"backend": choice.name, "precision": choice.precision, "batch": request.batch}


def _figures(mode: TimingMode, run: Run, prompt_tokens: int, model: Any) -> dict[str, Any]:
    """What one repetition gave. Tokens a second: of the prompt for prefill, else those that were generated."""
    count = run.tokens.shape[1]
    processed = prompt_tokens if mode == "prefill" else run.tokens.size
    return {
        "new_tokens": count,
        "time_to_first_token_ms": run.first_s * 1e3,
        "time_per_token_ms": (run.total_s - run.first_s) / (count - 1) * 1e3 if count > 1 else None,
        "total_ms": run.total_s * 1e3,
        "tokens_per_s": processed / run.total_s,
        "memory_bytes": _memory(model),
    }


def _summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    per_token = [line["time_per_token_ms"] for line in lines if line["time_per_token_ms"] is not None]
    return {
        "new_tokens": lines[0]["new_tokens"],
        "repetitions": len(lines),
        "time_to_first_token_ms": summarize([line["time_to_first_token_ms"] for line in lines]),
        "time_per_token_ms": summarize(per_token) if per_token else None,
        "tokens_per_s": summarize([line["tokens_per_s"] for line in lines]),
        "memory_bytes": lines[-1]["memory_bytes"],
    }


def _memory(model: Any) -> dict[str, int]:
    """What the runtime says it holds, and the most memory that this process had so far."""
    ask = getattr(model, "memory_bytes", None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
    return {"process_peak": peak, **(ask() if ask else {})}
