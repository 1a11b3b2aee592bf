"""The configuration of a bench is checked before anything runs, and errors name the line."""

from collections import Counter
from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.backends.registry import gpu_in_use
from trt_workbench.bench.config import load_config, shipped_configs
from trt_workbench.bench.matrix import expand, point_from_dict, ranges, schedule
from trt_workbench.bench.sharding import what_decides
from trt_workbench.core.errors import UsageProblem

GOOD = """\
models:
  detector: {path: m.onnx}
runtimes:
  - backend: ort-cpu
    options: {graph_optimization_level: [basic, all]}
  - {backend: trt, precision: fp16}
scenarios:
  sweep: {kind: arrays, batch: [1, 2, 4], dims: {sequence: [16, 32]}}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "bench.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", shipped_configs())
def test_shipped_configurations_are_right(name: str) -> None:
    config = load_config(shipped_configs()[name])
    assert expand(config)


def test_the_matrix(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD))
    assert config.models["detector"].path == tmp_path / "m.onnx"
    points = expand(config)
    assert len(points) == 3 * 2 * 3
    assert len({point.key for point in points}) == len(points)
    assert points[0].label == "sweep/detector b1 sequence=16/ort-cpu graph_optimization_level=basic"
    assert ranges(points, points[0].work) == {"batch": (1, 4), "sequence": (16, 32)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "[1, 2, 4]",
            "[1, 0]",
        ),
        ("[1, 2, 4]", "many"),
        (
            "[16, 32]",
            "[16, x]",
        ),
    ],
)
def test_a_wrong_value_among_several_is_named(tmp_path: Path, old: str, new: str) -> None:
    with refused(UsageProblem):
        load_config(write(tmp_path, GOOD.replace(old, new)))


def test_only(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD))
    assert {point.backend for point in expand(config, ["*/trt-*"])} == {"trt"}
    assert len(expand(config, ["b4 sequence=32"])) == 3
    with refused(UsageProblem):
        expand(config, ["nothing"])


def test_points_survive_json(tmp_path: Path) -> None:
    import json
    from dataclasses import asdict

    for point in expand(load_config(write(tmp_path, GOOD))):
        again = point_from_dict(json.loads(json.dumps(asdict(point))))
        assert again == point
        assert again.key == point.key


def test_every_round_measures_every_point_in_an_order_of_its_own(tmp_path: Path) -> None:
    points = expand(load_config(write(tmp_path, GOOD)))
    order = schedule(points, 4, seed=1)
    rounds = [[point.key for point, repetition in order if repetition == number] for number in range(4)]
    assert all(sorted(one) == sorted(point.key for point in points) for one in rounds)
    assert len({tuple(one) for one in rounds}) == 4
    assert order == schedule(points, 4, seed=1)
    assert order != schedule(points, 4, seed=2)


@pytest.mark.parametrize(("runtimes", "rounds", "works"), [(2, 9, 8), (3, 9, 4), (5, 9, 5), (2, 1, 6)])
def test_over_works_and_rounds_every_runtime_has_every_place_equally_often(
    tmp_path: Path, runtimes: int, rounds: int, works: int
) -> None:
    points = expand(load_config(write(tmp_path, GOOD)))[:runtimes]
    for seed in range(5):
        drawn = [schedule(points, rounds, seed, rounds * work) for work in range(works)]
        turns = [[point.key for point, number in one if number == turn] for one in drawn for turn in range(rounds)]
        for place in range(runtimes):
            counts = Counter(turn[place] for turn in turns)
            fewest = min(counts[point.key] for point in points)
            assert max(counts.values()) - fewest == (len(turns) % runtimes > 0)
        assert len({tuple(map(tuple, turns[start : start + rounds])) for start in range(0, len(turns), rounds)}) > 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("backend: trt", "bakend: trt"),
        ("kind: arrays", "kind: array"),
        ("batch: [1, 2, 4]", "batch: [1, 0]"),
        ("{path: m.onnx}", "{}"),
        ("{path: m.onnx}", "{embedded: nothing}"),
        ("kind: arrays", "kind: arrays, models: [other]"),
        ("{backend: trt, precision: fp16}", "{backend: ort-cpu}"),
        ("scenarios:", "seed: ["),
    ],
)
def test_errors_name_the_place(tmp_path: Path, old: str, new: str) -> None:
    assert old in GOOD
    with refused(UsageProblem):
        load_config(write(tmp_path, GOOD.replace(old, new)))


@pytest.mark.parametrize(
    ("options", "number"),
    [("device: 1", 1), ("device: 'cuda:2'", 2), ("device: 'cuda'", 0), ("device: 'cpu'", 0), ("device_id: 1", 1)],
)
def test_the_gpu_that_is_watched_is_the_one_that_is_named(tmp_path: Path, options: str, number: int) -> None:
    points = expand(load_config(write(tmp_path, GOOD.replace("precision: fp16", f"options: {{{options}}}"))))
    mine = [point for point in points if point.backend == "trt"]
    assert {gpu_in_use(point.backend, point.options, {}) for point in mine} == {number}


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1", "1"])
def test_a_device_in_words_is_part_of_what_identifies_a_run(tmp_path: Path, device: str) -> None:
    """As of `--option device=cpu` of PyTorch; it ended in a traceback."""
    runtime = f"{{backend: torch, options: {{device: '{device}'}}}}"
    config = load_config(write(tmp_path, GOOD.replace("{backend: trt, precision: fp16}", runtime)))
    without_files = config.model_copy(update={"models": {}})
    assert what_decides(without_files, expand(config))["processor"]
