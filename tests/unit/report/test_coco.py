import json
import os
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import cv2
import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.texts import refused

from trt_workbench.core import directory
from trt_workbench.core.errors import UsageProblem
from trt_workbench.report.reports import write_report
from trt_workbench.vision.boxes import bgr
from trt_workbench.vision.document import f1
from trt_workbench.vision.gallery import FOUND, MISSED, PANEL_WIDTH, PER_GROUP, WRONG, choose, side_by_side
from trt_workbench.vision.plots import most_confused
from trt_workbench.vision.report import read, summarise
from trt_workbench.vision.tasks.registry import task_of

VOID = {"meta", "img", "br"}


class Checker(HTMLParser):
    """Collects sources, and fails on tags that do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.sources += [value for name, value in attrs if name in {"src", "href"} and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_no_other_file(make_run: Callable[..., Path]) -> None:
    page = write_report(make_run()).read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(checker.sources) == 1 + 3 * PER_GROUP
    assert page.count('<svg role="img"') == 3
    assert all(source.startswith("data:image/") for source in checker.sources)
    assert "circle &lt;b&gt;" in page
    assert "circle <b>" not in page
    assert "&#39;a folder&#39;" in page
    assert "too few to claim" in page  # percentiles


def test_colours_tell_what_is_found_missed_and_wrong(tmp_path: Path) -> None:
    file, size = tmp_path / "white.png", PANEL_WIDTH
    cv2.imwrite(str(file), np.full((size, size, 3), 255, np.uint8))
    boxes = [{"image_id": 1, "category_id": 1, "bbox": [50.0, 60.0 + 200 * one, 300.0, 120.0]} for one in range(2)]
    picture = side_by_side(file, boxes, boxes, {1: "cat"}, task_of("boxes"), apart=([1], [0]))
    assert picture is not None
    at = [(120, 50), (320, 50), (120, picture.shape[1] - size + 50), (320, picture.shape[1] - size + 50)]
    expected = [bgr(one) for one in (FOUND, MISSED, WRONG, FOUND)]
    assert [tuple(int(value) for value in picture[one]) for one in at] == expected


def test_a_long_provenance_is_folded_away(make_run: Callable[..., Path]) -> None:
    manifest = {"options": {"precision": ["fp16"]}, "model": "<b>.onnx"}
    provenance = {"tensorrt": "8.6.0", "notes": ["one", "two"], "lost": [], "driver_of": None, "manifest": manifest}
    page = write_report(make_run(provenance=provenance)).read_text(encoding="utf-8")
    assert "tensorrt 8.6.0; notes one, two<details><summary>manifest</summary><pre>{" in page
    assert "driver_of" not in page
    assert "lost" not in page
    assert "<b>.onnx" not in page
    checker = Checker()
    checker.feed(page)
    assert checker.open == []


def test_plots_are_pictures(make_run: Callable[..., Path]) -> None:
    run = make_run()
    write_report(run)
    plots = sorted((run / "plots").glob("*.*"))
    assert [path.name for path in plots] == [
        "confusion_matrix.png",
        "figures.svg",
        "per_class_ap.svg",
        "precision_recall.svg",
    ]
    for path in plots:
        if path.suffix == ".svg":
            drawn = ElementTree.fromstring(path.read_text(encoding="utf-8"))
            assert len(list(drawn.iter("{http://www.w3.org/2000/svg}title"))) >= 1
            continue
        picture = cv2.imread(str(path))
        assert picture.std() > 5  # not blank
    assert len(list((run / "plots" / "gallery").glob("*.jpg"))) == 3 * PER_GROUP


@pytest.mark.parametrize("place", ["plots", "plots/gallery"])
def test_a_linked_folder_of_pictures_is_refused(make_run: Callable[..., Path], tmp_path: Path, place: str) -> None:
    run, elsewhere = make_run(), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run / place).parent.mkdir(exist_ok=True)
    (run / place).symlink_to(elsewhere)
    with refused(UsageProblem):
        write_report(run)
    assert list(elsewhere.iterdir()) == []


def test_a_linked_picture_is_replaced_not_followed(make_run: Callable[..., Path], tmp_path: Path) -> None:
    run = make_run()
    (tmp_path / "mine.png").write_text("mine")
    (run / "plots" / "gallery").mkdir(parents=True)
    for name in ("plots/per_class_ap.svg", "plots/gallery/best-1.jpg", "report.html"):
        (run / name).symlink_to(tmp_path / "mine.png")
    write_report(run)
    assert (tmp_path / "mine.png").read_text() == "mine"


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("name", ["../secret.jpg", "{root}/secret.jpg", "a/../../secret.jpg"])
def test_an_image_from_elsewhere_does_not_enter_the_gallery(
    make_run: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    run = make_run()
    shutil.copy(tmp_path / "images" / "0.jpg", tmp_path / "secret.jpg")
    (tmp_path / "images" / "a").mkdir()
    text = (run / "records.jsonl").read_text().replace("0.jpg", name.format(root=tmp_path))
    (run / "records.jsonl").write_text(text)
    with refused(UsageProblem):
        write_report(run)


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_of_another_process_only_the_pictures_that_it_drew_are_shown(
    make_run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may name any folder; its report may be passed on."""
    run = make_run()
    mine = write_report(run).read_text(encoding="utf-8")
    assert mine.count("data:image/jpeg") == 3 * PER_GROUP
    monkeypatch.setattr(directory, "_finished", None)
    reads = []
    monkeypatch.setattr(cv2, "imdecode", lambda *_: reads.append(1))
    assert write_report(run).read_text(encoding="utf-8") == mine
    gallery = run / "plots" / "gallery"
    secret = gallery / "best-1.jpg"
    shutil.copy(secret, tmp_path / "secret.jpg")
    for put in (
        lambda: secret.symlink_to(tmp_path / "secret.jpg"),
        lambda: secret.write_text("no picture"),
        lambda: os.mkfifo(secret),
        secret.mkdir,
    ):
        secret.unlink()
        put()
        assert write_report(run).read_text(encoding="utf-8").count("data:image/jpeg") == 3 * PER_GROUP - 1
        secret.rmdir() if secret.is_dir() else secret.unlink()
        secret.touch()
    shutil.rmtree(gallery)
    assert "No gallery" in write_report(run).read_text(encoding="utf-8")
    assert not reads


