import json

import pytest
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families import recognise

COCO = str({index: f"class {index}" for index in range(80)})
# What ultralytics 8.4's exporter writes beside `head`, `end2end` and, of other tasks, `kpt_shape` and `kpt_names`.
ULTRALYTICS = {
    "description": "Ultralytics model trained on coco.yaml",
    "author": "Ultralytics",
    "date": "2026-11-01T12:00:00+00:00",
    "version": "8.4.142",
    "license": "AGPL-3.0 License (https://ultralytics.com/license)",
    "docs": "https://docs.ultralytics.com",
    "stride": "32",
    "task": "detect",
    "batch": "1",
    "imgsz": "[640, 640]",
    "names": COCO,
    "args": "{'batch': 1, 'half': False, 'dynamic': False, 'simplify': True, 'opset': None, 'nms': False}",
    "channels": "3",
}
Shape = tuple[int | None, ...]


def image(*shape: int | None, dtype: str = "float32") -> TensorSpec:
    return TensorSpec("images", dtype, shape or (1, 3, 640, 640))


def out(*shape: int | None, name: str = "output0", dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name, dtype, shape)


def names(count: int) -> dict[str, str]:
    return {"names": json.dumps([f"class {index}" for index in range(count)])}


@pytest.mark.parametrize(
    ("output", "metadata", "family", "classes"),
    [
        ((1, 300, 6), {}, "yolov10", None),
        ((1, 300, 6), {"names": COCO, "task": "detect", "imgsz": "[640, 640]"}, "yolov10", 80),
        ((None, 300, 6), names(7), "yolov10", 7),
        ((1, 84, 8400), {}, "yolov8", 80),
        ((1, 84, 8400), {"names": COCO}, "yolov8", 80),
        ((None, 5, 8400), {}, "yolov8", 1),
        ((1, 6, 8400), {}, "yolov8", 2),
        ((1, 84, 34000), {}, "yolov8", 80),  # with the P2 level
        ((1, 8400, 84), {"names": COCO}, "yolov8", 80),  # transposed: 80 names make it certain
        ((1, 8400, 84), names(79), "yolox", 79),
        ((1, 8400, 85), {}, "yolox", 80),
        ((None, 8400, 6), {}, "yolox", 1),
        ((1, 8500, 85), {}, "yolox", 80),  # with the P6 level
        ((1, 8400, 85), names(81), "yolov8", 81),
        ((1, 300, 6), ULTRALYTICS | {"head": "RTDETRDecoder", "end2end": "False"}, "detr", 80),
        ((None, None, None), ULTRALYTICS | {"head": "RTDETRDecoder", "end2end": "False"}, "detr", 80),
        ((1, 300, 84), ULTRALYTICS | {"head": "RTDETRDecoder"}, "detr", 80),
        ((1, 300, 84), ULTRALYTICS | {"description": "Ultralytics rtdetr-l model"}, "detr", 80),
        ((None, None, None), ULTRALYTICS | {"head": "Detect", "end2end": "True"}, "yolov10", 80),
        ((None, None, None), ULTRALYTICS | {"head": "v10Detect", "end2end": "True"}, "yolov10", 80),
        ((None, None, None), ULTRALYTICS | {"head": "Detect", "end2end": "False"}, "yolov8", 80),
        ((None, None, None), ULTRALYTICS | {"end2end": "False", "args": "{'batch': 1, 'nms': True}"}, "yolov10", 80),
        ((1, 84, 8400), ULTRALYTICS | {"end2end": "False", "args": "{'nms': False}"}, "yolov8", 80),
        ((1, 84, 8400), ULTRALYTICS | {"args": "--half"}, "yolov8", 80),
    ],
)
def test_one_output_of_a_known_shape(output: Shape, metadata: dict[str, str], family: str, classes: int | None) -> None:
    found = recognise([image()], [out(*output)], metadata)
    assert (found.name, found.class_count, found.input_size) == (family, classes, (640, 640))


