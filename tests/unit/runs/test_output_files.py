"""Outputs that one process writes and another reads."""

from pathlib import Path

import numpy as np
import pytest

from trt_workbench.errors import UsageProblem
from trt_workbench.runs.output_files import read_outputs, write_outputs


def test_outputs_come_back_and_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    outputs = {"a/b:0": np.random.default_rng(0).normal(0, 1, (4, 6)).astype(np.float32), "names": np.arange(3)}
    write_outputs(path, outputs)
    found = read_outputs(path)
    assert list(found) == list(outputs)
    assert all(np.array_equal(found[name], outputs[name]) for name in outputs)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UsageProblem, match=r"cannot be read as arrays .*outputs\.npz"):
        read_outputs(path)
