"""A small decoder and joiner for the streaming encoder: token-and-duration transducer with a recurrent predictor.

The structure is that of NeMo's TDT models (Xu et al., "Efficient Sequence Transduction by Jointly Predicting Tokens and
Durations", 2023). The predictor's cell is written out, so that every runtime takes it and no loop is in the graph.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Decoder(nn.Module):
    """The predictor: one token, hidden and cell state in; features and states out."""

    def __init__(self, tokens: int, width: int = 48) -> None:
        """Make weights for so many tokens, of which the last is the blank: the start of a text."""
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(tokens, width)
        self.gates = nn.Linear(2 * width, 4 * width)

    def forward(self, targets: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take targets [B, 1], hidden and cell [B, D]; return features [B, D] and the states."""
        inward, keep, new, outward = self.gates(torch.cat([self.embedding(targets[:, 0]), hidden], 1)).chunk(4, 1)
        cell = keep.sigmoid() * cell + inward.sigmoid() * new.tanh()
        hidden = outward.sigmoid() * cell.tanh()
        return hidden, hidden, cell

    def over(self, tokens: Tensor) -> Tensor:
        """Return features [B, U, D] after each of the tokens [B, U]."""
        hidden = cell = torch.zeros(len(tokens), self.width)
        found = []
        for place in range(tokens.shape[1]):
            features, hidden, cell = self(tokens[:, place : place + 1], hidden, cell)
            found.append(features)
        return torch.stack(found, 1)


class Joiner(nn.Module):
    """A frame of the encoder and the predictor's features in; logits of tokens, then of durations, out."""

    def __init__(self, frame: int, features: int, tokens: int, durations: int, width: int = 128) -> None:
        """Make weights."""
        super().__init__()
        self.frame, self.features = nn.Linear(frame, width), nn.Linear(features, width)
        self.out = nn.Linear(width, tokens + durations)

    def forward(self, encoder_outputs: Tensor, decoder_outputs: Tensor) -> Tensor:
        """Take [..., 64] and [..., D]; return [..., tokens + durations]."""
        return self.out((self.frame(encoder_outputs) + self.features(decoder_outputs)).relu())
