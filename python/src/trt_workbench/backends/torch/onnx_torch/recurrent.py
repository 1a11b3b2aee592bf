"""LSTM, GRU and RNN as PyTorch's own modules, which call cuDNN on a GPU. Semantics: the ONNX operator documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trt_workbench.core.errors import Unsupported

# By operator the places of PyTorch's gates among ONNX's: i, o, f, c of LSTM; z, r, h of GRU.
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
KINDS = frozenset(_GATES)
# Inputs that are read while the graph is converted, and those that a call gives.
WEIGHTS, CALLED = (1, 2, 3), (0, 5, 6)
REFUSED = {4: "sequence_lens", 7: "P (peepholes)"}
_ACTIVATIONS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}
_WITHOUT_COUNTERPART = ("activation_alpha", "activation_beta", "clip", "input_forget")


class Recurrent(nn.Module):
    """One node: `forward` takes X, initial_h and initial_c, and returns Y, Y_h and, of an LSTM, Y_c."""

    def __init__(self, kind: str, attributes: Mapping[str, Any], w: Tensor, r: Tensor, b: Tensor | None = None) -> None:
        """Take the weights over.

        Args:
            kind: LSTM, GRU or RNN.
            attributes: of the node.
            w: [directions, gates * hidden, input].
            r: [directions, gates * hidden, hidden].
            b: [directions, 2 * gates * hidden].

        Raises:
            UsageProblem: PyTorch has no counterpart of an attribute.
        """
        super().__init__()
        directions, hidden = w.shape[0], r.shape[2]
        self._layout, self._reversed = attributes.get("layout", 0), attributes.get("direction") == "reverse"
        nonlinearity = _activation(kind, attributes, directions)
        self._resets_first = kind == "GRU" and not attributes.get("linear_before_reset", 0)
        modules: dict[str, type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]] = {
            "LSTM": nn.LSTM,
            "GRU": nn.GRU,
            "RNN": nn.RNN,
        }
        more = {"nonlinearity": nonlinearity} if kind == "RNN" else {}
        self._inner = modules[kind](w.shape[2], hidden, bidirectional=directions == 2, dtype=w.dtype, **more)
        gates = len(_GATES[kind])
        biases = torch.zeros(directions, 2 * gates * hidden, dtype=w.dtype) if b is None else b
        for direction in range(directions):
            of_input, of_state = biases[direction].chunk(2)
            ending = "_l0" + "_reverse" * direction
            parts = {"weight_ih": w[direction], "weight_hh": r[direction], "bias_ih": of_input, "bias_hh": of_state}
            for name, part in parts.items():
                blocks = part.chunk(gates)
                value = torch.cat([blocks[place] for place in _GATES[kind]])
                getattr(self._inner, name + ending).data.copy_(value)
        self.requires_grad_(requires_grad=False)

    def forward(self, x: Tensor, h: Tensor | None = None, c: Tensor | None = None) -> tuple[Tensor, ...]:
        """Run over a sequence [time, batch, input], or, with layout 1, [batch, time, input]."""
        if self._layout:
            x = x.transpose(0, 1)
            h, c = (None if one is None else one.transpose(0, 1).contiguous() for one in (h, c))
        x = x.flip(0) if self._reversed else x
        directions = 2 if self._inner.bidirectional else 1
        zeros = x.new_zeros(directions, x.shape[1], self._inner.hidden_size)
        h = zeros if h is None else h
        if isinstance(self._inner, nn.LSTM):
            y, last = self._inner(x, (h, zeros if c is None else c))
        else:
            y, state = self._reset_first(x, h) if self._resets_first else self._inner(x, h)
            last = (state,)
        y = y.flip(0) if self._reversed else y
        y = y.unflatten(2, (directions, -1))  # [time, batch, directions, hidden]
        if self._layout:
            return y.transpose(0, 1), *(one.transpose(0, 1) for one in last)
        return y.transpose(1, 2), *last

    def _reset_first(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Run a GRU that resets its state before the product, as PyTorch's does not."""
        inner, found, states = self._inner, [], []
        for direction, ending in enumerate(("_l0", "_l0_reverse")[: h.shape[0]]):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            of_x, of_h, x_bias, h_bias = (getattr(inner, name + ending) for name in names)
            size, state, steps = inner.hidden_size, h[direction], []
            given = nn.functional.linear(x, of_x, x_bias)
            for step in given.flip(0) if direction else given:
                gates = nn.functional.linear(state, of_h[: 2 * size], h_bias[: 2 * size])
                reset, update = torch.sigmoid(step[:, : 2 * size] + gates).chunk(2, 1)
                product = nn.functional.linear(reset * state, of_h[2 * size :], h_bias[2 * size :])
                state = (1 - update) * torch.tanh(step[:, 2 * size :] + product) + update * state
                steps.append(state)
            found.append(torch.stack(steps[::-1] if direction else steps))
            states.append(state)
        return torch.cat(found, 2), torch.stack(states)


def _activation(kind: str, attributes: Mapping[str, Any], directions: int) -> str:
    """Return the activation of an RNN, "" of others. Raises UsageProblem for what PyTorch does not have."""
    for name in _WITHOUT_COUNTERPART:
        if attributes.get(name):
            raise Unsupported(f"{kind} with {name} is not supported by the torch backend.")
    usual = _ACTIVATIONS[kind]
    given = tuple(one.lower() for one in attributes.get("activations", usual * directions))
    allowed = [usual * directions, *([("relu",) * directions] if kind == "RNN" else [])]
    if given not in allowed:
        raise Unsupported(f"{kind} with the activations {', '.join(given)} is not supported by the torch backend.")
    return given[0] if kind == "RNN" else ""
