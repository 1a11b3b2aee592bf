"""Matching of all images at once, against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.vision.test_coco_scores import CATEGORIES, detections_near, ground_truth

from trt_workbench.vision import pairs
from trt_workbench.vision.confusion import confuse
from trt_workbench.vision.dataset import GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.matches import CocoMatches
from trt_workbench.vision.measure import BOXES
from trt_workbench.vision.pairs import Spans, pairs_of, portions, take_nearest


@given(sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6), before=st.integers(0, 5))
@settings(deadline=None)
def test_every_detection_is_paired_with_the_objects_of_its_group(sizes: list[tuple[int, int]], before: int) -> None:
    spans, wanted = [], []
    for side in range(2):
        ends = before + np.cumsum([0, *(one[side] for one in sizes)])
        spans.append(Spans(ends[:-1], ends[1:]))
    for group in range(len(sizes)):
        rows, objects = (range(one.first[group], one.end[group]) for one in spans)
        wanted += [(row, other) for row in rows for other in objects]
    assert [*zip(*(one.tolist() for one in pairs_of(*spans)), strict=True)] == wanted


@given(rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.5, 0.7, 0.9])), max_size=30))
@settings(deadline=None)
def test_the_nearest_pairs_are_those_of_a_loop(rows: list[tuple[int, int, float]]) -> None:
    wanted = set[tuple[int, int]]()
    for row, other, _ in sorted(rows, key=lambda one: -one[2]):
        if row not in {one for one, _ in wanted} and other not in {one for _, one in wanted}:
            wanted.add((row, other))
    columns = [np.array([one[place] for one in rows]) for place in range(3)]
    found = take_nearest(columns[0].astype(np.intp), columns[1].astype(np.intp), columns[2].astype(np.float64))
    assert {*zip(*(one.tolist() for one in found), strict=True)} == wanted


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1.0, 300.0, 1e9, 1e30]))
def test_overlaps_of_pairs_are_those_of_boxes_to_the_last_bit(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    boxes = (rng.uniform(-1, 1, (7, 4)) * size).astype(np.float32)
    boxes[:, 2:] = np.abs(boxes[:, 2:]) * rng.integers(0, 2, (7, 1))
    found = DetectionTable(np.ones(7, np.int64), np.ones(7, np.int64), boxes, np.ones(7, np.float32))
    truth = GroundTruth(
        np.ones(5, np.int64),
        np.ones(5, np.int64),
        boxes[:5] * rng.choice([1, 0.9], (5, 4)),
        np.ones(5),
        rng.random(5) < 0.3,
    )
    rows, objects = np.arange(1, 7), np.arange(5)
    pairs_ = np.repeat(rows, 5), np.tile(objects, 6)
    at_once = BOXES.pair_overlaps(found, pairs_[0], truth, pairs_[1])
    assert at_once.tolist() == BOXES.overlaps(found, rows, truth, objects).ravel().tolist()
    assert at_once.tolist() == super(type(BOXES), BOXES).pair_overlaps(found, pairs_[0], truth, pairs_[1]).tolist()


def test_matching_in_portions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, images = np.random.default_rng(3), np.arange(1, 13)
    truth = ground_truth(rng, 60, 12)
    found = detections_near(rng, truth, 200, 12)
    whole = CocoMatches(images, truth, CATEGORIES, found), confuse(images, CATEGORIES, truth, found)
    monkeypatch.setattr(pairs, "_AT_ONCE", 20)
    assert len([*portions(*[Spans.of(np.sort(one.image_ids), images) for one in (found, truth)])]) > 5
    parts = CocoMatches(images, truth, CATEGORIES, found), confuse(images, CATEGORIES, truth, found)
    ones = np.ones((1, 12), np.int32)
    assert parts[0].figures(ones).figures == whole[0].figures(ones).figures
    assert (parts[1].matrix == whole[1].matrix).all()
    assert (parts[1].counts == whole[1].counts).all()
    assert (parts[1].errors == whole[1].errors).all()
