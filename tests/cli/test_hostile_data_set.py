"""Data sets and runs over them that were made to break something: images, annotations, metadata, run directories."""

import json
import struct
import zlib
from typing import Any

import pytest
from tests.cli.hostile import refused


def png(width: int, height: int) -> bytes:
    """A PNG of zeros, which take a thousandth of the pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = zlib.compress(bytes((1 + 3 * width) * height), 1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_an_image_of_too_many_pixels_is_refused_by_its_header(coco: Any) -> None:
    data = png(8, 8)
    head = struct.pack(">IIBBBBB", 16000, 16000, 8, 2, 0, 0, 0)
    data = data[:16] + head + struct.pack(">I", zlib.crc32(b"IHDR" + head)) + data[33:]
    (coco.images / "1.png").write_bytes(data)
    coco.assert_refused(coco.invoke(), "more than 134217728 pixels")


@pytest.mark.long
def test_an_image_one_pixel_wide_has_a_picture_in_the_report(coco: Any) -> None:
    (coco.images / "1.png").write_bytes(png(1, 20_000))
    assert coco.invoke().exit_code == 0
    assert max(path.stat().st_size for path in (coco.output / "plots").rglob("*.jpg")) < 10**6


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"iscrowd": "0"}, "iscrowd must be 0 or 1"),
        ({"id": 2}, "have duplicate ids [2]"),
        ({"image_id": 2**70}, "64 bits"),
        ({"bbox": "abcd"}, "not in COCO's"),
    ],
)
def test_annotations_that_cannot_be(coco: Any, change: dict[str, Any], text: str) -> None:
    rows = json.loads(coco.annotations.read_text())["annotations"]
    coco.rewrite(annotations=[{**rows[0], **change}, *rows[1:]])
    coco.assert_refused(coco.invoke(), text)


def test_names_that_crash_libraries_are_refused(coco: Any) -> None:
    coco.rewrite(categories=[{"id": 3, "name": "\ud800"}, {"id": 17, "name": "circle"}])
    coco.assert_refused(coco.invoke(), "unprintable characters")
    coco.rewrite(categories=[{"id": 3, "name": "square"}, {"id": 17, "name": "circle"}])
    coco.write_model(classes='["\\ud800", "b"]')
    coco.assert_refused(coco.invoke(), "unprintable characters")


@pytest.mark.long
def test_a_file_name_that_is_no_text_is_evaluated_and_shown(coco: Any) -> None:
    (coco.images / "1.png").rename(coco.images / "b\udcffad.png")
    rows = json.loads(coco.annotations.read_text())["images"]
    coco.rewrite(images=[{**rows[0], "file_name": "b\udcffad.png"}, *rows[1:]])
    assert coco.invoke().exit_code == 0
    assert "b\\udcffad.png" in (coco.output / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "names", ["[" * 5000, "9" * 5000, "{1: 'a', inf: 'b'}", "{[]: 1}"], ids=["deep", "digits", "inf", "key"]
)
def test_metadata_that_cannot_be(coco: Any, names: str) -> None:
    coco.write_model(classes=names)
    coco.assert_refused(coco.invoke(), "metadata `names`")


ALTERED: list[tuple[str, list[Any], Any]] = [
    ("metrics.json", ["dataset"], None),
    ("metrics.json", ["per_class"], 3),
    ("metrics.json", ["model"], [[]]),
    ("metrics.json", ["latency_ms", "total"], "x"),
    ("metrics.json", ["AP75"], None),
    ("confusion.json", ["matrix"], {}),
    ("curves.json", ["recall"], None),
    ("env.json", ["driver", "gpus"], 1),
    ("run.json", ["command"], 1),
]


@pytest.mark.long
def test_altered_run_directories(coco: Any) -> None:
    assert coco.invoke().exit_code == 0
    for name, path, value in ALTERED:
        sound = (coco.output / name).read_text()
        document = part = json.loads(sound)
        for key in path[:-1]:
            part = part[key]
        if value is None:
            del part[path[-1]]
        else:
            part[path[-1]] = value
        (coco.output / name).write_text(json.dumps(document))
        assert str(coco.output / name) in refused("report", coco.output, text=f"{name} is damaged at {'.'.join(path)}")
        (coco.output / name).write_text(sound)
