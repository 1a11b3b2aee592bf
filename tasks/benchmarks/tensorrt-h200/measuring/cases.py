"""What is measured: engines, the pairs of runs beside trtexec, and the targets."""

from __future__ import annotations

from dataclasses import dataclass, field

# The libraries that TensorRT 8.6 could take kernels from besides its own; switched off, so that none is needed.
TACTIC_SOURCES = ("-CUBLAS", "-CUBLAS_LT", "-CUDNN")


@dataclass(frozen=True)
class EngineCase:
    """One engine.

    Attributes:
        model: file name, looked for in the folders given on the command line.
        precision: as `build-engine --precision` takes it.
        profiles: optimisation profiles; empty for a model of fixed shapes.
        shapes: input shapes of a run, for inputs that are dynamic.
        level: optimisation level; None for TensorRT's default, 3.
        tactic_sources: switched off.
    """

    model: str
    precision: str
    profiles: tuple[str, ...] = ()
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    level: int | None = None
    tactic_sources: tuple[str, ...] = TACTIC_SOURCES


def _classifier(model: str, precision: str, batch: int) -> EngineCase:
    return EngineCase(f"{model}-b{batch}.onnx", precision)


def _detector(model: str, precision: str, level: int | None = 1, profile: str = "") -> EngineCase:
    # With its defaults TensorRT 8.6 builds one in fp16 for many minutes, and at level 1 alone longer than 150 s.
    sources = (*TACTIC_SOURCES, "-JIT_CONVOLUTIONS")
    return EngineCase(model, precision, (profile,) if profile else (), level=level, tactic_sources=sources)


# In the order in which they are built: what the pairs need comes first.
ENGINES = {
    "resnet50-b1-fp16": _classifier("resnet50", "fp16", 1),
    "vit-b1-fp16": _classifier("vit_b_16", "fp16", 1),
    "vit-b64-fp16": _classifier("vit_b_16", "fp16", 64),
    "vit-b64-fp32": _classifier("vit_b_16", "fp32", 64),
    "yolox-nano-fp32": _detector("yolox_nano.onnx", "fp32"),
    "yolox-nano-fp16": _detector("yolox_nano.onnx", "fp16"),
    "shapes-fp32": _detector("shapes-yolov10.onnx", "fp32"),
    "shapes-fp16": _detector("shapes-yolov10.onnx", "fp16"),
    "resnet18-dynamic-fp16": EngineCase(
        "resnet18_hw.onnx",
        "fp16",
        (
            "input:1x3x160x160/1x3x224x224/4x3x288x288",
            "input:8x3x160x160/16x3x224x224/16x3x288x288",
        ),
        {"input": (1, 3, 224, 224)},
    ),
    "yolov10m-fp16": _detector("yolov10m.onnx", "fp16"),
    "shapes-fp16-b1": _detector("shapes-yolov10.onnx", "fp16", profile="images:1x3x320x320"),
    "yolov10m-fp16-b1": _detector("yolov10m.onnx", "fp16", profile="images:1x3x640x640"),
    # Its Concats read a tensor where they read all its pieces; the rewrite that made it gained nothing and is gone.
    "shapes-collapsed-fp16": _detector("shapes-yolov10-collapsed.onnx", "fp16"),
    # How much preprocessing can save depends on the engine. Beside other builds the first took 517 s; the second had
    # not ended after 600 s, nor either of them with just-in-time convolutions after 420 s.
    "shapes-fp16-level3": _detector("shapes-yolov10.onnx", "fp16", None),
    "yolov10m-fp16-level3": _detector("yolov10m.onnx", "fp16", None),
    "resnet50-b1-fp32": _classifier("resnet50", "fp32", 1),
    "yolov10m-fp32": _detector("yolov10m.onnx", "fp32"),
}
# A dynamic batch of a detector: one image for latency, up to eight for evaluation.
DETECTOR_BATCHES = (1, 1, 8)


@dataclass(frozen=True)
class PairCase:
    """One configuration that trtexec and the workbench both measure on the same plan."""

    engine: str
    graph: bool = True
    streams: int = 1


PAIRS = {
    "resnet50-b1-fp16": PairCase("resnet50-b1-fp16"),
    "resnet50-b1-fp16-2-streams": PairCase("resnet50-b1-fp16", streams=2),
    "resnet50-b1-fp16-no-graph": PairCase("resnet50-b1-fp16", graph=False),
    "vit-b1-fp16": PairCase("vit-b1-fp16"),
    "vit-b64-fp16": PairCase("vit-b64-fp16"),
    "vit-b64-fp32": PairCase("vit-b64-fp32"),
    "yolox-nano-fp16": PairCase("yolox-nano-fp16"),
    "yolox-nano-fp32": PairCase("yolox-nano-fp32"),
    "shapes-fp16": PairCase("shapes-fp16"),
    "resnet18-dynamic-fp16": PairCase("resnet18-dynamic-fp16"),
}

# Measured with trtexec 8.6.0 on an H200 earlier: compute ms, latency ms, queries a second. None where not taken.
ANCHORS: dict[str, tuple[float | None, float | None, float | None]] = {
    "resnet50-b1-fp16": (0.501, 0.520, 1989.0),
    "resnet50-b1-fp16-2-streams": (None, None, 2799.0),
    "resnet50-b1-fp16-no-graph": (0.593, None, None),
    "vit-b1-fp16": (0.598, 0.616, None),
    "vit-b64-fp16": (7.37, 8.08, 134.9),
}

LATENCY_ENGINES = ("resnet50-b1-fp16", "vit-b1-fp16", "vit-b64-fp16", "shapes-fp16")
CONTEXT_ENGINES = ("resnet50-b1-fp16", "vit-b1-fp16")
SLOT_ENGINES = ("resnet50-b1-fp16", "vit-b64-fp16")
IMAGE_ENGINES = (
    *(f"{model}-fp16{kind}" for model in ("shapes", "yolov10m") for kind in ("", "-b1", "-level3")),
    "shapes-collapsed-fp16",
)
IMAGE_SIZES = ((480, 640), (720, 1280), (1080, 1920))
SOAK_ENGINE = "resnet18-dynamic-fp16"
THREADS_ENGINE = "resnet50-b1-fp16"

MOST_RATIO = 1.005
LEAST_THROUGHPUT_RATIO = 0.995
MOST_PYTHON_EXCESS_US = 20.0
LEAST_SLOT_RATIO = 0.97
LEAST_PREPROCESS_SPEEDUP = 2.0
MOST_AP_DIFFERENCE = {"fp32": 0.001, "fp16": 0.003}
