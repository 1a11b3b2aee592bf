"""Scenarios of a language model: prefill, and greedy generation with and without a cache."""

from __future__ import annotations

import hashlib
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from trt_workbench.backends.measure.loop import measure_calls
from trt_workbench.backends.measuring import Samples, SamplingLimits
from trt_workbench.bench.matrix import Point, Work
from trt_workbench.core.array_files import save_arrays
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import atomic_writer
from trt_workbench.core.kept import seal, sealed
from trt_workbench.core.variables import let_idle_threads_sleep
from trt_workbench.core.workspace import cache_root
from trt_workbench.llm import (
    REFERENCE,
    Agreement,
    AgreementCheck,
    BackendChoice,
    ModelSource,
    TimedGeneration,
    Trace,
    generate_cached,
    generate_uncached,
    open_cached,
    open_logits,
    reference_trace,
)
from trt_workbench.model.llm_directory import LlmDirectory, examine_llm_directory
from trt_workbench.model.opsets import DEFAULT_OPSET

# Tokens of a generation that warms up: a prompt and 3 steps are all that a whole one runs.
_TOKENS_CACHED = 4
# Without a cache every token has a shape of its own, and the core keeps CUDA graphs of 16 (`graph_cache`). After as
# many others it has none of the first, as after a whole generation.
_TOKENS_UNCACHED = 32
# The core captures the CUDA graph of a call at its second use, with a state for each of its two buffers, which calls
# take turns in. The engine of prompts is called once a generation.
_PASSES = 4


