"""What the user or the metadata says of the images changes a family's own preparation, in every command alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.in_app import trtw
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import ImageTransform
from trt_workbench.backends.preparation import Preparation
from trt_workbench.bench.config import ModelEntry
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families import Family, recognise
from trt_workbench.vision.letterbox import letterbox
from trt_workbench.vision.preparation import SAID, flag

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def family(name: str, metadata: Any = None, dtype: str = "float32", **said: Any) -> Family:
    shape = (1, 85, 6) if name == "yolox" else (1, 300, 6)
    image, out = TensorSpec("images", dtype, (1, 3, 64, 64)), TensorSpec("out", "float32", shape)
    return recognise((image,), (out,), metadata or {}, Preparation(family=name, **said))


@pytest.mark.parametrize(
    "command", ["eval-coco", "predict", "quantize", "sensitivity", "decide", "verify", "build-engine"]
)
def test_every_command_that_prepares_images_takes_the_same_options(command: str) -> None:
    text = trtw(command, "--help").stdout
    assert [name for name in (*SAID, "family", "imgsz", "exif") if f"{flag(name)} " not in text] == []


def test_a_model_of_a_bench_says_it_in_its_entry() -> None:
    said = {"family": "detr-logits", "normalize": "imagenet", "channel_order": "bgr", "background": "last"}
    assert Preparation.of(ModelEntry(path=Path("m.onnx"), **said)) == Preparation(**said)


def test_what_is_said_replaces_the_family_s_own() -> None:
    own = family("yolov10").preparation()
    assert own == family("yolov10").transform()
    found = family("yolov10", normalize="imagenet", channel_order="bgr", resize="stretch").preparation()
    assert (found.scale, found.mean, found.std) == (1 / 255, MEAN[::-1], STD[::-1])
    assert (found.channels, found.placement, found.antialias) == ("bgr", "stretch", False)
    legacy = family("yolox", normalize="imagenet", channel_order="rgb").preparation()
    assert (legacy.scale, legacy.mean, legacy.placement) == (1 / 255, MEAN, "top-left")
    boxed = family("detr", normalize="0-255", resize="letterbox").preparation()
    assert (boxed.scale, boxed.placement) == (1, "centre")
    assert family("detr", resize="stretch-antialias").preparation().antialias


def test_the_metadata_says_it_where_the_user_does_not() -> None:
    metadata = {"normalize": "imagenet", "channel_order": "bgr", "channels": "3", "resize": "stretch"}
    found = family("yolov10", metadata).preparation()
    assert (found.mean, found.channels, found.placement) == (MEAN[::-1], "bgr", "stretch")
    users = family("yolov10", metadata, normalize="none", channel_order="rgb", resize="letterbox").preparation()
    assert users == family("yolov10").transform()
    with refused(UsageProblem):
        family("yolov10", {"resize": "crop"})


def test_what_has_no_meaning_is_refused() -> None:
    with refused(UsageProblem):
        family("yolov10", background="last")
    assert family("yolov10", dtype="uint8", normalize="none").preparation().scale == 1
    with refused(UsageProblem):
        family("yolov10", dtype="uint8", normalize="imagenet").preparation()


@pytest.mark.parametrize("size", [(40, 90), (97, 61), (13, 300), (80, 60), (1, 1)])
def test_antialiasing_is_that_of_pillow(size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (80, 60, 3), dtype=np.uint8)
    own, _ = letterbox(image, ImageTransform(*size, placement="stretch", antialias=True))
    across = Image.fromarray(image).resize((size[1], 80), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(own, across.resize(size[::-1], Image.Resampling.BILINEAR))
