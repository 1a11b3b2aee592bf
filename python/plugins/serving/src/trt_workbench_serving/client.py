"""An example of a client, written next to the models."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import Any

from trt_workbench_serving.backends.datatypes import PROTOCOL
from trt_workbench_serving.config import Config
from trt_workbench_serving.sources import TritonSource

_HEAD = '''"""Ask a Triton server for the model $model. Written by `trtw export-triton`.

    pip install 'tritonclient[http]'
    python $file localhost:8000$words
"""

import sys

import numpy as np
import tritonclient.http as triton

client = triton.InferenceServerClient(sys.argv[1])
'''
_IMAGES = """names = $names

for path in sys.argv[2:]:
    with open(path, "rb") as file:
        image = np.array([[file.read()]], np.object_)
    tensor = triton.InferInput("IMAGE", image.shape, "BYTES")
    tensor.set_data_from_numpy(image)
    answer = client.infer("$model", [tensor])
    count = answer.as_numpy("COUNT")[0, 0]
    boxes, scores, labels = (answer.as_numpy(name)[0, :count] for name in ("BOXES", "SCORES", "LABELS"))
    for box, score, label in zip(boxes, scores, labels):
        print(path, names[label] if names else label, *(repr(float(value)) for value in (score, *box)))
"""
_TENSORS = """inputs = []
for name, datatype, shape, dtype in $inputs:
    array = np.zeros(shape, dtype)  # your own data
    inputs.append(triton.InferInput(name, array.shape, datatype))
    inputs[-1].set_data_from_numpy(array)
answer = client.infer("$model", inputs)
for name in $outputs:
    print(name, answer.as_numpy(name).shape)
"""


def client_of_images(ensemble: Config, names: Sequence[str] | None, file: str) -> str:
    """Return a program that prints class, score and box of what is found in image files."""
    given = {"model": ensemble["name"], "file": file, "words": " IMAGE…", "names": repr(list(names or ()))}
    return Template(_HEAD + _IMAGES).substitute(given)


def client_of_tensors(name: str, source: TritonSource, file: str) -> str:
    """Return a program that runs the model once, on zeros."""
    rows = (1,) if source.is_batched else ()
    inputs = [(spec.name, PROTOCOL[spec.dtype], [*rows, *source.best(spec.name)], spec.dtype) for spec in source.inputs]
    outputs = [spec.name for spec in source.outputs]
    given: dict[str, Any] = {"model": name, "file": file, "words": "", "inputs": inputs, "outputs": outputs}
    return Template(_HEAD + _TENSORS).substitute(given)
