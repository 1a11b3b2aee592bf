"""Export trained weights to ONNX: `python export.py weights.safetensors shapes-yolov10.onnx`."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path

import onnx
import torch
from model import IMAGE_SIZE, STRIDES, Deployed, ShapesYolov10
from safetensors.torch import load_model
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from trt_workbench.vision.scenes.scenes import CLASSES

OPSET = 17
"""The newest that TensorRT 8.6 reads in full."""
METADATA = {
    "description": "Small YOLOv10-style detector of shapes in generated scenes",
    "author": "trt-workbench",
    "license": "Apache-2.0",
    "version": "1",
    "family": "yolov10",
    "task": "detect",
    "stride": str(max(STRIDES)),
    "batch": "1",
    "imgsz": str([IMAGE_SIZE, IMAGE_SIZE]),
    "names": str(dict(enumerate(CLASSES))),
    "end2end": "True",
}
"""metadata_props, with the keys and forms that Ultralytics' exporter writes, so that tools recognise the model."""


def fold(model: nn.Module) -> None:
    """Fold every batch normalisation into the convolution before it; the model is changed."""
    model.eval()
    for block in model.modules():
        if (
            isinstance(block, nn.Sequential)
            and isinstance(block[0], nn.Conv2d)
            and isinstance(block[1], nn.BatchNorm2d)
        ):
            block[0], block[1] = fuse_conv_bn_eval(block[0], block[1]), nn.Identity()


def converted(model: nn.Module, size: int, name: str, metadata: dict[str, str], outputs: int = 1) -> onnx.ModelProto:
    """Return a model of `images` to `output0` and so on as ONNX, batch dynamic.

    Args:
        model: on the CPU, ready to be deployed.
        size: height and width of its images.
        name: of the graph.
        metadata: metadata_props of the file.
        outputs: how many it has.
    """
    made, names = io.BytesIO(), [f"output{place}" for place in range(outputs)]
    with warnings.catch_warnings():
        # The exporter that runs without onnxscript and writes static shapes; torch calls it the older one.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            model,
            (torch.zeros(2, 3, size, size),),
            made,
            input_names=["images"],
            output_names=names,
            dynamic_axes={name: {0: "batch"} for name in ("images", *names)},
            opset_version=OPSET,
            dynamo=False,
        )
    document = onnx.load_from_string(made.getvalue())
    document.graph.name = name
    onnx.helper.set_model_props(document, metadata)
    return document


def write(document: onnx.ModelProto, path: Path) -> None:
    """Check a model in full, and write it."""
    onnx.checker.check_model(document, full_check=True)
    onnx.save(document, path)


def export(model: ShapesYolov10, path: Path) -> None:
    """Write the one-to-one detector as ONNX.

    Args:
        model: trained weights, on the CPU. The one-to-many head is left out of the file; the model is changed.
        path: the file to write.
    """
    fold(model)
    deployed = Deployed(model).eval()
    document = converted(deployed, IMAGE_SIZE, "shapes-yolov10", METADATA)
    # The exporter names the second dimension; it is a constant.
    document.graph.output[0].type.tensor_type.shape.dim[1].dim_value = deployed.detections
    write(document, path)


def main() -> None:
    """Read weights, write ONNX."""
    weights, path = (Path(argument) for argument in sys.argv[1:])
    model = ShapesYolov10(len(CLASSES))
    load_model(model, str(weights))
    export(model, path)


if __name__ == "__main__":
    main()
