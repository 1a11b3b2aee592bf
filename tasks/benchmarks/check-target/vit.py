"""Export ViT-B/16 with random weights to ONNX: `python vit.py FILE`. Needs torch and transformers."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification

BATCH = {0: "batch"}


class Logits(nn.Module):
    """A classifier that returns its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return [batch, classes]."""
        logits: Tensor = self._model(images).logits
        return logits


def main(path: Path) -> None:
    """Write the file: images [batch, 3, 224, 224], logits [batch, 1000], opset 17."""
    torch.manual_seed(0)
    config = ViTConfig(num_labels=1000, attn_implementation="eager")  # the library's defaults are those of ViT-B/16
    model = Logits(ViTForImageClassification(config)).eval()
    torch.onnx.export(
        model,
        (torch.zeros(2, 3, 224, 224),),
        str(path),
        input_names=["images"],
        output_names=["logits"],
        dynamic_axes={"images": BATCH, "logits": BATCH},
        opset_version=17,
        dynamo=False,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
