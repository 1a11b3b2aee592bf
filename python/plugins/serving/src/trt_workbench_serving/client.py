"""An example of a client, written next to the models."""

from __future__ import annotations

from string import Template
from typing import Any

from trt_workbench_serving.backends.datatypes import PROTOCOL
from trt_workbench_serving.sources import TritonSource

_HEAD = '''"""Ask a Triton server for the model $model. Written by `trtw export-triton`.

    pip install 'tritonclient[http]'
    python $file localhost:8000
"""

import sys

import numpy as np
import tritonclient.http as triton

client = triton.InferenceServerClient(sys.argv[1])
'''
_TENSORS = """inputs = []
for name, datatype, shape, dtype in $inputs:
    array = np.zeros(shape, dtype)  # your own data
    inputs.append(triton.InferInput(name, array.shape, datatype))
    inputs[-1].set_data_from_numpy(array)
answer = client.infer("$model", inputs)
for name in $outputs:
    print(name, answer.as_numpy(name).shape)
"""


def client_of_tensors(name: str, source: TritonSource, file: str) -> str:
    """Return a program that runs the model once, on zeros."""
    rows = (1,) if source.is_batched else ()
    inputs = [(spec.name, PROTOCOL[spec.dtype], [*rows, *source.best(spec.name)], spec.dtype) for spec in source.inputs]
    outputs = [spec.name for spec in source.outputs]
    given: dict[str, Any] = {"model": name, "file": file, "inputs": inputs, "outputs": outputs}
    return Template(_HEAD + _TENSORS).substitute(given)
