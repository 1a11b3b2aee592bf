"""Sizes that a Reshape takes from its own input, with ONNX Runtime as the judge."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.in_onnxruntime import run
from tests.onnx_text import write_onnx

from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.sanitize import sanitize
from trt_workbench.model.weights import save_model

INDICES = {f"i{number}": np.array(number, np.int64) for number in range(4)}
VECTORS = {f"v{number}": np.array([number], np.int64) for number in (-1, 0, 1, 2, 3, 4, 9)}
VALUES = {**INDICES, **{name.replace("-", "m"): value for name, value in VECTORS.items()}}
SIZE = "s = Shape(x) b = Gather(s, i0) e = Unsqueeze(b, v0)"


def shape_after(path: Path, nodes: str, *rewrites: str) -> list[int] | list[list[int] | str] | None:
    """Sanitise, compare at two sizes, and return the shape that the Reshape reads: its parts where it is computed."""
    inputs = "float[B,T,6] x, float[B,T,6] other"
    write_onnx(path, f"g ({inputs}) => (float[P,Q] flat) {{ {nodes} flat = Flatten(y) }}", VALUES)
    model, report = sanitize(Model.open(path), rewrites or ("copy-sizes", "remove-unused"))
    onnx.checker.check_model(model, full_check=True)
    after = path.with_name("after.onnx")
    save_model(model, after)
    for batch, time in ((2, 3), (5, 4)):
        fed = {name: np.random.default_rng(0).standard_normal((batch, time, 6), np.float32) for name in ("x", "other")}
        np.testing.assert_array_equal(run(after, fed)[0], run(path, fed)[0])
    known = {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in model.graph.initializer}
    made_by = {node.output[0]: node for node in model.graph.node}
    shape = made_by["y"].input[1]
    assert bool(report.changes["copy-sizes"]) == (shape != "shape")
    if shape in known:
        return list(known[shape])
    return [known.get(name, name) for name in made_by[shape].input] if shape != "shape" else None


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (f"{SIZE} shape = Concat<axis=0>(e, vm1) y = Reshape(x, shape)", [0, -1]),
        ("s = Shape(x) e = Gather(s, v0) shape = Concat<axis=0>(e, vm1) y = Reshape(x, shape)", [0, -1]),
        ("s = Shape(x) e = Slice(s, v0, v2) shape = Concat<axis=0>(e, v2, vm1) y = Reshape(x, shape)", [0, 0, 2, -1]),
        ("s = Shape(x) e = Slice(s, v0, v1, v0, v1) shape = Concat<axis=0>(e, vm1) y = Reshape(x, shape)", [0, -1]),
        (
            f"{SIZE} t = Gather(s, i1) f = Unsqueeze(t, v0) shape = Concat<axis=0>(e, v2, f, vm1) "
            "y = Reshape(x, shape)",
            [[0], [2], "f", [-1]],
        ),
    ],
)
def test_a_size_at_its_own_place_is_copied(
    nodes: str, expected: list[int] | list[list[int] | str], tmp_path: Path
) -> None:
    assert shape_after(tmp_path / "m.onnx", nodes) == expected


@pytest.mark.parametrize(
    "nodes",
    [
        # of another tensor, whose sizes happen to be the same
        f"{SIZE} shape = Concat<axis=0>(e, vm1) y = Reshape(other, shape)",
        # from another place
        f"{SIZE} shape = Concat<axis=0>(vm1, e) y = Reshape(x, shape)",
        "s = Shape(x) e = Slice(s, v1, v3) shape = Concat<axis=0>(e, vm1) y = Reshape(x, shape)",
        # an end beyond the rank: three sizes, not nine
        "s = Shape(x) e = Slice(s, v0, v9) shape = Concat<axis=0>(e, vm1) y = Reshape(x, shape)",
        # every second size
        "s = Shape(x) e = Slice(s, v0, v3, v0, v2) shape = Concat<axis=0>(e, vm1) y = Reshape(x, shape)",
        # a size that is computed
        "s = Shape(x) b = Gather(s, i0) c = Mul(b, i1) e = Unsqueeze(c, v0) shape = Concat<axis=0>(e, vm1) "
        "y = Reshape(x, shape)",
        # in a Shape of a part
        "s = Shape<start=0, end=1>(x) e = Gather(s, v0) shape = Concat<axis=0>(e, vm1) y = Reshape(x, shape)",
        # where 0 is a size of 0
        f"{SIZE} shape = Concat<axis=0>(e, vm1) y = Reshape<allowzero=1>(x, shape)",
    ],
)
def test_anything_else_stays(nodes: str, tmp_path: Path) -> None:
    assert shape_after(tmp_path / "m.onnx", nodes) is None


def test_the_shape_of_another_reshape_stays(tmp_path: Path) -> None:
    nodes = f"{SIZE} shape = Concat<axis=0>(e, vm1) y = Reshape(x, shape) z = Reshape(other, shape)"
    assert shape_after(tmp_path / "m.onnx", nodes, "copy-sizes") == [0, -1]
    model = onnx.load(tmp_path / "after.onnx")
    assert next(node for node in model.graph.node if node.output[0] == "z").input[1] == "shape"