STRANGE = ["$\\frac{$", "$x$", "\ud800", "\x00\x1b[31m", "_hidden", "名前", "x" * 5000, "a\nb", "<script>x", ""]


def test_any_name_can_be_drawn(make_run: Callable[..., Path]) -> None:
    run = make_run()
    metrics, curves, confusion = (run / f"{name}.json" for name in ("metrics", "curves", "confusion"))
    for file, rows in ((metrics, "per_class"), (curves, "classes")):
        document = json.loads(file.read_text())
        document[rows] = [{**document[rows][0], "category_id": at, "name": name} for at, name in enumerate(STRANGE)]
        file.write_text(json.dumps(document))
    matrix = np.ones((len(STRANGE) + 1, len(STRANGE) + 1), int).tolist()
    confused = json.loads(confusion.read_text()) | {"labels": [*STRANGE, "background"], "matrix": matrix}
    confusion.write_text(json.dumps(confused))
    page = write_report(run).read_text(encoding="utf-8")
    assert "<script>x" not in page
    assert "名前" in page


def test_boxes_beyond_the_picture_can_be_drawn(make_run: Callable[..., Path]) -> None:
    run = make_run()
    for path in (run / "predictions.json", run.parent / "truth.json"):
        path.write_text(path.read_text().replace("[5, 5, 20, 20]", "[-1e18, 5, 1e18, 1e300]"))
    write_report(run)


