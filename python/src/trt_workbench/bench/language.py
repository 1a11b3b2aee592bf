"""Scenarios of a language model: prefill, and greedy generation with and without a cache."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from trt_workbench.backends.measuring import MeasurePlan, Samples
from trt_workbench.bench.loop import measure_calls
from trt_workbench.bench.matrix import Point, Work
from trt_workbench.errors import UsageProblem
from trt_workbench.onnxtools.llm_directory import LlmDirectory, examine_llm_directory
from trt_workbench.onnxtools.opsets import DEFAULT_OPSET
from trt_workbench.pipeline.language.generation import Run, generate_cached, generate_uncached
from trt_workbench.pipeline.language.opening import BackendChoice, ModelSource, open_cached, open_logits


class Language:
    """Random prompts to tokens, a whole generation a call; items are tokens.

    Prefill counts those of the prompt, generation those that it makes. The first token of a prefill is chosen, too.
    """

    def __init__(self, model: Any, folder: Path, work: Work, seed: int) -> None:
        """Draw the prompts, int64 [batch, prompt]."""
        vocabulary = _vocabulary(examine_llm_directory(folder))
        shape = (work.batch, work.dims["prompt"])
        self._prompts = np.random.default_rng(seed).integers(0, vocabulary, shape, np.int64)
        self._model, self._work = model, work
        self._new_tokens = work.dims.get("new_tokens", 1)
        self.items = self._prompts.size if work.kind == "prefill" else work.batch * self._new_tokens
        self._runs: list[Run] = []

    def once(self) -> None:
        """Prefill or generate once."""
        if self._work.kind == "generate-cached":
            self._runs.append(generate_cached(self._model, self._prompts, self._new_tokens, _capacity(self._work)))
        else:
            self._runs.append(generate_uncached(self._model, self._prompts, self._new_tokens))

    def measure(self, plan: MeasurePlan) -> Samples:
        """Time whole prefills or generations; of a generation, the first token and each further one, too."""
        self._runs.clear()
        samples = measure_calls(self.once, plan)
        counted = self._runs[-len(samples.latency_ms) :]
        if self._new_tokens == 1:
            return samples
        first = np.array([run.first_s for run in counted]) * 1e3
        further = np.array([run.total_s for run in counted]) * 1e3 - first
        split = {"time_to_first_token": first, "time_per_token": further / (self._new_tokens - 1)}
        return Samples(samples.latency_ms, samples.wall_s, split)


def open_language(point: Point, folder: Path) -> Any:
    """Open a language model for the work of a point; runtimes of ONNX files get it exported at its first use.

    Raises:
        UsageProblem: the folder holds no causal language model, the sequences are longer than its positions, or the
            point asks for what language models do not take.
        Otherwise as `open_logits`.
    """
    work = point.work
    directory = examine_llm_directory(folder)
    if point.tf32 or point.concurrency > 1:
        msg = f"Scenarios of the kind {work.kind} take neither tf32 nor concurrency."
        raise UsageProblem(msg)
    if directory.positions and _capacity(work) > directory.positions:
        msg = f"The model has {directory.positions} positions; {_capacity(work)} tokens do not fit: {folder}"
        raise UsageProblem(msg)
    source = ModelSource(directory, "auto", DEFAULT_OPSET, point.threads, _say, options=point.options)
    choice = BackendChoice(point.backend, point.precision)
    if work.kind == "generate-cached":
        return open_cached(choice, source, work.batch, work.dims["prompt"], _capacity(work))
    return open_logits(choice, source, work.batch, _capacity(work))


def _capacity(work: Work) -> int:
    """Longest sequence, tokens; prefill chooses a token but never feeds it."""
    return work.dims["prompt"] + work.dims.get("new_tokens", 0)


def _vocabulary(directory: LlmDirectory) -> int:
    config = directory.config.get("text_config", directory.config)
    return int(config.get("vocab_size", 256))


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")  # into the worker's log
