"""Timing of a language model: prefill, and greedy generation with and without a cache, against PyTorch's tokens."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from trt_workbench.bench.statistics import summarize
from trt_workbench.errors import UsageProblem
from trt_workbench.evaluate.llm_backends import BackendChoice, ModelSource, open_cached, open_logits, provenance_of
from trt_workbench.evaluate.llm_files import RecordWriter
from trt_workbench.evaluate.llm_models import CachedModel, LogitsModel

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
        prompt: tokens of the prompt.
        new_tokens: tokens that are generated.
        batch: sequences at once.
        warmup: repetitions that do not count.
        repetitions: repetitions that count.
    """

    modes: tuple[TimingMode, ...]
    prompt: int = 64
    new_tokens: int = 64
    batch: int = 1
    warmup: int = 1
    repetitions: int = 5


class Run(NamedTuple):
    """One repetition: seconds to the first token and in all, and the tokens int64 [B,N]."""

    first_s: float
    total_s: float
    tokens: NDArray[np.int64]


def time_models(
    request: TimingRequest,
    choices: Sequence[BackendChoice],
    source: ModelSource,
    tokens: NDArray[np.int64],
    records: RecordWriter,
    on_progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Time every mode on every backend, one repetition after the other, one model in memory at a time.

    PyTorch in fp32 generates as well, untimed if it is not among the backends: its tokens are what the others are
    compared with.

    Args:
        request: what is timed.
        choices: the backends.
        source: the model.
        tokens: of the text; its beginning is the prompt, each sequence of a batch has its own part.
        records: gets one line a repetition.
        on_progress: called with repetitions done and their total.

    Returns:
        One summary for every backend and mode.

    Raises:
        UsageProblem: the sequence is longer than the model's positions, or the text is too short.
        Otherwise as `open_logits` and `open_cached`.
    """
    _check(request, source, len(tokens))
    prompts = tokens[: request.batch * request.prompt].reshape(request.batch, request.prompt)
    expected = _greedy_reference(request, source, prompts)
    summaries, done = [], 0
    total = len(choices) * len(request.modes) * request.repetitions
    for choice in choices:
        for mode in request.modes:
            runs: list[Run] = []
            model = _open(mode, request, choice, source)
            try:
                for repetition in range(-request.warmup, request.repetitions):
                    run = _once(mode, model, prompts, request.new_tokens)
                    if repetition < 0:
                        continue
                    runs.append(run)
                    done += 1
                    records.write(_record(mode, choice, request, repetition, run, expected, model))
                    if on_progress:
                        on_progress(done, total)
                summaries.append(_summary(mode, choice, request, runs, expected, model))
            finally:
                model.close()
    return summaries


def _check(request: TimingRequest, source: ModelSource, available: int) -> None:
    length, positions = request.prompt + request.new_tokens, source.directory.positions
    generates = any(mode != "prefill" for mode in request.modes)
    needed = length if generates else request.prompt
    if positions and needed > positions:
        msg = f"The model has {positions} positions; {needed} tokens do not fit. Pass fewer --prompt or --new-tokens."
        raise UsageProblem(msg)
    if available < request.batch * request.prompt:
        msg = (
            f"The text has {available} tokens, too few for {request.batch} prompts of {request.prompt}; give a longer "
            f"text or pass a smaller --prompt."
        )
        raise UsageProblem(msg)


def _greedy_reference(request: TimingRequest, source: ModelSource, prompts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tokens that PyTorch in fp32 generates."""
    mode: TimingMode = "prefill" if set(request.modes) == {"prefill"} else "generate-cached"
    model = _open(mode, request, REFERENCE, source)
    try:
        return _once(mode, model, prompts, request.new_tokens).tokens
    finally:
        model.close()


def _open(mode: TimingMode, request: TimingRequest, choice: BackendChoice, source: ModelSource) -> Any:
    capacity = request.prompt + request.new_tokens
    if mode == "generate-cached":
        return open_cached(choice, source, request.batch, request.prompt, capacity)
    return open_logits(choice, source, request.batch, request.prompt if mode == "prefill" else capacity)


def _once(mode: TimingMode, model: Any, prompts: NDArray[np.int64], new_tokens: int) -> Run:
    if mode == "generate-cached":
        return generate_cached(model, prompts, new_tokens)
    return generate_uncached(model, prompts, 1 if mode == "prefill" else new_tokens)


def generate_uncached(model: LogitsModel, prompts: NDArray[np.int64], new_tokens: int) -> Run:
    """Pick the likeliest token `new_tokens` times, each after a forward pass over all tokens so far.

    Args:
        model: an opened model.
        prompts: int64 [B,S].
        new_tokens: at least 1.
    """
    start = time.perf_counter()
    sequence, first_s = prompts, 0.0
    for _ in range(new_tokens):
        chosen = model.logits(sequence)[:, -1].argmax(axis=-1)
        sequence = np.concatenate([sequence, chosen[:, None]], axis=1)
        first_s = first_s or time.perf_counter() - start
    return Run(first_s, time.perf_counter() - start, sequence[:, prompts.shape[1] :])


def generate_cached(model: CachedModel, prompts: NDArray[np.int64], new_tokens: int) -> Run:
    """Pick the likeliest token `new_tokens` times with keys and values kept from step to step.

    Args:
        model: an opened model.
        prompts: int64 [B,S].
        new_tokens: at least 1.
    """
    start = time.perf_counter()
    chosen = model.prefill(prompts, prompts.shape[1] + new_tokens).argmax(axis=-1)
    first_s = time.perf_counter() - start
    tokens = [chosen]
    for _ in range(new_tokens - 1):
        chosen = model.step(chosen).argmax(axis=-1)
        tokens.append(chosen)
    return Run(first_s, time.perf_counter() - start, np.stack(tokens, axis=1))


def _record(
    mode: TimingMode,
    choice: BackendChoice,
    request: TimingRequest,
    repetition: int,
    run: Run,
    expected: NDArray[np.int64],
    model: Any,
) -> dict[str, Any]:
    count = run.tokens.shape[1]
    return {
        "kind": mode,
        "backend": choice.name,
        "precision": choice.precision,
        "repetition": repetition,
        "batch": request.batch,
        "prompt_tokens": request.prompt,
        "new_tokens": count,
        "time_to_first_token_ms": run.first_s * 1e3,
        "time_per_token_ms": (run.total_s - run.first_s) / (count - 1) * 1e3 if count > 1 else None,
        "total_ms": run.total_s * 1e3,
        "tokens_per_s": _rate(mode, request, run),
        "first_difference": _first_difference(run.tokens, expected),
        "memory_bytes": _memory(model),
    }


def _summary(
    mode: TimingMode,
    choice: BackendChoice,
    request: TimingRequest,
    runs: Sequence[Run],
    expected: NDArray[np.int64],
    model: Any,
) -> dict[str, Any]:
    count = runs[0].tokens.shape[1]
    rates = sorted(_rate(mode, request, run) for run in runs)
    per_token = [(run.total_s - run.first_s) / (count - 1) * 1e3 for run in runs] if count > 1 else []
    differences = [_first_difference(run.tokens, expected) for run in runs]
    return {
        "mode": mode,
        "backend": choice.name,
        "precision": choice.precision,
        "batch": request.batch,
        "prompt_tokens": request.prompt,
        "new_tokens": count,
        "repetitions": len(runs),
        "time_to_first_token_ms": summarize([run.first_s * 1e3 for run in runs]),
        "time_per_token_ms": summarize(per_token) if per_token else None,
        "tokens_per_s": summarize(rates),
        "same_tokens_as_torch": all(place is None for place in differences),
        "first_difference": min((place for place in differences if place is not None), default=None),
        "memory_bytes": _memory(model),
        "provenance": provenance_of(model),
    }


def _rate(mode: TimingMode, request: TimingRequest, run: Run) -> float:
    """Tokens a second: of the prompt for prefill, else those that were generated."""
    count = request.prompt if mode == "prefill" else run.tokens.shape[1]
    return request.batch * count / run.total_s


def _first_difference(tokens: NDArray[np.int64], expected: NDArray[np.int64]) -> int | None:
    """Index of the first generated token that differs in any sequence; None if all are equal."""
    differs = (tokens != expected[:, : tokens.shape[1]]).any(axis=0)
    return int(differs.argmax()) if differs.any() else None


def _memory(model: Any) -> dict[str, int]:
    """What the runtime says it holds, and the most memory that this process had so far."""
    ask = getattr(model, "memory_bytes", None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
    return {"process_peak": peak, **(ask() if ask else {})}
