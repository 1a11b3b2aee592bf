"""Timing of a language model: prefill, and greedy generation with and without a cache, against PyTorch's tokens."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from trt_workbench.bench.statistics import summarize
from trt_workbench.errors import UsageProblem
from trt_workbench.evaluate.llm_files import RecordWriter
from trt_workbench.pipeline.language.generation import Run, generate_cached, generate_uncached
from trt_workbench.pipeline.language.opening import BackendChoice, ModelSource, open_cached, open_logits, provenance_of

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
        One summary for every mode, backend and length of the prompt.

    Raises:
        UsageProblem: the sequence is longer than the model's positions, or the text is too short.
        Otherwise as `open_logits` and `open_cached`.
    """
    _check(request, source, len(tokens))
    prompts = {size: tokens[: request.batch * size].reshape(request.batch, size) for size in request.prompts}
    expected = _reference_tokens(request, source, prompts)
    summaries, done = [], 0
    total = len(choices) * len(request.modes) * len(prompts) * request.repetitions
    for choice in choices:
        for mode in request.modes:
            with closing(_open(mode, request, choice, source)) as model:
                for size, prompt in prompts.items():
                    facts = _facts(choice, request, size)
                    lines = []
                    for repetition, run in enumerate(_repeat(mode, model, prompt, request)):
                        done += 1
                        line = {"kind": mode, **facts, "repetition": repetition}
                        lines.append({**line, **_figures(mode, run, prompt.size, expected[size], model)})
                        records.write(lines[-1])
                        if on_progress:
                            on_progress(done, total)
                    summaries.append({"mode": mode, **facts, **_summary(lines), "provenance": provenance_of(model)})
    return sorted(summaries, key=lambda row: request.modes.index(row["mode"]))


def _check(request: TimingRequest, source: ModelSource, available: int) -> None:
    positions, longest = source.directory.positions, max(request.prompts)
    if positions and request.capacity > positions:
        msg = (
            f"The model has {positions} positions; {request.capacity} tokens do not fit. Pass fewer --prompt or "
            f"--new-tokens."
        )
        raise UsageProblem(msg)
    if available < request.batch * longest:
        msg = (
            f"The text has {available} tokens, too few for {request.batch} prompts of {longest}; give a longer text "
            f"or pass a smaller --prompt."
        )
        raise UsageProblem(msg)


def _reference_tokens(
    request: TimingRequest, source: ModelSource, prompts: Mapping[int, NDArray[np.int64]]
) -> dict[int, NDArray[np.int64]]:
    """Tokens that PyTorch in fp32 generates, by length of the prompt."""
    # the quickest mode that is asked for anyway: not every architecture has a cache
    mode = max(request.modes, key=TIMING_MODES.index)
    with closing(_open(mode, request, REFERENCE, source)) as model:
        return {size: _once(mode, model, prompt, request).tokens for size, prompt in prompts.items()}


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
    return generate_uncached(model, prompt, 1 if mode == "prefill" else request.new_tokens)


def _facts(choice: BackendChoice, request: TimingRequest, prompt: int) -> dict[str, Any]:
    return {
        "backend": choice.name,
        "precision": choice.precision,
        "batch": request.batch,
        "prompt_tokens": prompt,
    }


def _figures(mode: TimingMode, run: Run, prompt_tokens: int, expected: NDArray[np.int64], model: Any) -> dict[str, Any]:
    """What one repetition gave. Tokens a second: of the prompt for prefill, else those that were generated."""
    count = run.tokens.shape[1]
    processed = prompt_tokens if mode == "prefill" else run.tokens.size
    return {
        "new_tokens": count,
        "time_to_first_token_ms": run.first_s * 1e3,
        "time_per_token_ms": (run.total_s - run.first_s) / (count - 1) * 1e3 if count > 1 else None,
        "total_ms": run.total_s * 1e3,
        "tokens_per_s": processed / run.total_s,
        "first_difference": first_difference(run.tokens, expected),
        "memory_bytes": _memory(model),
    }


def _summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    differences = [line["first_difference"] for line in lines if line["first_difference"] is not None]
    per_token = [line["time_per_token_ms"] for line in lines if line["time_per_token_ms"] is not None]
    return {
        "new_tokens": lines[0]["new_tokens"],
        "repetitions": len(lines),
        "time_to_first_token_ms": summarize([line["time_to_first_token_ms"] for line in lines]),
        "time_per_token_ms": summarize(per_token) if per_token else None,
        "tokens_per_s": summarize([line["tokens_per_s"] for line in lines]),
        "same_tokens_as_torch": not differences,
        "first_difference": min(differences, default=None),
        "memory_bytes": lines[-1]["memory_bytes"],
    }


def first_difference(tokens: NDArray[np.int64], expected: NDArray[np.int64]) -> int | None:
    """Return the index of the first generated token that differs in any sequence; None if all are equal.

    Args:
        tokens: int64 [B,N].
        expected: int64 [B,M] with M at least N.
    """
    differs = (tokens != expected[:, : tokens.shape[1]]).any(axis=0)
    return int(differs.argmax()) if differs.any() else None


def _memory(model: Any) -> dict[str, int]:
    """What the runtime says it holds, and the most memory that this process had so far."""
    ask = getattr(model, "memory_bytes", None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
    return {"process_peak": peak, **(ask() if ask else {})}