UNSURE = {
    "84 values a row: 79 classes of yolox or 80 of a transposed yolov8": ((1, 8400, 84), {}),
    "three anchors a cell": ((1, 25200, 85), {}),
    "boxes of a transformer": ((1, 300, 84), {}),
    "another grid": ((1, 84, 8000), {}),
    "names and shape disagree": ((1, 84, 8400), names(20)),
    "names and shape disagree in yolox": ((1, 8400, 85), names(20)),
    "exported by Ultralytics, which has no yolox": ((1, 8400, 85), {"author": "Ultralytics"}),
    "rank 2": ((300, 6), {}),
    "rank 4": ((1, 3, 80, 80), {}),
    "no class": ((1, 4, 8400), {}),
    "all dynamic": ((None, None, None), {}),
    "end-to-end by the shape, not by the metadata": ((1, 300, 6), {"end2end": "False"}),
    "a raw head by the shape, not by the metadata": ((1, 84, 8400), {"end2end": "True"}),
    "a DETR of another shape": ((1, 84, 8400), {"head": "RTDETRDecoder", **names(80)}),
}


@pytest.mark.parametrize(("output", "metadata"), UNSURE.values(), ids=UNSURE)
def test_what_is_not_certain_asks_for_the_family(output: Shape, metadata: dict[str, str]) -> None:
    with refused(UsageProblem):
        recognise([image()], [out(*output)], metadata)


def test_a_second_output_is_not_certain() -> None:
    more = out(1, 9, 3, name="output1")
    with refused(UsageProblem):
        recognise([image()], [out(1, 84, 8400), more], {})
    assert recognise([image()], [out(1, 84, 8400), more], {}, Preparation(family="yolov8")).output.name == "output0"
    with refused(UsageProblem):
        recognise([image()], [out(1, 84, 8400), out(1, 84, 8400, name="other")], {}, Preparation(family="yolov8"))


@pytest.mark.parametrize(
    ("family", "output"),
    [
        ("yolov8", (1, 84, 1000)),  # a grid of another kind
        ("yolov8", (1, 8400, 84)),  # transposed, without names
        ("yolox", (1, 8400, 84)),
        ("yolox-raw", (1, 8400, 85)),
        ("yolox-decoded", (1, 8400, 85)),
        ("yolov10", (1, 8400, 6)),
    ],
)
def test_a_named_family_is_taken_where_it_is_possible(family: str, output: Shape) -> None:
    assert recognise([image()], [out(*output)], {}, Preparation(family=family)).name == family.partition("-")[0]
    base = family.partition("-")[0]
    assert recognise([image()], [out(*output)], {"family": base}).name == base


@pytest.mark.parametrize(
    ("family", "output", "metadata"),
    [
        ("yolov10", (1, 84, 8400), {}),
        ("yolox", (1, 300, 6), {}),
        ("yolox", (1, 25200, 85), {}),
        ("yolov8", (1, 300, 6), {}),
        ("yolov8", (1, 84, 8400), {"names": "['one']"}),
    ],
)
def test_a_named_family_that_is_impossible_is_refused(family: str, output: Shape, metadata: dict[str, str]) -> None:
    with refused(UsageProblem) as caught:
        recognise([image()], [out(*output)], metadata, Preparation(family=family))
    assert "--family" in str(caught.value)
    with refused(UsageProblem):
        recognise([image()], [out(*output)], {**metadata, "family": family})


def test_an_unknown_family_gets_near_matches() -> None:
    with refused(UsageProblem):
        recognise([image()], [out(1, 300, 6)], {}, Preparation(family="yolo-x"))
    with refused(UsageProblem):
        recognise([image()], [out(1, 300, 6)], {}, Preparation(family="ssd"))


@pytest.mark.parametrize(
    "metadata",
    [
        {"task": "semantic"},
        {"task": "depth"},
        {"channels": "1"},
    ],
)
def test_other_tasks_are_refused_by_name(metadata: dict[str, str]) -> None:
    for family in (None, "yolov10"):
        with refused(UsageProblem):
            recognise([image()], [out(1, 300, 6)], metadata, Preparation(family=family))


