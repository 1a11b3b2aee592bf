"""What of a model can be quantised: one group for every operation that hardware computes in low precision."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """One operation that can be in low precision, or stay as it is.

    Attributes:
        name: of its first node; unique, the same in every candidate of a model.
        nodes: names of the nodes that it is made of.
        op_type: Conv, ConvTranspose, Gemm or MatMul, with constant weights; or "attention" for a product of two
            activations.
        macs: multiply-accumulates of one sample, at a dynamic dimension's smallest size; 0 where no shape is known.
        weight_elements: elements of its weights; 0 of attention products.
    """

    name: str
    nodes: tuple[str, ...]
    op_type: str
    macs: int
    weight_elements: int
