import pytest

from trt_workbench.errors import UsageProblem
from trt_workbench.evaluate.class_map import map_classes
from trt_workbench.evaluate.coco_dataset import Category

# With gaps and not alphabetical, as COCO's own.
CATEGORIES = (Category(1, "person"), Category(2, "bicycle"), Category(13, "stop sign"), Category(90, "toothbrush"))


def test_by_order_where_the_model_has_no_names() -> None:
    assert map_classes(4, None, CATEGORIES).tolist() == [1, 2, 13, 90]


def test_by_order_where_the_model_does_not_tell_its_classes() -> None:
    assert map_classes(None, None, CATEGORIES).tolist() == [1, 2, 13, 90]


def test_by_name_where_the_orders_differ() -> None:
    assert map_classes(4, ("toothbrush", "person", "Stop Sign ", "bicycle"), CATEGORIES).tolist() == [90, 1, 13, 2]


def test_names_that_repeat_in_the_same_order() -> None:
    twice = (Category(3, "bat"), Category(4, "bat"))
    assert map_classes(2, ("bat", "bat"), twice).tolist() == [3, 4]


def test_other_count_is_refused() -> None:
    with pytest.raises(UsageProblem, match="has 80 classes and the annotations have 4 categories"):
        map_classes(80, None, CATEGORIES)


def test_other_names_are_refused_and_named() -> None:
    with pytest.raises(UsageProblem, match="only the model has car; only the annotations have bicycle"):
        map_classes(4, ("person", "car", "stop sign", "toothbrush"), CATEGORIES)


@pytest.mark.parametrize(
    ("names", "categories"),
    [
        (("bat", "bat", "ball"), (Category(3, "bat"), Category(4, "ball"), Category(5, "bat"))),
        (("bat", "bat"), (Category(3, "bat"), Category(4, "ball"))),
        (("bat", "ball", "net"), (Category(3, "bat"), Category(4, "ball"))),
    ],
)
def test_names_that_do_not_tell_classes_apart_are_refused(
    names: tuple[str, ...], categories: tuple[Category, ...]
) -> None:
    with pytest.raises(UsageProblem):
        map_classes(len(names), names, categories)
