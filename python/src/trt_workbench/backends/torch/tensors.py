"""Tensors of PyTorch in place of arrays: who gives them gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.core.errors import UsageProblem, reason_of


def run_as_given(session: Session, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Execute a model once, with arrays or with tensors of PyTorch.

    Args:
        session: the loaded model.
        inputs: as `Session.run` takes them; any of them may be a tensor, on any device.

    Returns:
        Arrays; where an input is a tensor, tensors on the device of the first one.

    Raises:
        UsageProblem: as `Session.run`.
        DeviceFailure: the device failed while executing.
    """
    if not isinstance(inputs, Mapping):
        example = f"{{{session.inputs[0].name!r}: array}}" if session.inputs else "{}"
        raise UsageProblem(f"Inputs are given by their names, such as {example}, not as {type(inputs).__name__}.")
    tensors = [one for one in inputs.values() if _is_tensor(one)]
    given = {name: _as_array(name, one) for name, one in inputs.items()}
    outputs = session.run(given)
    if not tensors:
        return outputs
    from trt_workbench.backends.torch.onnx_torch.dtypes import as_torch

    return {name: as_torch(array).to(tensors[0].device) for name, array in outputs.items()}


def _as_array(name: str, value: Any) -> NDArray[Any]:
    try:
        return _as_numpy(value) if _is_tensor(value) else np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as error:
        raise UsageProblem(f"Input {name} is no array: {reason_of(error)}") from error


def _is_tensor(value: Any) -> bool:
    """Whether it is of PyTorch, which is imported by then."""
    return type(value).__module__.partition(".")[0] == "torch"


def _as_numpy(tensor: Any) -> NDArray[Any]:
    """Return a tensor as an array of the host; of bfloat16, which numpy does not have, as ml_dtypes' type."""
    import ml_dtypes
    import torch

    host = tensor.detach().resolve_conj().resolve_neg().cpu()
    if host.dtype == torch.bfloat16:
        return np.asarray(host.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(host.numpy())
