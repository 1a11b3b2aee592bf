"""The shapes of a model's outputs as ONNX Runtime's session declares them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime as ort

Shapes = tuple[tuple[int, ...], ...]


class OutputShapes:
    """The shapes of a model's outputs as they follow from its inputs' shapes, by the names of dynamic dimensions.

    Attributes:
        data_shaped: outputs whose shape may differ between runs with inputs of the same shapes.
        unknown: those, and outputs whose declared shape is not made of the inputs' dimensions.
    """

    def __init__(self, session: ort.InferenceSession, data_shaped: Collection[str]) -> None:
        self._inputs = [tuple(node.shape) for node in session.get_inputs()]
        self._outputs = {node.name: tuple(node.shape) for node in session.get_outputs()}
        self.data_shaped = frozenset(data_shaped)
        symbols = {dim for shape in self._inputs for dim in shape if isinstance(dim, str) and dim}
        self.unknown = tuple(
            name
            for name, shape in self._outputs.items()
            if name in self.data_shaped
            or any(not (isinstance(dim, int) and dim >= 0) and dim not in symbols for dim in shape)
        )

    def resolve(self, name: str, shapes: Shapes) -> tuple[int, ...]:
        """Return the shape of output `name`, which is not one of `unknown`, for inputs of `shapes`."""
        sizes = {
            symbol: size
            for symbols, shape in zip(self._inputs, shapes, strict=True)
            for symbol, size in zip(symbols, shape, strict=True)
        }
        return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self._outputs[name])
