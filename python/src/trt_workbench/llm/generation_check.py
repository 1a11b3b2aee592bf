"""Whether a backend generates what PyTorch in fp32 generates, with a cache and without: its logits and its tokens."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.language import PromptModel
from trt_workbench.backends.torch.llm_tokenizer import load_tokenizer
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed, UsageProblem, WorkbenchError
from trt_workbench.core.verification import Mark
from trt_workbench.llm.agreement import Agreement, AgreementCheck, Disagreement, Trace, trace
from trt_workbench.llm.opening import ModelSource, open_cached, open_logits
from trt_workbench.llm.served_agreement import ServedCheck
from trt_workbench.llm.settings import MODES, REFERENCE, BackendChoice, LlmSettings, Mode
from trt_workbench.verify import keep_agreement, refuse_wrong

Progress = Callable[[int, int], None]
Prompts = Mapping[int, NDArray[np.int64]]
CACHED = MODES[-1]


@dataclass
class Generation:
    """What was compared so far.

    Attributes:
        rows: one for every mode, backend and length of the prompt: how near it is to the reference, and why it is wrong
            or not available.
        error: the first of the errors, a wrong result before all others.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    error: WorkbenchError | None = None

    def fail(self, error: WorkbenchError) -> None:
        """Record an error."""
        if self.error is None or (isinstance(error, CheckFailed) and not isinstance(self.error, CheckFailed)):
            self.error = error
        # release what an error's frames hold: a model or its activations would take memory from the next one
        link: BaseException | None = error
        while link:
            traceback.clear_frames(link.__traceback__)
            link = link.__cause__ or link.__context__


def compare_generation(
    settings: LlmSettings,
    source: ModelSource,
    tokens: NDArray[np.int64],
    found: Generation,
    on_progress: Progress | None = None,
    evidence: Path | None = None,
) -> None:
    """Let every backend generate in every mode, one model in memory at a time, and compare it with PyTorch in fp32.

    Each model is given PyTorch's tokens first, for its logits, and then generates by itself, so that what the first
    sequences left behind would be seen. A backend that fails or is wrong does not keep the others from being compared.
    TensorRT's engines that are known to be wrong are refused; where the tokens agree, their manifests keep that.

    Args:
        settings: what is compared, as `check_generation` accepts it.
        source: the model.
        tokens: of the text; its beginning is the prompt, each sequence of a batch has its own part.
        found: is filled, so that the caller has what was compared before an interrupt.
        on_progress: called with the backends and modes that are done and their total.
        evidence: the run directory that will hold the agreement.

    Raises:
        As `open_logits` and `open_cached`, for the tokens to compare with.
    """
    prompts = {size: tokens[: settings.batch * size].reshape(settings.batch, size) for size in settings.prompts}
    expected = _reference(settings, source, prompts)
    works = list(itertools.product(settings.generating, settings.backends))
    for number, (mode, choice) in enumerate(works, 1):
        asked = {"mode": mode, "backend": choice.name, "precision": choice.precision, "batch": settings.batch}
        missing = [{**asked, "prompt_tokens": size, "new_tokens": settings.new_tokens} for size in prompts]
        try:
            with closing(_open(mode, settings, choice, source)) as model:
                refuse_wrong(model.provenance, allow_unverified=settings.allow_unverified)
                for size, prompt in prompts.items():
                    if isinstance(model, PromptModel):
                        agreement: Agreement = _served(settings, choice, model, prompt, expected[size], source)
                    else:
                        agreement = _agreement(settings, choice, model, prompt, expected[size], cached=mode == CACHED)
                    wrong = Disagreement(agreement.failure) if agreement.failure else None
                    if wrong is None:
                        keep_agreement(model.provenance, evidence)
                    marks = refuse_wrong(model.provenance, allow_unverified=settings.allow_unverified)
                    found.rows.append(_row(missing.pop(0), agreement, wrong, marks, model.provenance))
                    if wrong:
                        found.fail(wrong)
        except WorkbenchError as error:
            found.fail(error)
            found.rows += [_row(facts, None, error) for facts in missing]
        if on_progress:
            on_progress(number, len(works))


def check_generation(settings: LlmSettings, positions: int | None, available: int) -> None:
    """Raise UsageProblem for what no backend can generate.

    Args:
        settings: what is to be compared.
        positions: of the model; None if it has no limit.
        available: tokens of the text.
    """
    longest = max(settings.prompts)
    if positions and settings.capacity > positions:
        raise UsageProblem(
            f"The model has {positions} positions; {settings.capacity} tokens do not fit. Pass a smaller "
            f"--prompt or --new-tokens."
        )
    if available < settings.batch * longest:
        raise UsageProblem(
            f"The text has {counted(available, 'token')}, too few for {counted(settings.batch, 'prompt')} of "
            f"{longest}; give a longer text or pass a smaller --prompt."
        )


def _row(
    facts: Mapping[str, Any],
    agreement: Agreement | None,
    error: WorkbenchError | None,
    verification: Sequence[Mark] = (),
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        **facts,
        "agreement": agreement and asdict(agreement),
        "failure": error and str(error),
        "error_kind": error and type(error).__name__,
        "verification": list(verification),
        "provenance": dict(provenance or {}),
    }


def _agreement(
    settings: LlmSettings,
    choice: BackendChoice,
    model: Any,
    prompt: NDArray[np.int64],
    expected: Trace,
    *,
    cached: bool,
) -> Agreement:
    comparison, capacity = AgreementCheck(expected, str(REFERENCE), choice.precision), settings.capacity
    agreement = comparison.logits(model, prompt, cached=cached, capacity=capacity)
    if agreement.failure:
        return agreement
    own = trace(model, prompt, settings.new_tokens, cached=cached, capacity=capacity)
    return comparison.tokens(agreement, own.tokens)


def _served(
    settings: LlmSettings,
    choice: BackendChoice,
    model: PromptModel,
    prompt: NDArray[np.int64],
    expected: Trace,
    source: ModelSource,
) -> Agreement:
    decode = partial(load_tokenizer(source.directory).decode, skip_special=True)
    check = ServedCheck(expected, str(REFERENCE), choice.precision, prompt, decode, source.directory.ends)
    return check.judge(model.continuations(prompt, settings.new_tokens))


def _reference(settings: LlmSettings, source: ModelSource, prompts: Prompts) -> dict[int, Trace]:
    """What PyTorch in fp32 generates, by length of the prompt."""
    # the quickest requested mode: not every architecture has a cache
    mode, capacity = settings.generating[-1], settings.capacity
    with closing(_open(mode, settings, REFERENCE, source)) as model:
        return {
            size: trace(model, prompt, settings.new_tokens, cached=mode == CACHED, capacity=capacity)
            for size, prompt in prompts.items()
        }


def _open(mode: Mode, settings: LlmSettings, choice: BackendChoice, source: ModelSource) -> Any:
    if mode == CACHED:
        return open_cached(choice, source, settings.batch, max(settings.prompts), settings.capacity)
    return open_logits(choice, source, settings.batch, settings.capacity)
