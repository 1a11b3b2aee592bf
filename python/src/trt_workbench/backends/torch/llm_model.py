"""Load a causal language model with transformers: a local folder, safetensors only, no code of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from trt_workbench.core.counts import counted
from trt_workbench.core.device_errors import device_error, device_message
from trt_workbench.core.elements import errors, is_finite
from trt_workbench.core.errors import UsageProblem, panics_as_errors, reason_of
from trt_workbench.core.variables import keep_compiled_code
from trt_workbench.model.llm_directory import LlmDirectory
from trt_workbench.model.llm_known import imports_of_language_models

if TYPE_CHECKING:
    from transformers import PreTrainedModel

REFUSALS = (ValueError, TypeError, AttributeError, IndexError, RuntimeError)
"""Errors that an architecture raises for an unsupported way of running."""

_PROBE_LENGTH = 8
_CAUSAL_TOLERANCE = 1e-5
"""Of the largest logit: equal rows of one batch differ by rounding, ten to a hundred times less."""


def load_causal_lm(
    directory: LlmDirectory,
    attention: Literal["eager", "fastest"] = "eager",
    dtype: str = "float32",
    note: Callable[[str], None] = lambda _: None,
) -> PreTrainedModel:
    """Load the model on the CPU, in evaluation mode.

    Args:
        directory: a checked folder.
        attention: "eager" is the implementation that is exported; "fastest" is PyTorch's fused one (sdpa) for the
            architectures that transformers has it for, else the eager one.
        dtype: of the weights, "float32", "float16" or "bfloat16". What transformers keeps in fp32 itself stays so,
            such as the frequencies of rotary positions, which a cast of the loaded model would round. Only in fp32 is
            it found out whether the model is causal.
        note: called with what the user should know, such as weights of the checkpoint that the model does not use.

    Raises:
        ComponentMissing: torch or transformers cannot be imported.
        UsageProblem: transformers does not know the architecture, the weights do not fit it, or it is not causal.
        DeviceFailure: there is not enough memory.
    """
    keep_compiled_code()
    with imports_of_language_models():
        import torch
        from transformers import AutoModelForCausalLM
    try:
        with quiet_transformers():
            model, info = AutoModelForCausalLM.from_pretrained(
                directory.path,
                dtype=getattr(torch, dtype),
                attn_implementation="eager" if attention == "eager" else None,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # what does not fit is named below, not in a log
                output_loading_info=True,
            )
    # whatever transformers and safetensors raise for a broken checkpoint: OSError, KeyError, SafetensorError, …
    except Exception as error:
        what = f"transformers cannot load this {directory.model_type} model"
        if kind := device_error(error):
            raise kind(f"{device_message(kind, what, _reason(error))}: {directory.path}") from error
        raise UsageProblem(f"{what} ({_reason(error)}): {directory.path}") from error
    _check_complete(directory, info, note)
    loaded: PreTrainedModel = model.eval()
    if dtype == "float32":  # rounding would look like an influence of later tokens
        _check_causal(directory, loaded)
    return loaded


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from logging and drawing bars while the block runs; errors and panics are exceptions."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with panics_as_errors():
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _check_complete(directory: LlmDirectory, info: dict[str, Any], note: Callable[[str], None]) -> None:
    where = directory.path
    # transformers fills what is missing with random numbers and continues
    if missing := sorted(map(str, info["missing_keys"])):
        raise UsageProblem(
            f"The checkpoint lacks {counted(len(missing), 'weight')} of the model, such as {missing[0]}: {where}"
        )
    if wrong := sorted(info["mismatched_keys"]):
        name, found, expected = wrong[0]
        raise UsageProblem(
            f"The shapes of {counted(len(wrong), 'weight')} differ from config.json, such as {name}: "
            f"{list(found)} instead of {list(expected)}: {where}"
        )
    further = sorted(map(str, info["unexpected_keys"]))
    if not further:
        return
    unused = (
        f"transformers' own {directory.model_type} has no place for {len(further)} of its weights, such as "
        f"{further[0]}: {where}"
    )
    # code that comes with a model may compute more than the class of the same name
    if directory.brings_code:
        raise UsageProblem(f"The checkpoint contains its own code (auto_map), which is never executed, and {unused}")
    note(f"The checkpoint may hold another model than config.json declares: with it, {unused}")


def _check_causal(directory: LlmDirectory, model: PreTrainedModel) -> None:
    """Raise UsageProblem if later tokens change the logits of earlier ones.

    transformers loads BERT, RoBERTa, ELECTRA, XLNet and others as causal models, too, and runs them unchanged.
    """
    import torch

    length = min(_PROBE_LENGTH, directory.positions or _PROBE_LENGTH)
    kept = length // 2
    tokens = torch.arange(length).repeat(2, 1)
    tokens[1, kept:] += length
    tokens %= model.config.get_text_config().vocab_size
    try:
        with torch.no_grad(), quiet_transformers():
            logits = model(input_ids=tokens, use_cache=False).logits[:, :kept]
    except REFUSALS as error:
        raise UsageProblem(
            f"transformers cannot run this {directory.model_type} model ({reason_of(error)}): {directory.path}"
        ) from error
    one, other = logits.float().cpu().numpy()
    if errors(other, one).max() > _CAUSAL_TOLERANCE * max(np.abs(one[is_finite(one)]).max(initial=0), 1e-6):
        raise UsageProblem(
            f"This {directory.model_type} model is not causal: later tokens change the logits of earlier ones, so "
            "its perplexity and its generated text are meaningless. A decoder of this architecture has is_decoder in "
            f"config.json: {directory.path}"
        )


def _reason(error: BaseException) -> str:
    """Return why a model cannot be loaded, without the names of all architectures that can be."""
    return reason_of(error).partition(" Model type should be one of ")[0]
