"""What the core makes of detectors' outputs is what their families make of them, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.random_heads import CELLS, KINDS, MASKS, Case, check, family_of, masks_case, random_case

from trt_workbench.vision.families import DecodeSettings

CASES = 60


@pytest.fixture(scope="module")
def native() -> Any:
    module = pytest.importorskip("trt_workbench_native", reason="the native core is not installed")
    if not hasattr(module, "find_boxes_cpu"):
        pytest.skip("the double of the native core finds no boxes")
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_random_heads(native: Any, kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    judged = sum(check(native, random_case(rng, kind)) for _ in range(CASES))
    assert judged > CASES / 2


@pytest.mark.parametrize("crowded", [True, False])
def test_twenty_thousand_candidates(native: Any, crowded: bool) -> None:
    rng = np.random.default_rng(3)
    classes = 64
    boxes = rng.uniform(20, 90 if crowded else 2000, (1, CELLS, 4))
    scores = rng.uniform(0.0011, 0.9, (1, CELLS, classes))
    scores[rng.random(scores.shape) < 1 - 20_000 / scores.size] = 0
    output = np.concatenate([boxes, scores], axis=-1).swapaxes(1, 2).astype(np.float32)
    case = Case(family_of("yolov8", {"output": output}, classes), {"output": output}, DecodeSettings())
    assert check(native, case) == 1


def test_of_equal_scores_beyond_the_most_candidates_the_first_count(native: Any) -> None:
    classes = 120
    output = np.full((1, 4 + classes, CELLS), 0.5, np.float32)
    output[0, :4] = np.random.default_rng(0).uniform(20, 90, (4, CELLS))
    output[0, 4:34] = 0.25
    case = Case(family_of("yolov8", {"output": output}, classes), {"output": output}, DecodeSettings(max_dets=40_000))
    assert check(native, case) == 1


def test_more_candidates_than_the_device_has_room_for_are_left_to_the_processor(native: Any) -> None:
    output = np.full((1, 304, CELLS), 0.5, np.float32)
    case = Case(family_of("yolov8", {"output": output}, 300), {"output": output}, DecodeSettings())
    assert check(native, case) == 0


@pytest.mark.parametrize("name", MASKS)
def test_masks(native: Any, name: str) -> None:
    assert check(native, masks_case(name)) == MASKS[name][0]


def test_prototypes_larger_than_the_input_are_left_to_the_processor() -> None:
    case = masks_case("as large as the input")
    shapes = {name: array.shape for name, array in case.outputs.items()}
    assert case.family.head({**shapes, "prototypes": (1, 3, 96, 161)}, case.settings) is None
