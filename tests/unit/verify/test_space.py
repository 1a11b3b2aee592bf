"""The shapes, and values that decide shapes, at which something is tried."""

from types import SimpleNamespace

import numpy as np

from trt_workbench.backends.base import TensorSpec
from trt_workbench.verify.settings import Range
from trt_workbench.verify.space import cases, engine_spaces, model_space


def tensor(name: str, shape: tuple[int, ...], profiles: tuple, values: tuple = ()) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, shape=shape, profiles=profiles, values=values, is_shape_tensor=bool(values), dtype="int64"
    )


def test_values_of_an_engines_shape_tensors_come_from_each_profile() -> None:
    x = tensor("x", (-1, 4), (((1, 4), (2, 4), (4, 4)), ((4, 4), (6, 4), (8, 4))))
    size = tensor("size", (2,), (((2,), (2,), (2,)),) * 2, (((1, 8), (2, 16), (3, 32)), ((5, 8), (6, 8), (7, 8))))
    first, second = engine_spaces([x, size], {"x": ("N", 4)})
    assert first.ranges == {"N": Range(1, 2, 4), "size[0]": Range(1, 2, 3), "size[1]": Range(8, 16, 32)}
    assert second.ranges["size[0]"] == Range(5, 6, 7)
    assert not first.is_batched("size")
    tried = {(case.values["size[0]"], case.values["size[1]"]) for case in cases(first, 0, quick=True)}
    assert {(2, 16), (1, 8), (1, 32), (3, 8), (3, 32)} <= tried
    spec = TensorSpec("size", "int64", (2,))
    case = first.case({"N": 1, "size[0]": 3, "size[1]": 8})
    np.testing.assert_array_equal(case.held([spec])["size"], [3, 8])


def test_shapes_that_are_not_offered_have_no_sizes() -> None:
    spec = TensorSpec("x", "float32", (None, 3, None))
    space = model_space([spec], {"x": ("N", 3, "T")}, {"N": Range(1, 2, 4), "T": Range(8, 8, 16)})
    assert space.sizes_of({"x": (2, 3, 9)}) == {"N": 2, "T": 9}
    assert space.sizes_of({"x": (5, 3, 9)}) is None
    assert space.sizes_of({"x": (5, 3, 9)}, with_batch=False) == {"T": 9}
    assert space.sizes_of({"x": (2, 4, 9)}) is None
    assert space.sizes_of({"x": (2, 3)}) is None
    assert space.sizes_of({"z": (2, 3, 9)}) is None


def tried(seed: int, *, quick: bool = False, high: int = 64) -> list[tuple[int, int, int | None]]:
    spec = TensorSpec("x", "float32", (None, None))
    space = model_space([spec], {"x": ("N", "T")}, {"N": Range(1, 4, high), "T": Range(1, 16, 64)})
    return [(case.values["N"], case.values["T"], case.seed) for case in cases(space, seed, quick=quick)]


def test_sizes_that_no_rule_names_are_drawn_others_for_another_seed() -> None:
    every = {size for seed in range(120) for size, *_ in tried(seed)}
    assert every == set(range(1, 65))
    assert tried(5) == tried(5) != tried(6)
    fixed = [one for one in tried(5) if one[2] is None]
    drawn = [one for one in tried(5) if one[2] is not None]
    assert fixed == [one for one in tried(6) if one[2] is None]
    assert {seed for *_, seed in drawn} == {5}
    assert len({size for size, length, _ in drawn if length == 16} - {size for size, *_ in fixed}) >= 3
    assert all(seed is None for *_, seed in tried(5, quick=True))


def test_a_range_that_is_tried_whole_has_no_sizes_to_draw() -> None:
    assert {size for size, *_ in tried(1, high=8)} == set(range(1, 9))
