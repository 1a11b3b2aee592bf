"""Networks of PyTorch with random weights, small enough to be built in seconds, and their export to ONNX (opset 17).

The architectures are those of transformers; what is reduced (depth, width, image size) stands in `table.py`. Vectors
get noise, as fresh biases and scales are all equal and the exporter shares equal tensors.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

OPSET = 17
BATCH = {0: "batch"}
TEXT = {0: "batch", 1: "sequence"}
SIDE = 64  # of images, pixels


@dataclass(frozen=True)
class Export:
    """A network, the inputs that it is traced with by name, the names of its outputs, and free dimensions by tensor."""

    network: nn.Module
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]
    axes: dict[str, dict[int, str]]

    def write(self, path: Path) -> None:
        """Write the ONNX file."""
        from trt_workbench.backends.torch.llm_model import quiet_transformers
        from trt_workbench.llm.graphs import traceable_masks

        with torch.no_grad(), warnings.catch_warnings(), traceable_masks(padded=True), quiet_transformers():
            warnings.simplefilter("ignore")  # of every Python number that becomes a constant: verify decides
            torch.onnx.export(
                self.network.eval(), tuple(self.inputs.values()), str(path), input_names=list(self.inputs),
                output_names=list(self.outputs), dynamic_axes=self.axes, opset_version=OPSET, dynamo=False,
            )  # fmt: skip


class Calls(nn.Module):
    """A network of transformers whose outputs are named, called with tensors by position."""

    def __init__(self, network: nn.Module, inputs: tuple[str, ...], outputs: tuple[str, ...], **fixed: Any) -> None:
        super().__init__()
        self.network, self._inputs, self._outputs, self._fixed = network, inputs, outputs, fixed

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the named outputs."""
        found = self.network(**dict(zip(self._inputs, tensors, strict=True)), **self._fixed)
        return tuple(getattr(found, name) for name in self._outputs)


class Bert(nn.Module):
    """A BERT whose mask of ones and zeros is made into one that is added to the scores."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return hidden states [B,S,H] and pooled ones [B,H] of int64 [B,S]."""
        bias = (1.0 - attention_mask.to(torch.float32))[:, None, None, :] * -1e4  # finite in fp16
        found = self.bert(input_ids=input_ids, attention_mask=bias, token_type_ids=token_type_ids)
        return found.last_hidden_state, found.pooler_output


