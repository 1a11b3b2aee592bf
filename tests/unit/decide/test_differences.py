"""Which images of two evaluations differ most."""

from typing import Any, cast

from trt_workbench.decide.report import _apart, _counts
from trt_workbench.vision import ImageRecord


def image(right: int, **errors: int) -> ImageRecord:
    wrong = sum(errors.values()) - errors.get("missed", 0)
    counts = {"true_positives": right, "false_positives": wrong, "false_negatives": errors.get("missed", 0)}
    made: dict[str, Any] = {"ground_truths": right, **counts, "errors": errors}
    return cast("ImageRecord", made)


def test_images_are_apart_by_f1_then_by_the_kinds_of_their_errors() -> None:
    before = image(4, localisation=1)
    fewer, other, same = image(3, localisation=1), image(4, background=1, localisation=0), image(4, localisation=1)
    assert _apart(before, fewer) > _apart(before, other) > _apart(before, same) == (0, 0)


def test_kinds_that_only_one_has_count_whichever_it_is() -> None:
    assert _apart(image(4), image(4, localisation=2))[1] == _apart(image(4, localisation=2), image(4))[1] == 2


def test_the_caption_names_the_kinds() -> None:
    assert _counts(image(3, localisation=1, missed=2)) == "3 found, 2 missed, 1 wrong (1 localisation)"
