"""Proof of an export: ONNX Runtime on the CPU against PyTorch, on batches and lengths that the export never saw."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from trt_workbench.backends.base import Session
from trt_workbench.backends.language import Logits, Tokens
from trt_workbench.backends.registry import REFERENCE, load_reference
from trt_workbench.core.elements import errors, is_finite
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.llm.agreement import is_broken
from trt_workbench.llm.graph import ExportedGraph
from trt_workbench.llm.models import SessionCache, SessionLogits, SessionSlots

RELATIVE_TOLERANCE = 1e-4
"""Largest difference of a logit, as a share of the largest logit or of 1: fp32 rounding is a hundred times smaller."""

_CASES = ((1, 1), (3, 11), (1, 64))
_PROMPT_SHARE = 3  # a third of the sequence is the prompt


class ExportedModel(Protocol):
    """The model that was exported, on PyTorch."""

    def logits(self, input_ids: Tokens) -> Logits:
        """Return the logits, float32 [B,S,V], of sequences int64 [B,S]."""


def prove_export(
    graph: ExportedGraph, reference: ExportedModel, vocabulary: int, positions: int | None, seed: int = 0
) -> dict[str, Any]:
    """Run random tokens through the exported graph and the model it came from.

    A cached graph is started with a third of each sequence and then given single tokens, as a step graph is throughout.

    Args:
        graph: what was exported.
        reference: the PyTorch model.
        vocabulary: tokens are drawn below this.
        positions: longest sequence that the model takes; None for any.
        seed: of the tokens.

    Returns:
        `cases` with `batch`, `length`, `max_abs_difference` and `max_abs_logit`, and the `relative_tolerance`.

    Raises:
        CheckFailed: a logit differs by more than the tolerance or is NaN on one side, or the graph does not run.
        ComponentMissing: ONNX Runtime is not there.
        UsageProblem: ONNX Runtime cannot load the graph, or a logit of PyTorch is not finite.
    """
    random = np.random.default_rng(seed)
    limit = min(size for size in (positions, graph.cache_length, _CASES[-1][1]) if size)
    cases = []
    with load_reference(graph.path) as session:
        fixed = session.inputs[0].shape[0]
        for batch, length in dict.fromkeys((fixed or rows, min(tokens, limit)) for rows, tokens in _CASES):
            tokens = random.integers(0, vocabulary, (batch, length))
            expected = reference.logits(tokens)
            if is_broken(expected):
                raise UsageProblem(
                    f"PyTorch itself computes logits that are not finite at batch {batch}, length {length}: the "
                    f"checkpoint has weights that are not finite or too large."
                )
            try:
                expected, got = _both_logits(graph, session, tokens, expected)
            except UsageProblem as error:
                raise _not_running(graph, batch, length, error) from error
            difference = float(errors(got, expected).max())
            size = float(np.abs(expected[is_finite(expected)]).max())
            case = {"batch": batch, "length": length, "max_abs_difference": difference, "max_abs_logit": size}
            cases.append(case)
            if difference > RELATIVE_TOLERANCE * max(1.0, size):
                raise _wrong(graph, case)
    return {"backend": REFERENCE, "relative_tolerance": RELATIVE_TOLERANCE, "cases": cases}


def _both_logits(graph: ExportedGraph, session: Session, tokens: Tokens, expected: Logits) -> tuple[Logits, Logits]:
    """Expected and found logits of the positions that the graph gives them for."""
    if graph.kind == "logits":
        return expected, SessionLogits(session).logits(tokens)
    model = SessionCache(session, graph) if graph.kind == "cached" else SessionSlots(session, graph)
    prompt = 1 if graph.kind == "step" else max(1, tokens.shape[1] // _PROMPT_SHARE)
    # expected and found logits [B,N,V] after a prompt of the first tokens and after each further one
    length = tokens.shape[1]
    found = [model.prefill(tokens[:, :prompt], length)]
    found += [model.step(tokens[:, position]) for position in range(prompt, length)]
    return expected[:, prompt - 1 :], np.stack(found, axis=1)


def _not_running(graph: ExportedGraph, batch: int, length: int, error: UsageProblem) -> CheckFailed:
    said = str(error).rsplit(": ", 1)[0]  # without the path, which is gone with the error
    return CheckFailed(
        f"The exported {graph.kind} graph fails at batch {batch}, length {length}, for which it was not traced: this "
        f"architecture makes decisions in Python that tracing does not keep. {said}"
    )


def _wrong(graph: ExportedGraph, case: dict[str, Any]) -> CheckFailed:
    return CheckFailed(
        f"The exported {graph.kind} graph differs from PyTorch: at batch {case['batch']}, length "
        f"{case['length']} a logit differs by {case['max_abs_difference']:.3g} (largest logit "
        f"{case['max_abs_logit']:.3g}). This architecture has behaviour that tracing does not keep."
    )
