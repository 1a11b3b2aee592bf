"""What `export-triton` can be asked for, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from trt_workbench.core.settings import MORE, AllowUnverified, Setting


@dataclass(frozen=True)
class TritonSettings:
    """How a model is served."""

    target: Annotated[
        tuple[Path, ...],
        Setting("TensorRT plans of one model, one a GPU type; or one ONNX model.", argument=True, metavar="PLAN|MODEL"),
    ]
    repository: Annotated[Path, Setting("Folder of the models, as Triton's --model-repository.", flags="--output -o")]
    name: Annotated[str | None, Setting("Name of the model on the server; the file's by default.")] = None
    server_tensorrt: Annotated[
        str | None, Setting("TensorRT of the server: its version, or the folder of its libnvinfer.so.")
    ] = None
    max_batch: Annotated[
        int | None, Setting("Most rows of a batch; by default what the plan takes, 16 for a model.", min=1)
    ] = None
    warmup: Annotated[bool, Setting("Run the smallest and largest batch before the model is ready.", MORE)] = True
    python: Annotated[
        bool, Setting("Serve a model by ONNX Runtime in the Python backend, for a server without onnxruntime.", MORE)
    ] = False
    allow_unverified: AllowUnverified = False
