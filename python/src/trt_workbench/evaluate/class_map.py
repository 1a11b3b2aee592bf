"""Which category of the dataset each class of the model is. COCO's 80 classes have ids from 1 to 90."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trt_workbench.errors import UsageProblem
from trt_workbench.evaluate.coco_dataset import NAMES_SHOWN, Category


def map_classes(
    class_count: int | None, names: Sequence[str] | None, categories: Sequence[Category]
) -> NDArray[np.int64]:
    """Map the model's contiguous class indices to category ids.

    A model that names its classes is mapped by name, and both sets of names must be equal (but for case and blanks
    at the ends). Otherwise its classes are taken to be in the order of the ids, and the counts must be equal.

    Args:
        class_count: how many classes the model has; None where it does not say.
        names: the model's own class names by index; None where it has none.
        categories: the dataset's, ascending by id.

    Returns:
        int64 [classes], the category id of each class index.

    Raises:
        UsageProblem: counts or names differ, so that no score could be trusted.
    """
    if names:
        return _by_name(names, categories)
    if class_count is not None and class_count != len(categories):
        raise UsageProblem(
            f"The model has {class_count} classes and the annotations have {len(categories)} categories "
            f"({_some([category.name for category in categories])}); they must be the same classes."
        )
    return np.array([category.id for category in categories], np.int64)


def _by_name(names: Sequence[str], categories: Sequence[Category]) -> NDArray[np.int64]:
    own = [_plain(name) for name in names]
    if own == [_plain(category.name) for category in categories]:
        return np.array([category.id for category in categories], np.int64)
    ids = {_plain(category.name): category.id for category in categories}
    if set(own) != ids.keys() or not len(own) == len(categories) == len(ids):
        only_model, only_data = sorted(set(own) - ids.keys()), sorted(ids.keys() - set(own))
        raise UsageProblem(
            f"The model's {len(own)} classes are not the annotations' {len(categories)} categories: "
            f"only the model has {_some(only_model)}; only the annotations have {_some(only_data)}."
        )
    return np.array([ids[name] for name in own], np.int64)


def _plain(name: str) -> str:
    return name.strip().casefold()


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN]) or "none"
    return f"{shown}, …" if len(names) > NAMES_SHOWN else shown
