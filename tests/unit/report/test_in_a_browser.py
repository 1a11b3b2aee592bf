"""Every kind of report in a real browser: nothing fails, nothing is too wide, nothing covers anything else.

`TRTW_SCREENSHOTS=DIR pytest tests/unit/report/test_in_a_browser.py` keeps a picture of each page at each width.
"""

import html
import json
import os
import re
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser import CHROMIUM, Browser, browser
from tests.in_app import trtw
from tests.kept_reports import checked_target, kept
from tests.onnx_text import write_onnx
from tests.run_folders import bench_folder, profile_folder
from tests.streaming_models import attention, contract_of, write_contract
from tests.unit.decide.test_report import ROWS, RUN, decision
from tests.unit.quantize.planted import planted_data, planted_model

from trt_workbench.core.artefacts import read_environment
from trt_workbench.core.documents import write_json
from trt_workbench.overview.report import write_overview
from trt_workbench.report.reports import write_report
from trt_workbench_history.run import write_history

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt install chromium)"),
    pytest.mark.timeout(300),
]
WIDTHS = (390, 1280)
# What stands beside or below one another in a page, and must not lie on one another.
FAULTS = """(() => {
  const edge = document.documentElement.clientWidth, found = [];
  const name = (one) => `${one.tagName} ${(one.textContent || one.alt || "").trim().slice(0, 40)}`;
  const scrolls = (one) => {
    for (let outer = one.parentElement; outer; outer = outer.parentElement)
      if (["auto", "scroll", "hidden"].includes(getComputedStyle(outer).overflowX)) return true;
    return false;
  };
  if (document.documentElement.scrollWidth > edge) found.push("the page scrolls sideways");
  for (const one of document.querySelectorAll("body *")) {
    const box = one.getBoundingClientRect();
    if (box.width && box.right > edge + 1 && !scrolls(one)) found.push(`beyond the edge: ${name(one)}`);
  }
  for (const group of document.querySelectorAll("main, section, .cards, .plots, .plots > div")) {
    const shown = [...group.children].filter((one) => one.getClientRects().length);
    const boxes = shown.map((one) => [one, one.getBoundingClientRect()]);
    boxes.forEach(([one, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 1) found.push(`one lies on the other: ${name(one)} | ${name(other)}`);
    }));
  }
  for (const pill of document.querySelectorAll(".pill"))
    if (pill.getClientRects().length && pill.clientHeight > 2 * parseFloat(getComputedStyle(pill).fontSize))
      found.push(`a pill of two lines: ${name(pill)}`);
  for (const cell of document.querySelectorAll("td:not(:has(*))")) {
    const text = document.createRange();
    text.selectNodeContents(cell);
    const lines = new Set([...text.getClientRects()].map((box) => box.top));
    if (lines.size > 1 && /^[+\\-]?[\\d.]+(e[+\\-]\\d+)?$/.test(cell.textContent.trim()))
      found.push(`a number of two lines: ${name(cell)}`);
  }
  for (const image of document.images)
    if (!image.complete || !image.naturalWidth) found.push(`no picture: ${image.alt} ${image.src.slice(0, 80)}`);
  for (const link of document.links)
    if (link.hash && !document.getElementById(decodeURIComponent(link.hash.slice(1))))
      found.push(`no place: ${link.hash}`);
  return found;
})()"""

