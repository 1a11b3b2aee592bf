"""Values on hover: every area lies over what it names, and names are text."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from trt_workbench.report.hover import listed, say_columns, say_point, say_rows
from trt_workbench.report.page import render, within_page
from trt_workbench.report.style import figure

SVG = "{http://www.w3.org/2000/svg}"


def areas(path: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Return the attributes of the areas of a kind, by their titles."""
    drawn = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    found = [one for one in drawn.iter(f"{SVG}{kind}") if one.get("class") == "spot"]
    return {one.findtext(f"{SVG}title") or "": {**one.attrib} for one in found}


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_strip_reaches_to_the_middle_of_its_neighbours(tmp_path: Path, scale: str) -> None:
    with figure(tmp_path / "f.svg") as axes:
        places = [1.0, 2.0, 3.0] if scale == "linear" else [1.0, 10.0, 100.0]
        axes.plot(places, [1, 2, 3])
        axes.set_xscale(scale)
        say_columns(axes, {place: f"at {place:g}" for place in places})
    one, two, three = (areas(tmp_path / "f.svg", "rect")[f"at {place:g}"] for place in places)
    assert float(one["x"]) + float(one["width"]) == pytest.approx(float(two["x"]), abs=0.11)
    assert float(two["x"]) + float(two["width"]) == pytest.approx(float(three["x"]), abs=0.11)
    left, right = float(one["x"]), float(three["x"]) + float(three["width"])
    assert float(two["x"]) + float(two["width"]) / 2 == pytest.approx((left + right) / 2, abs=0.5)
    box = axes.get_window_extent()
    assert (right - left) == pytest.approx(box.width / 2, abs=0.2)  # 144 pixels and 72 points an inch


def test_a_row_lies_over_its_bar(tmp_path: Path) -> None:
    with figure(tmp_path / "f.svg") as axes:
        axes.barh([0, 1], [5, 7])
        axes.set_ylim(2, -1)  # downwards
        say_rows(axes, {0: "first", 1: "second"})
    found = areas(tmp_path / "f.svg", "rect")
    assert float(found["first"]["y"]) < float(found["second"]["y"])
    top = 4.2 * 72 - axes.transData.transform((0, 0))[1] / 2
    assert float(found["first"]["y"]) < top < float(found["second"]["y"])


def test_a_point_is_where_it_is_drawn(tmp_path: Path) -> None:
    with figure(tmp_path / "f.svg") as axes:
        axes.plot([1, 9], [3, 4])
        say_point(axes, 9, 4, "it")
    x, y = axes.transData.transform((9, 4)) / 2
    found = areas(tmp_path / "f.svg", "circle")["it"]
    assert (float(found["cx"]), float(found["cy"])) == (pytest.approx(x, abs=0.1), pytest.approx(4.2 * 72 - y, abs=0.1))


def test_many_values_are_thinned_and_long_titles_end(tmp_path: Path) -> None:
    with figure(tmp_path / "f.svg") as axes:
        axes.plot(range(1, 5000))
        say_columns(axes, {place: str(place) for place in range(1, 5000)})
    assert 60 < len(areas(tmp_path / "f.svg", "rect")) <= 120
    text = listed("head", {str(place): "x" for place in range(50)})
    assert text.splitlines()[::21] == ["head", "and 30 more"]


def test_names_are_no_markup_and_the_page_names_the_picture(tmp_path: Path) -> None:
    with figure(tmp_path / "f.svg") as axes:
        axes.set_title('<script>"a" & b</script>')
        axes.plot([1, 2], [1, 2], label="</svg>")
        axes.legend()
        say_columns(axes, {1: "<b>&", 2: '"'})
    shown = within_page(tmp_path / "f.svg", '"><b>')
    assert "<script>" not in shown
    assert "<b>" not in shown
    assert shown.count("</svg>") == 1
    drawn = ElementTree.fromstring(shown)
    assert drawn.get("aria-label") == '"><b>'
    assert "<b>&" in areas(tmp_path / "f.svg", "rect")
    assert 'id="figure' not in shown


def test_colours_are_the_pages_and_hold_without_one(tmp_path: Path) -> None:
    with figure(tmp_path / "f.svg") as axes:
        axes.plot([1, 2], [1, 2], color="#0072b2")
    text = (tmp_path / "f.svg").read_text(encoding="utf-8")
    assert "var(--series-1, #0072b2)" in text
    assert "var(--panel, #ffffff)" in text
    page = render("report/page.html.j2")
    named = {part.split(",")[0] for part in text.split("var(--")[1:]}
    assert [name for name in named if f"--{name}:" not in page] == []
