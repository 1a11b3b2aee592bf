"""Arrays that one process writes and another reads."""

from pathlib import Path

import numpy as np
import pytest

from trt_workbench.engine.array_files import load_arrays, save_arrays
from trt_workbench.errors import UsageProblem


def test_arrays_come_back_and_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    outputs = {"a/b:0": np.random.default_rng(0).normal(0, 1, (4, 6)).astype(np.float32), "names": np.arange(3)}
    outputs |= {
        "file": np.array([], np.float16),
        "x.npy": np.array(True),
        "ends in fortran": np.ones((2, 3), order="F"),
    }
    save_arrays(path, outputs)
    found = load_arrays(path)
    assert list(found) == list(outputs)
    for name, array in outputs.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UsageProblem, match=r"cannot be read as arrays .*outputs\.npz"):
        load_arrays(path)
