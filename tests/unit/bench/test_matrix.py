"""Points of a matrix: what is swept and what is not."""

from trt_workbench.bench.config import BenchConfig
from trt_workbench.bench.matrix import expand


def test_a_list_of_one_value_sweeps_nothing() -> None:
    settings = {"backend": "trt", "precision": ("fp16",), "options": {"profiles": [["x:1/2/4"]], "level": [1, 3]}}
    config = BenchConfig.model_validate(
        {"models": {"m": {"path": "m.onnx"}}, "runtimes": [settings], "scenarios": {"s": {"kind": "arrays"}}}
    )
    points = expand(config)
    assert [point.runtime for point in points] == ["trt level=1", "trt level=3"]
    assert [point.swept for point in points] == [{"level": 1}, {"level": 3}]
    assert all(point.options["profiles"] == ["x:1/2/4"] and point.precision == "fp16" for point in points)