def test_a_detr_stretches_the_image() -> None:
    found = recognise([image()], [out(1, 300, 6)], {"head": "RTDETRDecoder"})
    transform = found.transform()
    assert (transform.placement, transform.channels, transform.scale) == ("stretch", "rgb", 1 / 255)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{0: 'person', 1: \"bird's\"}", ("person", "bird's")),
        ('{"1": "b", "0": "a"}', ("a", "b")),
        ('["a", "b"]', ("a", "b")),
        ("('a', 'b')", ("a", "b")),
        ("", None),
    ],
)
def test_names_in_every_usual_form(text: str, expected: tuple[str, ...] | None) -> None:
    assert recognise([image()], [out(1, 300, 6)], {"names": text}).names == expected


@pytest.mark.parametrize(
    "text", ["{0: 'a', 2: 'c'}", "[]", "{}", "[1, 2]", "5", "a, b", "{'x': 'a'}", "__import__('os')"]
)
def test_names_that_are_none_are_refused(text: str) -> None:
    with refused(UsageProblem):
        recognise([image()], [out(1, 300, 6)], {"names": text})


@pytest.mark.parametrize(
    ("shape", "layout"),
    [((1, 3, 320, 640), "nchw"), ((None, None, 320, 640), "nchw"), ((1, 320, 640, 3), "nhwc")],
)
def test_the_transform_follows_the_input(shape: Shape, layout: str) -> None:
    found = recognise([image(*shape, dtype="float16")], [out(1, 300, 6)], {})
    transform = found.transform()
    assert (transform.height, transform.width, transform.layout, transform.dtype) == (320, 640, layout, "float16")


def test_an_integer_input_takes_grey_levels() -> None:
    found = recognise([image(1, 640, 640, 3, dtype="uint8")], [out(1, 300, 6)], {})
    assert (found.transform().scale, found.transform().dtype) == (1.0, "uint8")


@pytest.mark.parametrize(
    "inputs",
    [
        [],
        [image(), image()],
        [image(1, 3, 640)],
        [image(1, 1, 640, 640)],
        [image(dtype="int64")],
    ],
)
def test_what_takes_no_image_is_refused(inputs: list[TensorSpec]) -> None:
    with refused(UsageProblem):
        recognise(inputs, [out(1, 300, 6)], {})


class TestImageSize:
    fixed = image(1, 3, 416, 640)
    dynamic = image(None, 3, None, None)

    def test_a_fixed_input_takes_no_other(self) -> None:
        with refused(UsageProblem):
            recognise([self.fixed], [out(1, 300, 6)], {}, Preparation(imgsz=(640, 640)))
        with refused(UsageProblem):
            recognise([self.fixed], [out(1, 300, 6)], {"imgsz": "[640, 640]"})

    @pytest.mark.parametrize(("text", "size"), [("[320, 512]", (320, 512)), ("320", (320, 320))])
    def test_a_dynamic_input_has_that_of_the_metadata(self, text: str, size: tuple[int, int]) -> None:
        found = recognise([self.dynamic], [out(None, 84, None)], {"imgsz": text})
        assert (found.name, found.input_size) == ("yolov8", size)

    def test_a_half_dynamic_input_keeps_its_fixed_side(self) -> None:
        half = image(1, 3, 320, None)
        assert recognise([half], [out(1, 300, 6)], {}, Preparation(imgsz=(320, 480))).input_size == (320, 480)
        with refused(UsageProblem):
            recognise([half], [out(1, 300, 6)], {}, Preparation(imgsz=(480, 480)))

    def test_without_any_it_must_be_given(self) -> None:
        with refused(UsageProblem):
            recognise([self.dynamic], [out(None, 84, None)], {})

    @pytest.mark.parametrize("text", ["[1, 2, 3]", "'big'", "[a", "[640, 'x']"])
    def test_metadata_that_is_no_size_is_refused(self, text: str) -> None:
        with refused(UsageProblem):
            recognise([self.dynamic], [out(None, 84, None)], {"imgsz": text})

    def test_dynamic_rows_of_six_could_be_two_families(self) -> None:
        with refused(UsageProblem):
            recognise([self.dynamic], [out(None, None, 6)], {}, Preparation(imgsz=(640, 640)))