# Text that cannot be told from its ground: below the contrast of WCAG 2.1's success criterion 1.4.3.
FAINT = """(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => parts(colour).slice(0, 3).map((one) => one / 255)
    .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (one) => {
    if (one instanceof SVGTextElement && one.previousElementSibling?.tagName === "rect")
      return getComputedStyle(one.previousElementSibling).fill;
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (parts(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement, text = texts.currentNode.textContent.trim();
    if (!text || !one.getClientRects().length) continue;
    const style = getComputedStyle(one);
    const [a, b] = [light(one instanceof SVGElement ? style.fill : style.color), light(ground(one))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.add(`faint (${contrast.toFixed(1)}): ${one.tagName} ${text.slice(0, 40)}`);
  }
  return [...found];
})()"""
# Pixels of CSS between the margins of a sheet of A4.
PAPER = 700


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def faults(page: Browser, path: Path, width: int) -> list[str]:
    """Everything that is wrong with a page at a width."""
    page.open(path, width)
    found = [*page.ask(FAULTS), *page.ask(FAINT), *page.complaints]
    for link in page.ask("[...document.links].map((one) => one.href)"):
        address = urllib.parse.urlsplit(link)
        if address.scheme != "file" or not Path(urllib.parse.unquote(address.path)).exists():
            found.append(f"a dead link: {link}")
    if folder := os.environ.get("TRTW_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.picture(Path(folder) / f"{path.parent.name}-{width}.png")
    return found


def faults_when(page: Browser, path: Path, name: str, width: int, **shown: Any) -> list[str]:
    """Everything that is wrong with the page that is open, when it is dark or on paper."""
    page.show(width, **shown)
    if folder := os.environ.get("TRTW_SCREENSHOTS"):
        page.picture(Path(folder) / f"{path.parent.name}-{width}-{name}.png")
    return [f"{name}: {fault}" for fault in (*page.ask(FAULTS), *page.ask(FAINT))]


def run(folder: Path, *words: object, code: int = 0) -> Path:
    done = trtw(*words, "--output", folder)
    assert done.exit_code == code, done.output
    return folder / "report.html"


_MADE: dict[str, Path] = {}  # once: they take seconds, and no test changes them


@pytest.fixture
def pages(tmp_path: Path, make_run: Callable[..., Path], outside_backend: Callable[..., None]) -> dict[str, Path]:
    """A report of every kind: of committed records where there are some, else made by the command."""
    if _MADE:
        return _MADE
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    text = "g (float[batch,3] images) => (float[batch,4] output0) { output0 = MatMul(images, w) }"
    model = write_onnx(
        tmp_path / "a model with a name that is quite long.onnx", text, {"w": np.ones((3, 4), np.float32)}
    )
    verify = ("verify", model, "--backend", "faulty", "--quick", "--dim", "batch=1:2:2")
    coco, bench = write_report(make_run()), kept(tmp_path, "bench-h200/yolov10m")
    llm = kept(tmp_path, "eval-llm/perplexity")
    made = {
        "eval-coco": coco,
        "bench": bench,
        "eval-llm": llm,
        "eval-llm, speed": kept(tmp_path, "eval-llm/gpt2-generate-b4"),
        "profile": run(tmp_path / "profiled", "profile", model, "--backend", "ort-cpu", "--iterations", 2),
        "profile, difference": write_report(profile_folder(tmp_path / "difference", 2.0, 120)),
        "verify, wrong": run(tmp_path / "wrong", *verify, "--option", "fault=stuck", code=1),
        "verify": run(tmp_path / "right", *verify),
    }
    made["overview"] = write_overview([one.parent for one in made.values()], tmp_path / "overview")
    for night, level in enumerate((1.0, 1.0, 1.2, 1.2)):
        times, day = [level + number / 1000 for number in range(9)], f"2026-10-0{night + 1}T12:00:00+00:00"
        bench_folder(tmp_path / "nights" / f"n{night}", {"trt:fp16": times}, day, f"{night}" * 40)
    made["history"] = write_history(tmp_path / "nights", tmp_path / "nights", "dates")
    place = tmp_path / "decide"
    place.mkdir()
    write_json(place / "decision.json", decision(*ROWS))
    write_json(place / "run.json", RUN)
    command = {"schema_version": 1, "command_line": ["/opt/venv/bin/trtw", "decide", "m.onnx"]}
    (place / "env.json").write_text(json.dumps(command), encoding="utf-8")
    made["decide"] = write_report(place)
    made["eval-stream"] = kept(tmp_path, "eval-stream/encoder-ort")
    made["check-target"] = checked_target(tmp_path / "target")
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    words = [planted_model(tmp_path / "p.onnx"), "--calibration", planted_data(tmp_path).calibration, "--seed", 3]
    made["sensitivity"] = run(tmp_path / "sensitivity", "sensitivity", *words)
    groups = tmp_path / "sensitivity" / "sensitivity.json"
    groups.write_text(groups.read_text().replace("planted", "/one_to_one/boxes.0/boxes.0.1/boxes.0.1.0/" * 3 + "Conv"))
    environment = json.loads(groups.with_name("env.json").read_text())
    environment["command_line"] += ["--calibration", "a_folder_with_a_long_name_" * 4]
    groups.with_name("env.json").write_text(json.dumps(environment))
    write_report(groups.parent)
    run(tmp_path / "made.onnx", "quantize", *words, "--to", "int8", "--score", "cosine", "--keep-score", 0.001)
    made["quantize"] = tmp_path / "made.search" / "report.html"
    made["check-contract"] = run(tmp_path / "contract", "check-contract", contract, attention(tmp_path))
    _MADE.update(made)
    return made


def test_every_report_is_sound_on_a_phone_and_on_a_screen_and_on_paper(page: Browser, pages: dict[str, Path]) -> None:
    found: dict[str, list[str]] = {}
    for kind, path in pages.items():
        for width in WIDTHS:
            found[f"{kind} at {width}"] = faults(page, path, width)
            found[f"{kind} at {width}"] += faults_when(page, path, "dark", width, dark=True)
        found[f"{kind} in print"] = faults_when(page, path, "print", PAPER, media="print")
    assert {place: faults for place, faults in found.items() if faults} == {}


def test_the_answer_is_on_the_first_screen(page: Browser, pages: dict[str, Path]) -> None:
    ends = {}
    # an overview lists the answers of others
    for kind in pages.keys() - {"overview", "eval-llm, speed"}:
        page.open(pages[kind], 1280)
        ends[kind] = page.ask("document.querySelector('.verdict .first').getBoundingClientRect().bottom")
    assert {kind: end for kind, end in ends.items() if end > 800} == {}


def test_every_report_of_a_run_says_by_which_command(pages: dict[str, Path]) -> None:
    runs = {kind: path for kind, path in pages.items() if kind not in ("overview", "history")}
    said = {kind: html.unescape(path.read_text(encoding="utf-8")) for kind, path in runs.items()}
    assert [kind for kind, path in runs.items() if read_environment(path.parent).command not in said[kind]] == []


def test_no_page_shows_what_is_not_known(pages: dict[str, Path]) -> None:
    texts = {kind: path.read_text(encoding="utf-8") for kind, path in pages.items()}
    revisions = {kind: re.findall(r"<td>revision</td><td[^>]*>(\w+)", text) for kind, text in texts.items()}
    assert not revisions["decide"]  # whose record has no commit
    assert revisions["eval-stream"]
    odd = {
        kind: re.findall(r"revision</td><td[^>]*>unknown| in None\b|[> ]-0\.0+[ <]", text)
        for kind, text in texts.items()
    }
    assert {kind: found for kind, found in odd.items() if found} == {}


def test_an_answer_with_a_verdict_has_a_colour(page: Browser, pages: dict[str, Path]) -> None:
    colourless = []
    for kind, path in pages.items():
        page.open(path, 1280)
        colourless += [kind] * bool(page.ask("document.querySelectorAll('.verdict .pill.plain').length"))
    assert colourless == []


def test_the_difference_of_two_profiles_is_read_without_a_long_way_down(page: Browser, pages: dict[str, Path]) -> None:
    page.open(pages["profile, difference"], 1280)
    assert page.ask("document.documentElement.scrollHeight") <= 3000
    widths = page.ask(
        """[...document.querySelectorAll(".strip")].map((strip) => [strip.clientWidth,
           [...strip.children].reduce((sum, one) => sum + one.getBoundingClientRect().width, 0)])"""
    )
    (whole, first), (_, second) = widths
    assert first == pytest.approx(whole / 2, rel=0.01)  # the target takes half of the other's time
    assert second == pytest.approx(whole, rel=0.01)


def test_the_best_and_the_worst_picture_begin_on_the_first_screen(page: Browser, pages: dict[str, Path]) -> None:
    page.open(pages["eval-coco"], 1280)
    boxes = page.ask(
        """[...document.images].slice(0, 2).map((one) => {
          const {top, height, width} = one.getBoundingClientRect();
          return [top, height, width / height - one.naturalWidth / one.naturalHeight];
        })"""
    )
    assert all(top < 800 and height <= 320 and abs(stretched) < 0.02 for top, height, stretched in boxes)


def test_the_figures_of_a_score_are_seen_without_scrolling_on_a_phone(page: Browser, pages: dict[str, Path]) -> None:
    page.open(pages["eval-coco"], 390)
    hidden = "(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)(document.querySelector('.scroll'))"
    assert page.ask(hidden) == 0


@pytest.mark.parametrize(
    ("kind", "heading"),
    [("profile", "time, ms"), ("eval-llm", "gate"), ("eval-stream", "gates"), ("eval-stream", "total p50, ms")],
)
def test_what_a_table_is_read_for_is_seen_without_scrolling_on_a_phone(
    page: Browser, pages: dict[str, Path], kind: str, heading: str
) -> None:
    page.open(pages[kind], 390)
    beyond = page.ask(
        f"""(() => {{
          const heading = [...document.querySelectorAll("th")].find((one) => one.textContent === {json.dumps(heading)});
          return heading.getBoundingClientRect().right - heading.closest(".scroll").getBoundingClientRect().right;
        }})()"""
    )
    assert beyond <= 0


def test_no_table_is_cut_on_a_phone_that_is_not_long(page: Browser, pages: dict[str, Path]) -> None:
    """What is too wide is a list of rows there, each cell behind its heading; on a screen it stays a table.

    A long one is, too, where the reader opens it.
    """
    cut, cells = {}, 0
    for kind, path in pages.items():
        page.open(path, 390)
        cut[kind] = page.ask(
            """(() => {
              for (const one of document.querySelectorAll("details")) one.open = true;
              dispatchEvent(new Event("resize"));
              return [...document.querySelectorAll(".scroll")].filter((box) => box.querySelector(":scope > table")
                && box.scrollWidth > box.clientWidth
                && (box.firstElementChild.rows.length <= 41 || box.closest("details"))).length;
            })()"""
        )
        cells += page.ask("document.querySelectorAll('.stack td[data-label]').length")
        page.show(1280)
        assert page.ask(
            "[...document.querySelectorAll('table')].every((one) => getComputedStyle(one).display === 'table')"
        )
    assert cut == dict.fromkeys(pages, 0)
    assert cells > 100


def test_a_picture_that_is_wider_than_a_phone_says_so(page: Browser, pages: dict[str, Path]) -> None:
    said = """[...document.querySelectorAll("figure.scroll")].map((one) =>
      [one.scrollWidth > one.clientWidth, getComputedStyle(one, "::after").content.includes("Scroll")])"""
    page.open(pages["eval-stream"], 390)
    on_a_phone = page.ask(said)
    assert [wide for wide, _ in on_a_phone] == [told for _, told in on_a_phone]
    assert any(wide for wide, _ in on_a_phone)
    page.open(pages["eval-stream"], 1280)
    assert [one for one in page.ask(said) if any(one)] == []


def test_plots_are_dark_and_photographs_are_not(page: Browser, pages: dict[str, Path]) -> None:
    page.open(pages["eval-coco"], 1280, dark=True)
    filters = "[...document.images].map((one) => [one.src.slice(5, 15), getComputedStyle(one).filter !== 'none'])"
    assert (
        page.ask("[...document.querySelectorAll('svg.plot')].map((one) => getComputedStyle(one).filter)")
        == ["none"] * 3
    )
    assert set(map(tuple, page.ask(filters))) == {("image/png;", True), ("image/jpeg", False)}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("bench", " ms ("),
        ("eval-coco", ": AP "),
        ("eval-coco", "recall 0."),
        ("eval-stream", "chunk "),
        ("sensitivity", "% of the noise"),
        ("quantize", "% of the noise"),
        ("decide", "loss "),
    ],
)
def test_a_chart_tells_its_values_on_hover(page: Browser, pages: dict[str, Path], kind: str, words: str) -> None:
    page.open(pages[kind], 1280)
    told = page.ask(
        """[...document.querySelectorAll("svg :is(.spot, .point)")].map((one) => {
          one.scrollIntoView({block: "center"});
          const box = one.getBoundingClientRect();
          const there = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
          return there?.querySelector("title")?.textContent || "";
        })"""
    )
    assert len(told) >= 3
    assert any(words in one for one in told)


