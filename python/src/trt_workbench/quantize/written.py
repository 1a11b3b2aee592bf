"""A file that a command wrote is loaded and run compared with the one it came from, before it is called written."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from trt_workbench.backends.measure.inputs import random_inputs, usual_shapes
from trt_workbench.backends.overflow import explained
from trt_workbench.backends.registry import REFERENCE, load_reference, require_backend
from trt_workbench.core.compare import difference
from trt_workbench.core.elements import is_finite
from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem
from trt_workbench.core.percent import share
from trt_workbench.core.precision import read
from trt_workbench.core.settings import FREE_SIZE
from trt_workbench.model.opened import Model
from trt_workbench.model.randomness import random_operators
from trt_workbench.model.walking import all_nodes

Arrays = Mapping[str, NDArray[Any]]
# Of free dimensions of a model that does not take the usual size.
_SHORT = 2
_BELOW = 2
# Relative L2 of an output that has lost what the model says, such as zeros; and what the user should know.
_LOST, _NOTED = 0.9, 0.1
# Behind them a rounding moves whole rows.
_CHOOSES = frozenset({"TopK", "ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "Multinomial", "Unique"})


def check_written(before: Model, path: Path, precision: str, seed: int = 0) -> tuple[str, ...]:
    """Load a model in another format on the CPU, run it in that format's own arithmetic, and compare it.

    Args:
        before: the model it was made of, which is run in fp32.
        path: the new one.
        precision: its format.
        seed: of the random inputs.

    Returns:
        Notes, in sentences: what is far from the model, or why there is no comparison.

    Raises:
        CheckFailed: it does not load or run where the model does, an output has another type or shape, is not finite
            where the model's is, or in fp16 has nothing in common with it.
    """
    try:
        backend = require_backend(REFERENCE)
        reference = load_reference(before.path)
    except (UsageProblem, ComponentMissing) as problem:
        return (f"Not compared with the model, which does not load here: {problem}",)
    with reference:
        inputs, reason = _runnable(before, reference.run, seed)
        expected = reference.run(inputs) if inputs is not None else {}
    try:
        # what ONNX has against the file counts unless it has something against the model, too; of an output with
        # another rank than the model declares, it sees that in newer operator sets alone
        ranks = {one.name: len(one.shape) for one in before.facts.outputs if one.shape is not None}
        full = all(ranks.get(name, array.ndim) == array.ndim for name, array in expected.items())
        try:
            onnx.checker.check_model(path, full_check=full)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            with contextlib.suppress(onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
                onnx.checker.check_model(before.path, full_check=full)
                raise UsageProblem(f"ONNX's checker: {' '.join(str(error).split())}") from error
        load_reference(path).close()  # as it is: fp16 is simulated below, whatever its types are
        with backend.load(path) as session:
            found = session.run(inputs) if inputs is not None else {}
    except UsageProblem as error:
        raise CheckFailed(
            f"The model in {precision} does not run, although the original does; nothing is written. "
            + str(error).replace(str(path), "the new model")
        ) from error
    if inputs is None:
        return (f"Loaded, but not compared with the model: {reason}",)
    names, notes = random_operators(before.proto), []
    fix = "; bf16 has the range of fp32" if precision == "fp16" else "; keep groups in fp32 with --keep"
    for name, want in expected.items():
        got = found.get(name)
        if got is None or got.dtype != want.dtype:
            raise CheckFailed(
                f"Output {name} of the model in {precision} is absent or of another type; nothing is written."
            )
        if is_finite(want).all() and not is_finite(got).all():
            why = explained(path, precision, [inputs])
            raise CheckFailed(
                f"Output {name} of the model in {precision} is not finite on random inputs, but the original's is"
                f"{why}. Nothing is written{fix}."
            )
        apart = difference(got, want).rel_l2
        if names or not read(precision)[0].is_half or any(node.op_type in _CHOOSES for node in all_nodes(before.proto)):
            continue
        # beyond the range of fp16 values are lost; bf16 only rounds, on noise by half of an output
        if precision == "fp16" and apart >= _LOST:
            raise CheckFailed(
                f"Output {name} of the model in {precision} is off by {share(apart)} (relative L2) on random inputs"
                f"{explained(path, precision, [inputs])}. Nothing is written{fix}."
            )
        if apart >= _NOTED:
            notes.append(f"Output {name} is off by {share(apart)} (relative L2) on random inputs.")
    return tuple(notes)


def _runnable(before: Model, run: Any, seed: int) -> tuple[Arrays | None, str]:
    """Return inputs that the model runs on, or None and why there are none."""
    reason = ""
    for batch, size in ((2, FREE_SIZE), (2, _SHORT), (1, FREE_SIZE)):  # some exports hold the batch of their trace
        try:
            specs, shapes = usual_shapes(before, batch=batch, size=size)
            drawn = random_inputs(specs, shapes, seed, below=_BELOW)
            run(drawn)
            return drawn, ""
        except UsageProblem as problem:
            reason = reason or f"it does not run on inputs drawn at random ({problem})"
    return None, reason