class Conformer(nn.Module):
    """Blocks of a FastConformer, without its subsampling: half feed-forwards, relative attention, a convolution.

    Gulati et al. 2020 (arXiv:2005.08100), Rekesh et al. 2023 (arXiv:2305.05084: depthwise kernel of 9); the relative
    scores are those of Dai et al. 2019 (arXiv:1901.02860).
    """

    def __init__(self, width: int, heads: int, blocks: int, kernel: int = 9) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ConformerBlock(width, heads, kernel) for _ in range(blocks))
        self.width = width

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return [B,T,C] of features [B,T,C] and how many of each row are no padding, int64 [B]."""
        time = x.shape[1]
        padded = torch.arange(time)[None, :] >= lengths[:, None]
        distance = torch.arange(time - 1, -time, -1, dtype=torch.float32)
        rate = torch.exp(torch.arange(0, self.width, 2) * (-math.log(10000.0) / self.width))
        angle = distance[:, None] * rate[None, :]
        positions = torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[None]
        for block in self.blocks:
            x = block(x, positions, padded)
        return x


class ConformerBlock(nn.Module):
    """One block; see `Conformer`."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.before, self.after = (_feed_forward(width) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.position = nn.Linear(width, width, bias=False)
        self.content_bias, self.position_bias = (nn.Parameter(torch.zeros(heads, self.size)) for _ in range(2))
        self.gated, self.mixed = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor, positions: Tensor, padded: Tensor) -> Tensor:
        """Return [B,T,C] of x [B,T,C], positions [1,2T-1,C], and what is padding, bool [B,T]."""
        x = x + 0.5 * self.before(self.norms[0](x))
        x = x + self._attention(self.norms[1](x), positions, padded)
        x = x + self._convolution(self.norms[2](x), padded)
        x = x + 0.5 * self.after(self.norms[3](x))
        return self.norms[4](x)

    def _attention(self, x: Tensor, positions: Tensor, padded: Tensor) -> Tensor:
        batch, time = x.shape[:2]
        split = (batch, time, self.heads, self.size)
        query = self.query(x).view(split)
        key, value = (layer(x).view(split).transpose(1, 2) for layer in (self.key, self.value))
        place = self.position(positions).view(1, -1, self.heads, self.size).transpose(1, 2)
        content = (query + self.content_bias).transpose(1, 2) @ key.transpose(-2, -1)
        relative = (query + self.position_bias).transpose(1, 2) @ place.transpose(-2, -1)
        # the shift of arXiv:1901.02860: row i begins at distance i
        relative = nn.functional.pad(relative, (1, 0)).view(batch, self.heads, -1, time)
        relative = relative[:, :, 1:].reshape(batch, self.heads, time, 2 * time - 1)[..., :time]
        scores = (content + relative) / math.sqrt(self.size)
        hidden = padded[:, None, None, :]
        share = scores.masked_fill(hidden, -1e4).softmax(-1).masked_fill(hidden, 0.0)
        return self.out((share @ value).transpose(1, 2).reshape(batch, time, -1))

    def _convolution(self, x: Tensor, padded: Tensor) -> Tensor:
        x = nn.functional.glu(self.gated(x.transpose(1, 2)), dim=1).masked_fill(padded[:, None, :], 0.0)
        return self.mixed(nn.functional.silu(self.batch_norm(self.depthwise(x)))).transpose(1, 2)


def _feed_forward(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))


def distinct(network: nn.Module) -> nn.Module:
    """Add noise to vectors."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.02)
    return network


def settled(network: nn.Module, *example: Tensor) -> nn.Module:
    """Take batch norms' statistics from a batch of noise, so that values keep their size from layer to layer."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        network.train()(*example)
    return network


def images(network: nn.Module, *outputs: str, side: int = SIDE, norms: bool = False, **fixed: Any) -> Export:
    """Return the export of a network of transformers for images [B,3,side,side]."""
    called: nn.Module = Calls(distinct(network), ("pixel_values",), outputs, **fixed)
    if norms:
        called = settled(called, torch.rand(4, 3, side, side))
    return Export(called, {"images": torch.rand(2, 3, side, side)}, outputs, dict.fromkeys(("images", *outputs), BATCH))


def resnet50() -> Export:
    """ResNet-50 whole, on small images."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return images(ResNetForImageClassification(ResNetConfig()), "logits", norms=True)


def vit() -> Export:
    """ViT, four of twelve layers, half as wide."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536, image_size=SIDE,
        patch_size=16, num_labels=100, attn_implementation="eager",
    )  # fmt: skip
    return images(ViTForImageClassification(config), "logits")


def segformer() -> Export:
    """SegFormer b0 whole, on small images."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(num_labels=19, attn_implementation="eager")
    return images(SegformerForSemanticSegmentation(config), "logits", norms=True)


def swin() -> Export:
    """Swin, two of its four stages, windows of 4."""
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        image_size=SIDE, patch_size=4, embed_dim=48, depths=[2, 2], num_heads=[3, 6], window_size=4, num_labels=100,
        attn_implementation="eager",
    )  # fmt: skip
    return images(SwinForImageClassification(config), "logits")


def detr() -> Export:
    """DETR, two layers of six each in encoder and decoder, a narrow ResNet of basic blocks before them."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(
        embedding_size=32, hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage4"],
    )  # fmt: skip
    config = DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=128,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
        decoder_ffn_dim=256, num_queries=20, num_labels=10, attn_implementation="eager",
    )  # fmt: skip
    return images(DetrForObjectDetection(config), "logits", "pred_boxes", side=2 * SIDE, norms=True)


