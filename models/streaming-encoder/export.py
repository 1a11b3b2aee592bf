"""Export trained weights to ONNX: `python export.py weights.safetensors streaming-encoder.onnx [--layers-first]`."""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import onnx
import torch
from model import LEFT_FRAMES, SUBSAMPLING, Size, StreamingEncoder
from safetensors.torch import load_model
from torch import Tensor

from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.sanitize import sanitize
from trt_workbench.model.weights import save_model

OPSET = 17
"""The newest that TensorRT 8.6 reads in full."""
INPUTS = ("audio_signal", "length", "cache_last_channel", "cache_last_time", "cache_last_channel_len")
OUTPUTS = ("encoded", "encoded_lengths", "logits", *(f"{name}_next" for name in INPUTS[2:]))
REWRITES = ("fold-shapes", "fold-constants", "copy-sizes", "clamp-int64", "remove-unused")
"""Of `trtw sanitize-onnx`: what is known before running is no computation."""
METADATA = {
    "description": "Small cache-aware streaming encoder of a code of tones",
    "author": "trt-workbench",
    "license": "Apache-2.0",
    "version": "1",
    "sample_rate": "16000",
}
"""metadata_props of the file."""


def example(model: StreamingEncoder) -> tuple[Tensor, ...]:
    """Return inputs to trace with: a batch of two, chunks of seven frames, a cache that is partly filled."""
    frames = 7 * SUBSAMPLING + LEFT_FRAMES
    channel, time, _ = model.empty_state(2)
    return (
        torch.randn(2, model.size.features, frames),
        torch.tensor([frames, frames]),
        channel,
        time,
        torch.tensor([0, 9]),
    )


def export(model: StreamingEncoder, path: Path) -> None:
    """Write the encoder as ONNX with any batch and any length of a chunk; weights above 2 GB go to a file beside it.

    Args:
        model: trained weights, on the CPU.
        path: the file to write.
    """
    batch = 1 if model.layers_first else 0
    axes = {"audio_signal": {0: "B", 2: "T"}, "length": {0: "B"}, "encoded": {0: "B", 2: "To"}}
    axes |= {"encoded_lengths": {0: "B"}, "logits": {0: "B", 1: "To"}}
    caches = {"cache_last_channel": batch, "cache_last_time": batch, "cache_last_channel_len": 0}
    axes |= {f"{name}{end}": {axis: "B"} for name, axis in caches.items() for end in ("", "_next")}
    path.parent.mkdir(parents=True, exist_ok=True)
    # of a large model the exporter writes a file for each weight
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=path.parent) as folder, torch.no_grad():
        # the exporter that runs without onnxscript and keeps opset 17
        warnings.simplefilter("ignore", DeprecationWarning)
        # sizes of weights, and constants, are what the tracer takes them for
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        torch.onnx.export(
            model.eval(),
            example(model),
            str(Path(folder) / path.name),
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )
        document, _ = sanitize(Model.open(Path(folder) / path.name), REWRITES)
    document.graph.name = "streaming-encoder"
    shapes = {value.name: value.type.tensor_type.shape for value in [*document.graph.input, *document.graph.output]}
    for name in INPUTS[2:]:  # the exporter names next-cache dimensions after nodes
        shapes[f"{name}_next"].CopyFrom(shapes[name])
    shapes["encoded"].dim[1].dim_value = model.size.width
    shapes["logits"].dim[2].dim_value = model.size.symbols
    onnx.helper.set_model_props(document, METADATA)
    save_model(document, path)
    onnx.checker.check_model(path, full_check=True)  # of the file: a document above 2 GB cannot be checked


def main() -> None:
    """Read weights, write ONNX."""
    parser = argparse.ArgumentParser(description="Export trained weights to ONNX.")
    parser.add_argument("weights", type=Path)
    parser.add_argument("onnx", type=Path)
    parser.add_argument("--layers-first", action="store_true", help="caches [L, B, …] instead of [B, L, …]")
    options = parser.parse_args()
    model = StreamingEncoder(Size(), layers_first=options.layers_first)
    load_model(model, str(options.weights))
    export(model, options.onnx)


if __name__ == "__main__":
    main()
