"""What `export-triton` can be asked for, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from trt_workbench.core.settings import MORE, AllowUnverified, Setting, sizes

_BATCHES, _BOXES = "Batches", "Ensemble"


@dataclass(frozen=True)
class TritonSettings:
    """How a model is served."""

    target: Annotated[
        tuple[Path, ...],
        Setting("TensorRT plans of one model, one a GPU type; or one ONNX model.", argument=True, metavar="PLAN|MODEL"),
    ]
    repository: Annotated[Path, Setting("Folder of the models, as Triton's --model-repository.", flags="--output -o")]
    name: Annotated[str | None, Setting("Name of the model on the server; the file's by default.")] = None
    version: Annotated[int, Setting("Version of the model: the folder of its files.", min=1)] = 1
    server_tensorrt: Annotated[
        str | None, Setting("TensorRT of the server: its version, or the folder of its libnvinfer.so.")
    ] = None
    ensemble: Annotated[bool, Setting("Also write an ensemble: encoded images to boxes.")] = False
    max_batch: Annotated[
        int | None, Setting("Most rows of a batch; by default what the plan takes, 16 for a model.", _BATCHES, min=1)
    ] = None
    batching: Annotated[bool, Setting("Let the server put waiting requests together.", _BATCHES)] = True
    delay_us: Annotated[
        int, Setting("Longest time that a request waits for others, microseconds.", _BATCHES, min=0)
    ] = 100
    preferred: Annotated[
        tuple[int, ...],
        Setting("Sizes of batches that are run at once, such as 4,8.", _BATCHES, kind=str, read=sizes),
    ] = ()
    instances: Annotated[int, Setting("Instances of the model on each GPU.", min=1)] = 1
    cuda_graphs: Annotated[bool, Setting("Capture CUDA graphs: 1, powers of two, and the largest batch.", MORE)] = False
    warmup: Annotated[bool, Setting("Run the smallest and largest batch before the model is ready.", MORE)] = True
    python: Annotated[
        bool, Setting("Serve a model by ONNX Runtime in the Python backend, for a server without onnxruntime.", MORE)
    ] = False
    conf: Annotated[float, Setting("Score threshold of the boxes.", _BOXES, min=0.0, max=1.0)] = 0.25
    iou: Annotated[
        float | None, Setting("NMS IoU threshold; the family's own by default.", _BOXES, min=0.0, max=1.0)
    ] = None
    max_dets: Annotated[int, Setting("Maximum boxes per image.", _BOXES, min=1)] = 300
    allow_unverified: AllowUnverified = False
