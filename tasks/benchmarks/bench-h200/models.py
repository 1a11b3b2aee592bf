"""Export the measured models to ONNX (opset 17): timm's classifiers, BERT-base, MiniLM.

    python models.py FOLDER [NAME ...] [--minilm FOLDER]

Needs torch, timm and transformers. All weights but MiniLM's are random, which measures speed, not accuracy: the batch
norms' statistics come from a batch of noise, so that the values stay finite in fp16. MiniLM is a folder of
sentence-transformers/all-MiniLM-L6-v2.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

OPSET = 17
BATCH = {0: "batch"}
SIDES = {0: "batch", 2: "height", 3: "width"}
TEXT = ("input_ids", "attention_mask", "token_type_ids")
TOKENS = {0: "batch_size", 1: "sequence_length"}


@dataclass(frozen=True)
class Export:
    """One file: its model, names, free dimensions and the inputs that it is traced with."""

    build: Callable[[], nn.Module]
    inputs: tuple[str, ...]
    output: str
    axes: dict[str, dict[int, str]]
    example: tuple[Tensor, ...]


def classifier(name: str) -> nn.Module:
    """Return a classifier of timm whose attention is written out: opset 17 has no operator of it."""
    import timm
    from timm.layers import set_fused_attn

    set_fused_attn(False)
    model: nn.Module = timm.create_model(name, pretrained=False)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        nn.init.ones_(norm.weight)  # timm begins with zeros in the last of a residual block
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            model.train()(torch.randn(4, 3, 224, 224))
    return distinct(model).eval()


class Encoder(nn.Module):
    """A BERT that takes a mask of ones and zeros, made into one that is added to the attention's scores."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Return the last hidden state [B,S,H] of token ids, mask and types, each int64 [B,S]."""
        # -1e4 is finite in fp16
        bias = (1.0 - attention_mask.to(torch.float32))[:, None, None, :] * -1e4
        found = self.bert(input_ids=input_ids, attention_mask=bias, token_type_ids=token_type_ids, use_cache=False)
        state: Tensor = found.last_hidden_state
        return state


def encoder(folder: Path | None = None) -> nn.Module:
    """Return the encoder in a folder of Hugging Face's format; BERT-base with random weights without one."""
    from transformers import BertConfig, BertModel

    if folder is not None:
        given: Any = {"add_pooling_layer": False, "attn_implementation": "eager", "local_files_only": True}
        return Encoder(BertModel.from_pretrained(folder, **given)).eval()
    config = BertConfig()
    config._attn_implementation = "eager"  # written out, as above
    return Encoder(distinct(BertModel(config, add_pooling_layer=False))).eval()


def distinct(model: nn.Module) -> nn.Module:
    """Add noise to vectors: the exporter shares equal tensors, and fresh biases and scales are all equal."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


def exports(minilm: Path | None) -> dict[str, Export]:
    """Return every file by its name."""

    def images(name: str, batch: int, free: dict[int, str], tensor: str = "images") -> Export:
        axes = {tensor: free, "logits": BATCH} if free else {}
        return Export(lambda: classifier(name), (tensor,), "logits", axes, (torch.randn(batch, 3, 224, 224),))

    def text(folder: Path | None) -> Export:
        ids = torch.randint(1000, 30000, (2, 16))
        axes = dict.fromkeys((*TEXT, "last_hidden_state"), TOKENS)
        example = (ids, torch.ones_like(ids), torch.zeros_like(ids))
        return Export(lambda: encoder(folder), TEXT, "last_hidden_state", axes, example)

    found = {
        "resnet50": images("resnet50", 2, BATCH),
        "vit_b_16": images("vit_base_patch16_224", 2, BATCH),
        "bert-base": text(None),
        "resnet50-b1": images("resnet50", 1, {}, "input"),
        "vit_b_16-b1": images("vit_base_patch16_224", 1, {}, "input"),
        "vit_b_16-b64": images("vit_base_patch16_224", 64, {}, "input"),
        "resnet18_hw": images("resnet18", 2, SIDES, "input"),
    }
    return {**found, "minilm": text(minilm)} if minilm else found


def main() -> int:
    """Export what is asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--minilm", type=Path, help="folder with config.json and model.safetensors")
    options = parser.parse_args()
    known = exports(options.minilm)
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or known:
        started, chosen = time.monotonic(), known[name]
        torch.manual_seed(0)
        path = options.folder / f"{name}.onnx"
        with torch.no_grad():
            torch.onnx.export(
                chosen.build(), chosen.example, str(path), input_names=list(chosen.inputs),
                output_names=[chosen.output], dynamic_axes=chosen.axes, opset_version=OPSET, dynamo=False,
            )  # fmt: skip
        sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {time.monotonic() - started:.1f} s\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