def test_reports_are_of_one_width(page: Browser, pages: dict[str, Path]) -> None:
    widths = {}
    for kind, path in pages.items():
        page.open(path, 1600)
        widths[kind] = page.ask("document.querySelector('main').getBoundingClientRect().width")
    assert len(set(widths.values())) == 1, widths


def test_pictures_of_accuracy_begin_in_one_line(page: Browser, pages: dict[str, Path]) -> None:
    page.open(pages["eval-coco"], 1280)
    tops = page.ask(
        "[...document.querySelector('.plots:has(> div)').children].map((one) => one.getBoundingClientRect().top)"
    )
    assert len(tops) == 2
    assert len(set(tops)) == 1


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<div style='width: 2000px'>x</div>", "scrolls sideways"),
        ("<div style='position: absolute; left: 380px; width: 50px'>wide</div>", "beyond the edge: DIV wide"),
        ("<div>one</div><div style='margin-top: -15px'>two</div>", "one lies on the other: DIV one | DIV two"),
        ("<img src='gone.png' alt='it'>", "no picture: it"),
        ("<a href='gone.html'>x</a>", "a dead link"),
        ("<a href='#gone'>x</a>", "no place: #gone"),
        ("<a href='https://example.com/'>x</a>", "a dead link"),
        ("<p style='color: #999'>x</p>", "faint (2.8): P x"),
        ("<script>null.x</script>", "TypeError"),
        ("<script>console.error('complains')</script>", "complains"),
        ("<img src='http://127.0.0.1:9/x.png'>", "asks the network"),
    ],
)
def test_faults_are_found(page: Browser, tmp_path: Path, body: str, fault: str) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(f"<!doctype html><title>bad</title><main>{body}</main>")
    assert any(fault in one for one in faults(page, bad, 390))


