"""A score read back from an evaluation, and its paired distance from another one's."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.decide.settings import kept
from trt_workbench.quantize.scores import _guess, coco_scores
from trt_workbench.vision.dataset import CocoDataset, GroundTruth

Make = Callable[..., Path]


def test_the_difference_of_two_is_known_far_better_than_either(evaluated: Make) -> None:
    whole, less = coco_scores(evaluated("a"), 0), coco_scores(evaluated("b", 0.1), 0)
    made = less.against(whole)
    assert made.value == less.value
    assert made.loss == whole.value - less.value > 0
    own, paired = made.ci95 or (0, 0), made.loss_ci95 or (0, 0)
    assert paired[0] < made.loss < paired[1]
    assert paired[1] - paired[0] < 0.7 * (own[1] - own[0])
    assert [one.name for one in made.classes] == ["a", "b", "c"]  # "never" has no annotation
    assert sum(one.baseline - one.value for one in made.classes) == pytest.approx(3 * made.loss)


def test_a_score_is_no_distance_from_itself(evaluated: Make) -> None:
    one = coco_scores(evaluated("a"), 0)
    assert one.against(None).loss_ci95 is None
    same = one.against(coco_scores(evaluated("b"), 0))
    assert same.alike
    objects = sum(count for _, count, _ in one.classes)  # one of others may be lost
    most = (1 - 0.025 ** (1 / one.count)) * one.count / objects
    assert same.loss_ci95 == pytest.approx((-most, most), rel=1e-3)
    assert all(each.loss_ci95 and each.loss_ci95[1] > most for each in same.classes)


def test_scores_of_other_images_and_of_interrupted_runs_are_not_compared(evaluated: Make) -> None:
    whole = coco_scores(evaluated("a"), 0)
    limited = {"images": 20, "settings": {"batch": 1, "workers": 1, "concurrency": 1, "seed": 0, "limit": 20}}
    with pytest.raises(UsageProblem, match=r"predictions.json has AP 0\.25"):  # which metrics.json has of all images
        coco_scores(evaluated("other", **limited), 0)
    fewer = evaluated("b", **limited, AP=0.25)
    with refused(UsageProblem):
        coco_scores(fewer, 0).against(whole)
    with refused(UsageProblem):
        coco_scores(evaluated("c", status="partial"), 0)
    changed = evaluated("d")
    annotations = changed.parent / "truth.json"
    annotations.write_text(annotations.read_text() + "\n")
    with refused(UsageProblem):
        coco_scores(changed, 0)


def test_scores_at_a_threshold_are_paired_and_a_calibration_error_is_lost_where_it_rises(evaluated: Make) -> None:
    names = ("AP", "f1@0.4", "ece@0.4")
    whole, less = (coco_scores(evaluated(name, lost), 0, names) for name, lost in (("a", 0.0), ("b", 0.3)))
    made = less.against(whole)
    f1, error = made.others["f1@0.4"], made.others["ece@0.4"]
    assert f1.loss == whole.others["f1@0.4"].value - f1.value
    assert error.loss == error.value - whole.others["ece@0.4"].value
    assert all(one.loss_ci95 and one.loss_ci95[0] <= one.loss <= one.loss_ci95[1] for one in (f1, error))
    first = coco_scores(evaluated("c"), 0, names[::-1])
    assert (first.value, first.others["AP"].value) == (whole.others["ece@0.4"].value, whole.value)


def test_what_nothing_found_has_is_no_score(evaluated: Make) -> None:
    run = evaluated("a", 1.0)
    assert set(coco_scores(run, 0, ("AP", "f1@0.4", "ece@0.4")).others) == {"f1@0.4"}
    with refused(UsageProblem):
        coco_scores(run, 0, ("ece@0.4",))


@pytest.mark.parametrize(
    ("text", "found"), [("AP", ("AP",)), ("f1, ece@0.30,f1@.25", ("f1@0.25", "ece@0.3")), ("recall@1", ("recall@1",))]
)
def test_what_is_kept(text: str, found: tuple[str, ...]) -> None:
    assert kept("--keep", text) == found


@pytest.mark.parametrize("text", ["", "f2", "f1@", "f1@nan", "f1@1.1", "f1@a", "AP@0.5", "mask_AP"])
def test_what_cannot_be_kept(text: str) -> None:
    with refused(UsageProblem):
        kept("--keep", text)


def test_a_guess_is_the_most_frequent_class_by_images_or_by_pixels() -> None:
    """Of ten images nine are of class 7; the others cover three quarters of the pixels."""
    kinds, areas = np.array([7] * 9 + [2, 3]), np.array([10.0] * 9 + [270.0, 1000.0])
    crowd = np.arange(11) == 10  # which is not scored
    truth = GroundTruth(np.arange(11), kinds, np.zeros((11, 4)), areas, crowd)
    dataset = CocoDataset(Path(), Path(), "0", (), (), truth)
    assert _guess(dataset, "top1") == 0.9
    assert _guess(dataset, "mIoU") == pytest.approx(0.75 / 2)
    assert _guess(dataset, "AP") == 0