@pytest.mark.long
def test_settings_of_the_current_folder_change_no_picture(
    make_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, pictures = make_run(), []
    for usetex in (False, True):
        monkeypatch.setitem(matplotlib.rcParams, "text.usetex", usetex)
        write_report(run)
        pictures.append((run / "plots" / "per_class_ap.svg").read_bytes())
    assert pictures[0] == pictures[1]


def test_a_partial_run_says_so_and_without_annotations_there_is_no_ap(make_run: Callable[..., Path]) -> None:
    page = write_report(make_run(status="partial", AP=None, AP50=None, per_class=[])).read_text(encoding="utf-8")
    assert "Partial run" in page
    assert "there is no AP" in page


def test_without_the_images_the_rest_stands(make_run: Callable[..., Path]) -> None:
    run = make_run()
    shutil.rmtree(run.parent / "images")
    assert "No gallery" in write_report(run).read_text(encoding="utf-8")


def test_a_missing_or_truncated_file_is_named(make_run: Callable[..., Path]) -> None:
    run = make_run()
    for name in ("metrics.json", "curves.json", "confusion.json", "records.jsonl", "env.json"):
        text = (run / name).read_text()
        (run / name).write_text(text[: text.index(",")])  # not at a place that depends on the length of a path
        with refused(UsageProblem):
            write_report(run)
        (run / name).unlink()
        with refused(UsageProblem):
            write_report(run)
        (run / name).write_text(text)
    (run / "records.jsonl").write_text("")
    with refused(UsageProblem):
        write_report(run)


COUNTS = st.fixed_dictionaries(
    {name: st.integers(0, 5) for name in ("true_positives", "false_positives", "false_negatives")}
)


@given(st.lists(COUNTS, max_size=30), st.integers(0, 3))
def test_the_gallery_is_ordered_and_repeats_nothing(counts: list[dict[str, int]], seed: int) -> None:
    records = [
        {**row, "image_id": index, "ground_truths": row["true_positives"] + row["false_negatives"]}
        for index, row in enumerate(counts)
    ]
    groups = choose(records, seed)
    shown = [record["image_id"] for chosen in groups.values() for record in chosen]
    assert len(shown) == len(set(shown))
    assert len(shown) <= 3 * PER_GROUP
    if groups["best"] and groups["worst"]:
        assert min(map(f1, groups["best"])) >= max(map(f1, groups["worst"]))
    assert json.dumps(groups) == json.dumps(choose(records, seed))


def test_best_and_weakest_are_said_of_classes_with_enough_annotations_alone(make_run: Callable[..., Path]) -> None:
    rows = [("many", 0.5, 30), ("rare", 1.0, 2), ("common", 0.6, 25), ("once", 0.0, 1)]
    classes = [
        {"category_id": place, "name": name, "AP": ap, "AP50": ap, "ground_truths": count, "detections": count}
        for place, (name, ap, count) in enumerate(rows)
    ]
    words = " ".join(summarise(read(make_run(per_class=classes))))
    assert "Best class: common (AP 0.600); weakest: many (AP 0.500), of the 2 with 20 or more annotations." in words


def test_the_interval_stands_beside_the_figure(make_run: Callable[..., Path]) -> None:
    run = make_run(AP_ci95=[0.451, 0.549], resamples=1000)
    said = " ".join(summarise(read(run)))
    assert "95 % confidence interval of AP: 0.4510 to 0.5490 (bootstrap over 12 images)." in said
    assert "would give" not in said
    page = write_report(run).read_text(encoding="utf-8")
    assert "not a range for other images" in page
    assert page.count("0.4510 to 0.5490") == 4  # in the answer, on the card, in the picture and in the table


def test_a_confusion_matrix_of_80_classes_is_cut_down_to_what_can_be_read() -> None:
    counts = np.diag(np.full(81, 10.0))
    counts[70, 3], counts[5, 80], counts[40, 60], counts[41, 60] = 7, 100, 2, 3
    names = [f"c{place}" for place in range(80)]
    labels, reduced = most_confused([*names, "background"], counts)
    assert len(labels) == 22
    assert labels[-2:] == ["60 others", "background"]
    assert {"c3", "c70", "c40", "c41", "c60"} < set(labels)
    assert reduced.sum() == counts.sum()
    assert reduced[labels.index("c70"), labels.index("c3")] == 7
    few, same = most_confused(["a", "b", "background"], counts[:3, :3])
    assert few == ["a", "b", "background"]
    assert (same == counts[:3, :3]).all()


FAULT = {"fault": "reaching outside the image", "count": 3, "image_id": 2, "boxes": [[-5, 5, 20, 1e300], [1, 1, 0, 0]]}


def test_faults_of_annotations_are_shown_with_an_example(make_run: Callable[..., Path]) -> None:
    run = make_run(faults=[FAULT])
    page = write_report(run).read_text(encoding="utf-8")
    assert "Annotations to look at" in page
    assert "2.jpg: 2 reaching outside the image" in page
    picture = cv2.imread(str(run / "plots" / "gallery" / "fault-1.jpg"))
    assert picture is not None
    assert (picture[..., 2].astype(int) - picture[..., 0] > 100).any()


def test_a_run_without_faults_has_no_section_of_them(make_run: Callable[..., Path]) -> None:
    assert "Annotations to look at" not in write_report(make_run()).read_text(encoding="utf-8")


def test_a_fault_of_an_image_without_a_record_is_a_changed_run(make_run: Callable[..., Path]) -> None:
    with pytest.raises(UsageProblem, match="has no record"):
        write_report(make_run(faults=[{**FAULT, "image_id": 99}]))


def test_figures_are_dots_with_intervals_and_many_classes_show_both_ends(make_run: Callable[..., Path]) -> None:
    run = make_run()
    metrics, curves = run / "metrics.json", run / "curves.json"
    for file, rows in ((metrics, "per_class"), (curves, "classes")):
        document = json.loads(file.read_text())
        row = document[rows][0]
        document[rows] = [
            {**row, "category_id": at, "name": f"c{at:02}", "AP": at / 100, "ground_truths": 19 if at < 5 else 20}
            for at in range(40)
        ]
        document |= {"AP_ci95": [0.4, 0.6], "resamples": 1000}
        file.write_text(json.dumps(document))
    write_report(run)
    figures, bars = ((run / "plots" / name).read_text() for name in ("figures.svg", "per_class_ap.svg"))
    assert "<title>AP: 0.5000 (0.4000 to 0.6000)</title>" in figures
    shown = re.findall(r">(c\d\d) \(20\)<", bars)
    assert sorted(shown) == [f"c{at:02}" for at in (*range(5, 15), *range(30, 40))]
    assert "the best and the weakest 10 of 35" in bars
