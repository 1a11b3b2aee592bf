"""A small cache-aware streaming encoder: a FastConformer whose attention and convolutions look back only.

The structure is that of NeMo's cache-aware FastConformer (Noroozi et al., "Stateful Conformer with cache-based
inference for streaming automatic speech recognition", 2024): x8 convolutional subsampling, then blocks of half a
feed-forward network, self-attention with relative positions (Transformer-XL) over a limited left context, a causal
depthwise convolution, and the other half. Attention sees no later frame, so that a stream cut into chunks of any size
gives what one pass over the whole gives.

Written for exporters and TensorRT 8.6: positions are slices of constant tables instead of ranges, the relative shift
pads by concatenation, integers are compared as floats, and a length is bounded by a minimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SUBSAMPLING, LEFT_FRAMES = 8, 9
"""Feature frames of an output frame, and the earlier ones that a chunk begins with."""
MASKED = -1e4


@dataclass(frozen=True)
class Size:
    """How large an encoder is; `frames` is the most output frames of a chunk."""

    layers: int = 3
    width: int = 64
    heads: int = 4
    features: int = 80
    channels: int = 16
    context: int = 70
    kernel: int = 9
    symbols: int = 20
    frames: int = 128


class Subsampling(nn.Module):
    """Three convolutions of stride 2: [B, F, T] to [B, To, D], To = (T - 9) / 8. Time is not padded."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        wide, pad = size.channels, (1, 0)
        self.layers = nn.Sequential(
            nn.Conv2d(1, wide, 3, 2, pad),
            nn.ReLU(),
            nn.Conv2d(wide, wide, 3, 2, pad, groups=wide),
            nn.Conv2d(wide, wide, 1),
            nn.ReLU(),
            nn.Conv2d(wide, wide, 3, 2, pad, groups=wide),
            nn.Conv2d(wide, wide, 1),
            nn.ReLU(),
        )
        self.out = nn.Linear(wide * size.features // SUBSAMPLING, size.width)

    def forward(self, signal: Tensor) -> Tensor:
        """Return frames of [B, F, T]."""
        seen = self.layers(signal.unsqueeze(1))  # [B, channels, F/8, To]
        return self.out(seen.flatten(1, 2).transpose(1, 2))


class FeedForward(nn.Sequential):
    """Normalisation and two layers, four times as wide between them."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))


class Attention(nn.Module):
    """Self-attention with relative positions; what it attends to begins with the cache."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width, self.heads, self.size = size.width, size.heads, size.width // size.heads
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.position = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(size.heads, self.size))
        self.position_bias = nn.Parameter(torch.zeros(size.heads, self.size))

    def forward(self, x: Tensor, cache: Tensor, positions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Take x [B, To, D], cache [B, C, D], positions [C+To, D] farthest first, mask [B, 1, To, C+To]."""
        new = self.norm(x)
        context = torch.cat([cache, new], 1)
        query = self._split(self.query(new))
        key, value = self._split(self.key(context)), self._split(self.value(context))
        place = self.position(positions).reshape(-1, self.heads, self.size).transpose(0, 1)
        content = (query + self.content_bias.unsqueeze(1)) @ key.transpose(-1, -2)
        relative = shifted(self._beside(query + self.position_bias.unsqueeze(1), place))
        scores = (content + relative) * (1 / math.sqrt(self.size))
        weights = torch.where(mask, scores, torch.tensor(MASKED, dtype=scores.dtype)).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).flatten(2)
        return x + self.out(mixed), context[:, -cache.shape[1] :]

    def _beside(self, query: Tensor, place: Tensor) -> Tensor:
        """Return the products of queries [B, H, To, d] with positions [H, R, d].

        Streams and rows are one axis: TensorRT 8.6 captures no CUDA graph of a product of which one operand is for all
        streams while their number is free.
        """
        rows = query.transpose(0, 1).reshape(self.heads, -1, self.size) @ place.transpose(-1, -2)
        return rows.reshape(self.heads, query.shape[0], -1, place.shape[1]).transpose(0, 1)

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1, self.heads, self.size).transpose(1, 2)


def shifted(scores: Tensor) -> Tensor:
    """Move row i of [B, H, To, R] to the left by To-1-i, so that a column is a key instead of a distance.

    What comes in from the right belongs to later keys and is masked.
    """
    _, heads, rows, _ = scores.shape
    flat = torch.cat([scores[..., :1], scores], -1).flatten(2)[..., rows:]
    return flat.reshape(flat.shape[0], heads, rows, -1)


class Convolution(nn.Module):
    """Gated pointwise, causal depthwise and pointwise convolution; the cache holds the K frames before the chunk."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, 2 * width)
        self.depthwise = nn.Conv1d(width, width, size.kernel, groups=width)
        self.middle, self.out = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        """Take x [B, To, D] and cache [B, D, K]."""
        gated, width = self.gate(self.norm(x)), self.out.in_features
        gated = gated[..., :width] * gated[..., width:].sigmoid()
        window = torch.cat([cache, gated.transpose(1, 2)], 2)
        seen = self.depthwise(window).transpose(1, 2)
        return x + self.out(nn.functional.silu(self.middle(seen))), window[:, :, -cache.shape[2] :]


class Block(nn.Module):
    """One layer of the encoder."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.first, self.second = FeedForward(size.width), FeedForward(size.width)
        self.attention, self.convolution = Attention(size), Convolution(size)
        self.norm = nn.LayerNorm(size.width)

    def forward(
        self, x: Tensor, channel: Tensor, time: Tensor, positions: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return frames and the two caches."""
        x = x + self.first(x) / 2
        x, channel = self.attention(x, channel, positions, mask)
        x, time = self.convolution(x, time)
        return self.norm(x + self.second(x) / 2), channel, time


class StreamingEncoder(nn.Module):
    """Features and caches in, frames, logits and caches out.

    Attributes:
        layers_first: whether caches are [L, B, …] instead of [B, L, …].
    """

    positions: Tensor
    steps: Tensor

    def __init__(self, size: Size, *, layers_first: bool = False) -> None:
        super().__init__()
        self.size, self.layers_first = size, layers_first
        self.subsampling = Subsampling(size)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.head = nn.Linear(size.width, size.symbols)
        longest = size.context + size.frames
        distances = torch.arange(longest - 1, -1, -1.0)[:, None]
        rates = torch.exp(torch.arange(0, size.width, 2) * (-math.log(1e4) / size.width))
        table = torch.stack([torch.sin(distances * rates), torch.cos(distances * rates)], -1).flatten(1)
        self.register_buffer("positions", table, persistent=False)
        most = max(longest, SUBSAMPLING * size.frames + LEFT_FRAMES)
        self.register_buffer("steps", torch.arange(float(most)), persistent=False)

    def empty_state(self, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the state that a stream begins with."""
        size = self.size
        lead = (size.layers, batch) if self.layers_first else (batch, size.layers)
        channel = torch.zeros(*lead, size.context, size.width)
        return channel, torch.zeros(*lead, size.width, size.kernel - 1), torch.zeros(batch, dtype=torch.int64)

    def forward(
        self, audio_signal: Tensor, length: Tensor, channel: Tensor, time: Tensor, cached: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Encode a chunk.

        Args:
            audio_signal: [B, 80, T], T = 8 To + 9: nine frames of the chunk before, then the chunk.
            length: frames of it that are no padding, [B].
            channel: what attention saw last, [B, L, C, D], the newest at the end.
            time: what the convolutions saw last, [B, L, D, K].
            cached: frames of `channel` that are filled, [B].

        Returns:
            encoded [B, D, To], encoded_lengths [B], logits [B, To, V], and the three caches for the next chunk.
        """
        steps = self.steps
        heard = steps[: audio_signal.shape[2]] < length.unsqueeze(1).to(steps.dtype)
        signal = torch.where(heard.unsqueeze(1), audio_signal, torch.tensor(0, dtype=audio_signal.dtype))
        x = self.subsampling(signal)
        frames, context = x.shape[1], self.size.context
        positions = self.positions[self.size.frames - frames :]
        distance = steps[:frames].unsqueeze(1) + context - steps[: context + frames]
        near = (distance >= 0) & (distance <= context)
        filled = steps[: context + frames] >= (context - cached.unsqueeze(1).to(steps.dtype))
        mask = near & filled[:, None, None, :]
        axis = 0 if self.layers_first else 1
        channels, times = [], []
        for block, one, other in zip(self.blocks, channel.unbind(axis), time.unbind(axis), strict=True):
            x, one, other = block(x, one, other, positions, mask)
            channels.append(one)
            times.append(other)
        encoded_lengths = length // SUBSAMPLING - 1
        filled_next = torch.minimum(cached + frames, torch.tensor(context))
        return (
            x.transpose(1, 2),
            encoded_lengths,
            self.head(x),
            torch.stack(channels, axis),
            torch.stack(times, axis),
            filled_next,
        )
