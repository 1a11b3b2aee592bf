"""Which layer launched a kernel: TensorRT puts an NVTX range with the layer's name around its launches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trt_workbench.backends.profiling import Operation

DOMAIN = "TensorRT"


class LayerIndex:
    """Layers by the names of their NVTX ranges."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Index `operations`, of one side."""
        self._layers = {one.name: one for one in operations}

    def find(self, ranges: Iterable[str]) -> Operation | None:
        """Return the layer of the innermost range that is one's; None if no range is.

        Args:
            ranges: outermost first, as `domain:name`; Nsight Compute adds further fields, apart by colons.
        """
        for text in reversed(list(ranges)):
            name = text.removeprefix(f"{DOMAIN}:").removeprefix(":")
            if found := self._layers.get(name) or self._longest_beginning(name):
                return found
        return None

    def _longest_beginning(self, text: str) -> Operation | None:
        """Return the layer whose name stands before further fields; a name may hold colons itself."""
        while ":" in text:
            text = text.rpartition(":")[0]
            if found := self._layers.get(text):
                return found
        return None
