from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.texts import held, refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.class_map import COCO_IDS, COCO_NAMES, map_classes
from trt_workbench.vision.dataset import Category

# With gaps and not alphabetical, as COCO's own.
CATEGORIES = (Category(1, "person"), Category(2, "bicycle"), Category(13, "stop sign"), Category(90, "toothbrush"))


def test_by_id() -> None:
    found = map_classes(91, None, CATEGORIES, "by-id")
    assert np.flatnonzero(found.kept).tolist() == found.ids[found.kept].tolist() == [1, 2, 13, 90]
    held(found.notes[0])
    with refused(UsageProblem):
        map_classes(1, None, CATEGORIES, "by-id")


def test_91_classes_are_cocos_ids_on_cocos_categories_alone() -> None:
    coco = [Category(one, f"c{one}") for one in COCO_IDS]
    found = map_classes(91, None, coco)
    assert found.ids[found.kept].tolist() == list(COCO_IDS)
    assert "COCO's ids" in found.notes[-1]
    with refused(UsageProblem):
        map_classes(91, None, CATEGORIES)


def test_91_classes_are_cocos_ids_where_a_data_yaml_counts_its_classes_from_0() -> None:
    found = map_classes(91, None, [Category(place, name) for place, name in enumerate(COCO_NAMES)])
    assert np.flatnonzero(found.kept).tolist() == list(COCO_IDS)
    assert found.ids[found.kept].tolist() == list(range(80))


def test_ids_that_only_count_are_not_offered_as_the_models_classes() -> None:
    """A folder of classes numbers them from 0, which says nothing of a model with a thousand."""
    with refused(UsageProblem):
        map_classes(1000, None, [Category(0, "cat"), Category(1, "dog")])


ROOT = Category(0, "shapes-root", "none", annotated=False)
ROBOFLOW = (ROOT, *(Category(one.id, one.name, "shapes-root") for one in CATEGORIES))


@pytest.mark.parametrize("names", [None, ("person", "bicycle", "stop sign", "toothbrush")])
def test_roboflows_root_is_left_out_with_a_note(names: tuple[str, ...] | None) -> None:
    found = map_classes(4, names, ROBOFLOW)
    assert found.ids.tolist() == [1, 2, 13, 90]
    held(*found.notes)


def test_the_root_goes_first_where_another_category_has_no_annotations_either() -> None:
    rare = (*ROBOFLOW[:-1], Category(90, "toothbrush", "shapes-root", annotated=False))
    assert map_classes(4, None, rare).ids.tolist() == [1, 2, 13, 90]
    assert map_classes(4, ("toothbrush", "person", "stop sign", "bicycle"), rare).ids.tolist() == [90, 1, 13, 2]


def test_an_annotated_category_is_never_left_out() -> None:
    annotated = (Category(0, "shapes-root"), *ROBOFLOW[1:])
    for names in (None, ("person", "bicycle", "stop sign", "toothbrush")):
        with refused(UsageProblem):
            map_classes(4, names, annotated)


@pytest.mark.parametrize("form", ["{}", "class{}", "class_{}", "Class {}", " {} "])
def test_numbers_are_no_names(form: str) -> None:
    found = map_classes(4, tuple(form.format(place) for place in range(4)), CATEGORIES)
    assert found.ids.tolist() == [1, 2, 13, 90]
    held(*found.notes)


def test_a_name_that_is_spelled_differently() -> None:
    names = ("person", "bicycle", "stop_sign", "toothbrush")
    with refused(UsageProblem):
        map_classes(4, names, CATEGORIES)
    assert map_classes(4, names, CATEGORIES, "by-order").ids.tolist() == [1, 2, 13, 90]
    shared = map_classes(4, names, CATEGORIES, "by-name")
    assert shared.ids[shared.kept].tolist() == [1, 2, 90]
    assert shared.kept.tolist() == [True, True, False, True]
    assert "Predictions of 1 model class without a category are dropped: stop_sign." in shared.notes
    assert "Annotations of 1 category without a model class count as missed: stop sign." in shared.notes


def test_categories_of_one_name_are_named_where_they_are_the_cause() -> None:
    names = tuple(one.name for one in CATEGORIES)
    twice = (*CATEGORIES, Category(99, "Person "))
    with pytest.raises(UsageProblem, match=r"several categories with one name \(person\)"):
        map_classes(4, names, twice)
    for others in ([Category(98, "x", annotated=False), Category(99, "x", annotated=False)], []):
        with pytest.raises(UsageProblem, match="only the model has dog"):  # two that nothing needs are not
            map_classes(4, (*names[:-1], "dog"), (*CATEGORIES, *others))


def test_what_is_dropped_is_called_by_the_models_names(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("1\n-\n13\n-\n")
    names = ("one", "two", "three", "four")
    found = map_classes(4, names, CATEGORIES, str(tmp_path / "classes.txt"))
    assert "Predictions of 2 model classes without a category are dropped: two, four." in found.notes
    by_id = map_classes(4, names, CATEGORIES, "by-id")
    assert "Predictions of 2 model classes without a category are dropped: one, four." in by_id.notes


def test_by_name_needs_names_that_tell_classes_apart() -> None:
    for names in (None, ("a", "b"), ("person", "person")):
        with refused(UsageProblem):
            map_classes(None, names, CATEGORIES, "by-name")


def test_a_file_of_classes(tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_text("\ufeffStop Sign\n-\n 1 \nperson\n\n")
    found = map_classes(4, None, CATEGORIES, str(path))
    assert found.ids[found.kept].tolist() == [13, 1, 1]
    assert found.kept.tolist() == [True, False, True, True]
    assert len(found.notes) == 2


@pytest.mark.parametrize(
    "text",
    [
        "person\n",
        "",
        "person\nbicycle\nstop\ntoothbrush",
        "person\n\nbicycle\ntoothbrush",
        b"\xff\xfe",
        None,
    ],
)
def test_a_file_of_classes_that_cannot_be_used(tmp_path: Path, text: str | bytes | None) -> None:
    path = tmp_path / "classes.txt"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with refused(UsageProblem):
        map_classes(4, None, CATEGORIES, str(path))


@settings(deadline=None)
@given(st.permutations(CATEGORIES), st.sampled_from(["by-name", None]))
def test_by_name_follows_any_order(order: list[Category], how: str | None) -> None:
    names = [f" {one.name.upper()} " for one in order]
    assert map_classes(None, names, CATEGORIES, how).ids.tolist() == [one.id for one in order]
