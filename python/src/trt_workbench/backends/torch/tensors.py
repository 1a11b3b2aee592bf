"""Tensors of PyTorch in place of arrays: who gives them gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session


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
    tensors = [one for one in inputs.values() if _is_tensor(one)]
    given = {name: _as_numpy(one) if _is_tensor(one) else np.asarray(one) for name, one in inputs.items()}
    outputs = session.run(given)
    if not tensors:
        return outputs
    from trt_workbench.backends.torch.onnx_torch.dtypes import as_torch

    return {name: as_torch(array).to(tensors[0].device) for name, array in outputs.items()}


def _is_tensor(value: Any) -> bool:
    """Whether it is of PyTorch, which is imported by then."""
    return type(value).__module__.partition(".")[0] == "torch"


def _as_numpy(tensor: Any) -> NDArray[Any]:
    """Return a tensor as an array of the host; of bfloat16, which numpy does not have, as ml_dtypes' type."""
    import ml_dtypes
    import torch

    host = tensor.detach().cpu()
    if host.dtype == torch.bfloat16:
        return np.asarray(host.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(host.numpy())