def whisper() -> Export:
    """Whisper's encoder, two of four layers of its smallest, one second of sound."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=192, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=768, max_source_positions=50,
        attn_implementation="eager",
    )  # fmt: skip
    network = Calls(distinct(WhisperEncoder(config)), ("input_features",), ("last_hidden_state",))
    example = {"input_features": torch.randn(2, config.num_mel_bins, 100)}
    return Export(network, example, ("state",), {"input_features": BATCH, "state": BATCH})


def bert() -> Export:
    """BERT, three of twelve layers, a quarter as wide."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=192, num_hidden_layers=3, num_attention_heads=3, intermediate_size=768, vocab_size=1000,
        max_position_embeddings=64, attn_implementation="eager",
    )  # fmt: skip
    ids = torch.randint(0, 256, (2, 7))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    axes = {**dict.fromkeys((*inputs, "state"), TEXT), "pooled": BATCH}
    return Export(Bert(distinct(BertModel(config))), inputs, ("state", "pooled"), axes)


def conformer() -> Export:
    """Two blocks of a FastConformer, 128 wide."""
    network = distinct(Conformer(128, 4, 2))
    for parameter in network.parameters():
        if parameter.ndim == 2 and parameter.shape[0] == 4:  # the biases of relative attention begin at zero
            nn.init.normal_(parameter, std=0.5)
    inputs = {"features": torch.randn(2, 11, 128), "lengths": torch.tensor([11, 6])}
    settled(network, *inputs.values())
    free = {0: "batch", 1: "time"}
    return Export(network, inputs, ("encoded",), {"features": free, "lengths": BATCH, "encoded": free})


NETWORKS: dict[str, Callable[[], Export]] = {
    "resnet50": resnet50,
    "vit": vit,
    "bert": bert,
    "segformer": segformer,
    "swin": swin,
    "detr": detr,
    "whisper-encoder": whisper,
    "fastconformer": conformer,
}

_SIZE = {"vocab_size": 512, "bos_token_id": 0, "eos_token_id": 0}
_LLAMA = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, **_SIZE,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {**_LLAMA, "num_key_value_heads": 2},
    "opt": {
        "hidden_size": 128, "ffn_dim": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "word_embed_proj_dim": 128, "max_position_embeddings": 64, "pad_token_id": 1, **_SIZE,
    },
    "gpt2": {"n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 64, **_SIZE},
    "qwen2": {**_LLAMA, "num_key_value_heads": 1},
    "mistral": {**_LLAMA, "num_key_value_heads": 2, "sliding_window": 8},
}  # fmt: skip
SLOTS = 16


def write_language_model(family: str, kind: str, path: Path, *, mask_for_each_row: bool = False) -> None:
    """Write a graph of a random language model, or of the one in a folder, as the product exports it.

    Args:
        family: of FAMILIES, or a folder in Hugging Face's format.
        kind: of `export_graph`.
        path: the ONNX file.
        mask_for_each_row: write the mask of step and static graphs as [B,1,Q,K], as the product did before it knew of
            TensorRT 8.6's fault.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    from trt_workbench.backends.torch.llm_model import load_causal_lm, quiet_transformers
    from trt_workbench.llm import graphs
    from trt_workbench.llm.graph import SLOTTED, export_graph
    from trt_workbench.model.llm_directory import examine_llm_directory

    if family in FAMILIES:
        with quiet_transformers():
            config = AutoConfig.for_model(family, **FAMILIES[family])
            model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        with torch.no_grad():  # large enough for the logits to differ between tokens
            for weight in model.parameters():
                if weight.ndim > 1:
                    weight.normal_(0, 0.1)
        model = model.eval()
    else:
        model = load_causal_lm(examine_llm_directory(Path(family)))
    with patch.object(graphs, "_mask_of_all", graphs._mask) if mask_for_each_row else nullcontext():
        export_graph(model, kind, path, opset=OPSET, cache_length=SLOTS if kind in SLOTTED else None)
