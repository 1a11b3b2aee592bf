"""A copy of a model for one stream, in which every size but those that a chunk decides is a number.

State that stays on a device has to know its shape before the first chunk.
"""

from __future__ import annotations

from pathlib import Path

from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.sanitize import save_model
from trt_workbench.stream.contract.contract import Contract


def fixed_sizes(contract: Contract) -> dict[str, dict[int, int]]:
    """Return by tensor the sizes, by dimension, that are the same for one stream whatever its chunks are."""
    chunks = list(contract.chunks(contract.chunking.first.hop + contract.chunking.later.hop))
    moved = chunks[-1].model_copy(update={"size": 2 * chunks[-1].size - chunks[-1].left_context})
    points = [contract.chunk_values(chunk) for chunk in (*chunks, moved)]
    found: dict[str, dict[int, int]] = {}
    for name in contract.tensors:
        shapes = zip(*(contract.shape(name, point) for point in points), strict=True)
        found[name] = {axis: sizes[0] for axis, sizes in enumerate(shapes) if len(set(sizes)) == 1}
    return found


def write_fixed(model: Model, contract: Contract, folder: Path) -> Path:
    """Write the copy into `folder`, and return its path.

    Raises:
        UsageProblem: the model has changed on disk.
        OSError: the folder cannot be written.
    """
    document, sizes = model.load(), fixed_sizes(contract)
    for value in (*document.graph.input, *document.graph.output):
        for axis, size in sizes.get(value.name, {}).items():
            value.type.tensor_type.shape.dim[axis].dim_value = size
    path = folder / model.path.name
    save_model(document, path)
    return path
