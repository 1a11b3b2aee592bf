"""Lines of Ultralytics' labels, and the lines that are none."""

from pathlib import Path

import pytest

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.forms.yolo_labels import LabelReader, Labels

SIZE = (200, 100)


def read(folder: Path, text: str, keypoints: tuple[int, int] | None = None) -> Labels:
    file = folder / "a.txt"
    file.write_bytes(text.encode())
    return LabelReader(3, keypoints).read(file, SIZE)


def test_a_segment_and_the_corners_of_a_rotated_box_are_polygons(tmp_path: Path) -> None:
    first, second = read(tmp_path, "1 0 0 0.5 0 0.5 1\n0 0.5 0 1 0.5 0.5 1 0 0.5\n").objects
    assert first["segmentation"] == [[0, 0, 100, 0, 100, 100]]
    assert (first["bbox"], first["area"]) == ([0, 0, 100, 100], 5000)
    assert second["segmentation"] == [[100, 0, 200, 50, 100, 100, 0, 50]]
    assert (second["bbox"], second["area"]) == ([0, 0, 200, 100], 10000)


def test_keypoints_keep_their_visibility(tmp_path: Path) -> None:
    (one,) = read(tmp_path, "0 0.5 0.5 1 1 0.5 0.5 2 0 0 0", (2, 3)).objects
    assert one["keypoints"] == [100, 50, 2, 0, 0, 0]
    assert (one["num_keypoints"], one["bbox"]) == (1, [0, 0, 200, 100])
    (two,) = read(tmp_path, "0 0.5 0.5 1 1 0.5 0.5 0.25 0", (2, 2)).objects
    assert two["keypoints"] == [100, 50, 2, 50, 0, 2]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("0 0.5 0.5 0.1", "it has 4 values; a box has 5"),
        ("0 0.5 0.5 0.1 0.1 0.7", "a rotated box is its four corners"),
        ("0 0.5 0.5 0.1 0.1 0.2 0.2 1 0.3 0.3 1 0.4 0.4 1", "a pose needs kpt_shape"),
        ("0 0.1 0.1 0.2 0.2 0.3 0.3 0.4", "pairs of x and y"),
        ("3 0.5 0.5 0.1 0.1", "class 3, and the data set has classes 0 to 2"),
        ("-1 0.5 0.5 0.1 0.1", "class -1"),
        ("0.5 0.5 0.5 0.1 0.1", "class 0.5"),
        ("dog 0.5 0.5 0.1 0.1", "'dog' is not a number"),
        ("0 nan 0.5 0.1 0.1", "nan is not finite"),
        ("0 0.5 0.5 1.2 0.1", "1.2 is outside of the image"),
        ("0 -0.3 0.5 0.1 0.1", "-0.3 is outside of the image"),
        ("0 320 240 50 60", "320 is outside of the image; labels are shares of its sides, 0 to 1, not pixels"),
        ("0 0.5 0.5 0.1 0.1\n0 0 0 0.5 0 0.5 1", "a segment of two points"),
    ],
)
def test_what_is_no_label_is_named_with_its_line(tmp_path: Path, line: str, text: str) -> None:
    with pytest.raises(UsageProblem, match=text) as problem:
        read(tmp_path, f"\n{line}\n")
    assert str(problem.value).endswith("a.txt:2")


def test_a_line_must_have_the_keypoints_that_the_data_set_has(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"it has 5 values; with kpt_shape \[2, 3\] a line has 11"):
        read(tmp_path, "0 0.5 0.5 1 1", (2, 3))


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageProblem, match="cannot be read"):
        LabelReader(1, None).read(tmp_path / "b.txt", SIZE)