class LoadedLlm:
    """A language model as it was opened for a point, and how near it is to the reference once that is known.

    Attributes:
        model: a LogitsModel or a CachedModel.
        precision: what it was asked for.
        agreement: None until it was compared.
    """

    def __init__(self, model: Any, precision: str) -> None:
        self.model, self.precision = model, precision
        self.agreement: Agreement | None = None

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What executes the model, what the runtime says it holds, and how near it is to PyTorch in fp32."""
        found = {"agreement": asdict(self.agreement)} if self.agreement else {}
        return {**self.model.provenance, "memory_bytes": self.model.memory_bytes(), **found}

    def close(self) -> None:
        """Release the model."""
        self.model.close()


class LlmWork:
    """Random prompts to tokens, a whole generation a call; items are tokens.

    Prefill counts those of the prompt, generation those that it makes. The first token of a prefill is chosen, too.
    """

    def __init__(self, loaded: LoadedLlm, folder: Path, work: Work, seed: int) -> None:
        """Draw the prompts, int64 [batch, prompt], and compare the logits with those of PyTorch in fp32.

        Raises:
            Disagreement: the model does not compute what PyTorch computes.
            Otherwise as PyTorch does for the reference.
        """
        directory = examine_llm_directory(folder)
        shape = (work.batch, work.dims["prompt"])
        self._prompts = np.random.default_rng(seed).integers(0, _vocabulary(directory), shape, np.int64)
        self._loaded, self._model, self._work = loaded, loaded.model, work
        self._new_tokens = work.dims.get("new_tokens", 1)
        self.shapes: Mapping[str, Sequence[int]] | None = None
        self.items = self._prompts.size if work.kind == "prefill" else work.batch * self._new_tokens
        self._runs: list[TimedGeneration] = []
        reference = _reference(directory, self._prompts, self._new_tokens)
        self._comparison = AgreementCheck(reference, str(REFERENCE), loaded.precision)
        cached = work.kind == "generate-cached"
        right = self._comparison.logits(self._model, self._prompts, cached=cached, capacity=_capacity(work))
        loaded.agreement = self._right = right.or_raise()
        for _ in range(_PASSES if cached else 0):  # else every length is run for the second time by `once`
            self._begin()

    def once(self) -> None:
        """Prefill or generate once."""
        self._runs.append(self._generate(self._new_tokens))

    def measure(self, limits: SamplingLimits) -> Samples:
        """Time whole prefills or generations; of a generation, the first token and each further one, too.

        Raises:
            Disagreement: a token is not the reference's, and no near tie explains it.
        """
        samples = measure_calls(self.once, limits, warm_up=self._begin)
        runs, self._runs = self._runs, []
        for run in runs:
            self._loaded.agreement = self._comparison.tokens(self._right, run.tokens).or_raise()
        counted = runs[-len(samples.latency_ms) :]
        if self._new_tokens == 1:
            return samples
        first = np.array([run.first_s for run in counted]) * 1e3
        further = np.array([run.total_s for run in counted]) * 1e3 - first
        split = {"time_to_first_token": first, "time_per_token": further / (self._new_tokens - 1)}
        return Samples(samples.latency_ms, samples.wall_s, split)

    def _begin(self) -> None:
        """Generate the first tokens, as a warm-up."""
        cached = self._work.kind == "generate-cached"
        self._generate(min(self._new_tokens, _TOKENS_CACHED if cached else _TOKENS_UNCACHED))

    def _generate(self, new_tokens: int) -> TimedGeneration:
        if self._work.kind == "generate-cached":
            return generate_cached(self._model, self._prompts, new_tokens, _capacity(self._work))
        return generate_uncached(self._model, self._prompts, new_tokens)


def open_llm(point: Point, folder: Path, graphs: Path | None = None) -> LoadedLlm:
    """Open a language model for the work of a point.

    Runtimes of ONNX files take their graphs from a folder of export-llm, or else get them exported at their first use.

    Raises:
        UsageProblem: the folder holds no causal language model, the sequences are longer than its positions, or the
            point asks for what language models do not take.
        Otherwise as `open_logits`.
    """
    let_idle_threads_sleep()
    work = point.work
    directory = examine_llm_directory(folder)
    if point.tf32 or point.concurrency > 1:
        raise UsageProblem(f"Scenarios of kind {work.kind} support neither tf32 nor concurrency.")
    if directory.positions and _capacity(work) > directory.positions:
        raise UsageProblem(
            f"The model has {directory.positions} positions; {_capacity(work)} tokens do not fit: {folder}"
        )
    source = ModelSource(directory, "auto", DEFAULT_OPSET, point.threads, _say, graphs, {point.backend: point.options})
    choice = BackendChoice(point.backend, point.precision)
    if work.kind == "generate-cached":
        model: Any = open_cached(choice, source, work.batch, work.dims["prompt"], _capacity(work))
    else:
        model = open_logits(choice, source, work.batch, _capacity(work))
    return LoadedLlm(model, point.precision)


def _reference(directory: LlmDirectory, prompts: NDArray[np.int64], new_tokens: int) -> Trace:
    """What PyTorch in fp32 generates: computed once and kept, since every runtime is compared with the same.

    It runs in a process of its own: PyTorch leaves neither memory nor settings where another runtime is measured.
    """
    parts = (directory.sha256.encode(), prompts.tobytes(), str((prompts.shape, new_tokens)).encode())
    key = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:32]
    path = cache_root() / "language-references" / f"{key}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        if not sealed((path,), _say):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                found = process.submit(_generate_reference, directory, prompts, new_tokens).result()
            with atomic_writer(path) as file:
                save_arrays(file, {"tokens": found.tokens, "logits": found.logits})
            seal((path,))
        with np.load(path, allow_pickle=False) as kept:
            return Trace(kept["tokens"], kept["logits"])


def _generate_reference(directory: LlmDirectory, prompts: NDArray[np.int64], new_tokens: int) -> Trace:
    source = ModelSource(directory, "auto", DEFAULT_OPSET, None, _say)
    model = open_logits(REFERENCE, source, *prompts.shape)
    try:
        return reference_trace(model, prompts, new_tokens)
    finally:
        model.close()


def _capacity(work: Work) -> int:
    """Longest sequence, tokens; prefill chooses a token but never feeds it."""
    return work.dims["prompt"] + work.dims.get("new_tokens", 0)


def _vocabulary(directory: LlmDirectory) -> int:
    return int(directory.config.get("text_config", directory.config).get("vocab_size", 256))


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")  # into the worker's log
