import itertools
import re
from typing import Any

import numpy as np
import pytest
from hotcoco import mask
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.vision.families import Family, recognise
from trt_workbench.vision.letterbox import find_geometry
from trt_workbench.vision.masks import Masks

SIDE, QUERIES, CLASSES = 96, 12, 5


def family(*names: str, **options: Any) -> Family:
    shapes = {"dets": (None, QUERIES, 4), "labels": (None, QUERIES, CLASSES), "masks": (None, QUERIES, 24, 24)}
    specs = [TensorSpec(name, "float32", shapes[name]) for name in names or shapes]
    image = TensorSpec("input", "float32", (None, 3, SIDE, SIDE))
    return recognise([image], specs, {"normalize": "imagenet"}, Preparation(**options))


def outputs(batch: int) -> dict[str, Any]:
    rng = np.random.default_rng(batch)
    made = {
        "dets": rng.uniform(0.05, 0.95, (batch, QUERIES, 4)),
        "labels": rng.normal(-1, 2, (batch, QUERIES, CLASSES)),
        "masks": rng.normal(0, 3, (batch, QUERIES, 24, 24)),
    }
    return {name: array.astype(np.float32) for name, array in made.items()}


def test_masks_are_those_of_rf_detr() -> None:
    torch = pytest.importorskip("torch")
    found = family()
    assert (found.name, found.task, found.clips_boxes) == ("detr-masks", "masks", True)
    for batch, size in itertools.product((1, 3), ((180, 240), (70, 61))):
        given = {name: torch.tensor(array) for name, array in outputs(batch).items()}
        geometry = find_geometry(*size, found.transform())
        for place, one in enumerate(found.decode(outputs(batch))):
            own = found.restore(one, geometry)
            # rfdetr.models.postprocess.PostProcess of rfdetr 1.11, for one image
            scores = given["labels"][place].sigmoid().flatten()
            best = torch.argsort(scores, descending=True, stable=True)[:QUERIES]
            best = best[scores[best] > 0.001]
            x, y, width, height = given["dets"][place][best // CLASSES].unbind(-1)
            boxes = torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], -1).clamp(0, 1)
            planes = given["masks"][place].index_select(0, best // CLASSES)[:, None]
            expected = (
                torch.nn.functional.interpolate(planes, size=size, mode="bilinear", align_corners=False)[:, 0] > 0
            )
            assert own.labels.tolist() == (best % CLASSES).tolist()
            sides = torch.tensor([size[1], size[0]] * 2)
            np.testing.assert_allclose(own.boxes, (boxes * sides).numpy(), atol=1e-3)
            assert isinstance(own.extra, Masks)
            decoded = np.stack([mask.decode(each) for each in own.extra.encoded()])
            assert (decoded != expected.numpy()).mean() < 1e-4  # logits next to 0, summed in another order
            kept = own.take(np.array([1, 0])).extra
            assert isinstance(kept, Masks)
            assert kept.counts == own.extra.counts[1::-1]


def test_a_model_with_masks_may_be_taken_for_its_boxes() -> None:
    assert family(family="detr-logits").task == "boxes"
    assert family("dets", "labels").name == "detr-logits"
    with refused(UsageProblem):
        family("dets", "labels", family="detr-masks")


def test_masks_of_another_kind_are_refused() -> None:
    found, given = family(), outputs(2)
    with pytest.raises(UsageProblem, match=re.escape("masks has shape [2, 11, 24, 24] next to boxes [2, 12, 4]")):
        found.decode({**given, "masks": given["masks"][:, 1:]})
    given["masks"][1, 2, 3, 4] = np.inf
    with pytest.raises(NotFinite, match="masks"):
        found.decode(given)