def test_a_picture_is_shown_whole_by_a_click(page: Browser, pages: dict[str, Path]) -> None:
    page.open(pages["eval-coco"], 390)
    page.ask("document.querySelector('figure img').click()")
    shown = page.ask("[...document.querySelectorAll('dialog[open] img')].map((one) => [one.width, one.naturalWidth])")
    assert [width for width, whole in shown] == [whole for width, whole in shown] != []
    page.ask("document.querySelector('dialog[open] img').click()")
    gone = "document.querySelectorAll('dialog').length === 0"
    assert page.ask(
        f"new Promise((then) => {{ let left = 200; const look = () => "
        f"{gone} || --left === 0 ? then({gone}) : setTimeout(look, 50); look(); }})"
    )


@pytest.mark.parametrize(
    ("kind", "heading", "is_number"),
    [
        ("bench", "runtime", False),
        ("decide", "latency, ms", True),
        ("eval-coco", "value", True),
        ("eval-llm", "change", True),
        ("eval-stream", "p95", True),
        ("sensitivity", "of the noise", True),
    ],
)
def test_a_table_is_sorted_by_a_click(
    page: Browser, pages: dict[str, Path], kind: str, heading: str, is_number: bool
) -> None:
    page.open(pages[kind], 1280)
    cells = page.ask(
        f"""(() => {{
          const heading = [...document.querySelectorAll("th")].find((one) => one.textContent === {json.dumps(heading)});
          const table = heading.closest("table"), place = heading.cellIndex;
          heading.click();
          return [...table.rows].slice(1).map((row) => row.cells[place]?.firstChild?.textContent.trim() ?? "");
        }})()"""
    )
    assert len(cells) >= 2
    if is_number:
        found = [re.match(r"[+\-\u2212]?\d\S*", one) for one in cells]
        numbers = [float(one[0].replace("\N{MINUS SIGN}", "-")) for one in found if one]
        assert numbers == sorted(numbers)
        assert len(numbers) >= 2
    else:
        assert cells == sorted(cells)
