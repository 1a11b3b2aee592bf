"""Points of a matrix: what is swept and what is not."""

from trt_workbench.bench.config import BenchConfig
from trt_workbench.bench.matrix import batches, expand
from trt_workbench.core.builds import BUILD


def test_a_list_of_one_value_sweeps_nothing() -> None:
    settings = {"backend": "trt", "precision": ("fp16",), "options": {"profiles": [["x:1/2/4"]], "level": [1, 3]}}
    config = BenchConfig.model_validate(
        {"models": {"m": {"path": "m.onnx"}}, "runtimes": [settings], "scenarios": {"s": {"kind": "arrays"}}}
    )
    points = expand(config)
    assert [point.runtime for point in points] == ["trt level=1", "trt level=3"]
    assert [point.swept for point in points] == [{"level": 1}, {"level": 3}]
    assert all(point.options["profiles"] == ["x:1/2/4"] and point.precision == "fp16" for point in points)


def runtimes(*settings: dict[str, object]) -> BenchConfig:
    return BenchConfig.model_validate(
        {"models": {"m": {"path": "m.onnx"}}, "runtimes": settings, "scenarios": {"s": {"kind": "arrays"}}}
    )


def test_all_builds_of_a_request_are_loaded_at_one_time_if_they_fit() -> None:
    builds: dict[str, object] = {"backend": "trt", "precision": ("fp32", "fp16"), "options": {BUILD: [1, 2, 3]}}
    points = expand(runtimes({"backend": "ort-cpu"}, builds, {"backend": "ort-cpu", "name": "one", "threads": 1}))
    assert [len(batch) for batch in batches(points, 4)] == [4, 4]
    assert [len(batch) for batch in batches(points, 5)] == [4, 4]
    assert [len(batch) for batch in batches(points, 3)] == [1, 3, 3, 1]
    assert [len(batch) for batch in batches(points, 2)] == [1, 2, 1, 2, 2]
    assert [point for batch in batches(points, 3) for point in batch] == points
    named = ({**builds, "precision": "fp16", "options": {BUILD: [number]}, "name": str(number)} for number in (1, 2))
    rows = expand(runtimes({"backend": "ort-cpu"}, *named))  # as decide asks for them
    assert [len(batch) for batch in batches(rows, 2)] == [1, 2]


def test_points_that_are_no_builds_are_loaded_as_many_at_a_time_as_may_be() -> None:
    points = expand(runtimes({"backend": "ort-cpu", "threads": (1, 2, 3, 4, 5)}))
    assert [len(batch) for batch in batches(points, 2)] == [2, 2, 1]
