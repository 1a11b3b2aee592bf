"""Calls on tensors, between work of PyTorch's and alone."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from trt_workbench.backends.device_arrays import TorchWork
from trt_workbench.infer.calls import torch_ways


class Doubling:
    """A runner whose outputs are twice its inputs on the device, in memory of their own."""

    def __init__(self) -> None:
        self.addresses: set[int] = set()

    def run(self, inputs: dict[str, Any], **how: Any) -> dict[str, Any]:
        assert how == {"outputs": [], "device_outputs": True, "stream": None}
        assert isinstance(inputs["sizes"], np.ndarray)
        self.addresses.add(inputs["x"].data_ptr())
        return {name: value * 2 for name, value in inputs.items() if name != "sizes"}


def test_tensors_stay_where_they_are_and_work_around_a_call_keeps_their_values() -> None:
    runner = Doubling()
    ways = {way.name: way for way in torch_ways(runner, TorchWork("cpu"), ["x", "ids"])}
    assert [*ways] == ["torch", "torch_between", "torch_alone"]
    addresses = {}
    for values in (np.float32([[1, -3, 5]]), np.float32([[7, 9, 0.25]])):
        inputs = {"x": values, "ids": np.int64([4, 5]), "sizes": np.int64([2])}
        for name, way in ways.items():
            way.fill(inputs)
            runner.addresses.clear()
            found = way.call()
            if way.outputs is None:
                assert (name, runner.addresses) == ("torch_alone", set())
                continue
            addresses.setdefault(name, set()).update(runner.addresses)
            outputs = way.outputs(found)
            np.testing.assert_array_equal(outputs["x"], 2 * values, strict=True)
            np.testing.assert_array_equal(outputs["ids"], np.int64([8, 10]), strict=True)
    assert len(addresses["torch"]) == 1
    assert not addresses["torch"] & addresses["torch_between"]
