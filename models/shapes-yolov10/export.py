"""Export trained weights to ONNX: `python export.py weights.safetensors shapes-yolov10.onnx`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import onnx
import torch
from model import IMAGE_SIZE, STRIDES, ConvBN, Deployed, ShapesYolov10
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


def export(model: ShapesYolov10, path: Path) -> None:
    """Write the one-to-one detector as ONNX, batch dynamic, batch normalisation folded into the convolutions.

    Args:
        model: trained weights, on the CPU. The one-to-many head is left out of the file; the model is changed.
        path: the file to write.
    """
    model.eval()
    for block in model.modules():
        if isinstance(block, ConvBN):
            block[0], block[1] = fuse_conv_bn_eval(block[0], block[1]), nn.Identity()
    deployed = Deployed(model).eval()
    with warnings.catch_warnings():
        # The exporter that runs without onnxscript and writes static shapes; torch calls it the older one.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            deployed,
            (torch.zeros(2, 3, IMAGE_SIZE, IMAGE_SIZE),),
            str(path),
            input_names=["images"],
            output_names=["output0"],
            dynamic_axes={"images": {0: "batch"}, "output0": {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,
        )
    document = onnx.load(path)
    document.graph.name = "shapes-yolov10"
    # The exporter names the second dimension; it is a constant.
    document.graph.output[0].type.tensor_type.shape.dim[1].dim_value = deployed.detections
    onnx.helper.set_model_props(document, METADATA)
    onnx.checker.check_model(document, full_check=True)
    onnx.save(document, path)


def main() -> None:
    """Read weights, write ONNX."""
    weights, path = (Path(argument) for argument in sys.argv[1:])
    model = ShapesYolov10(len(CLASSES))
    load_model(model, str(weights))
    export(model, path)


if __name__ == "__main__":
    main()
