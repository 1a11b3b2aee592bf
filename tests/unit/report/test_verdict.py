"""A verdict has one colour in every report."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from tests.kept_reports import checked_target, kept

from trt_workbench.overview.report import Overview
from trt_workbench.overview.runs import run_tables
from trt_workbench.report.page import evidence_from, render
from trt_workbench.report.reports import write_report
from trt_workbench.report.tables import Column, Table
from trt_workbench.report.verdict import Reach, tone
from trt_workbench.stream.check.document import Verdict as CheckVerdict
from trt_workbench.stream.gate_result import Verdict as GateVerdict
from trt_workbench.upgrade.document import Outcome
from trt_workbench.verify.report import _ORDER as OF_VERIFY
from trt_workbench_rtx.document import CheckedTarget, TargetCheck

pytestmark = pytest.mark.usefixtures("blank_pictures")

ANSWER = re.compile(r'<section class="verdict ?(\w*)">\s*<p><span class="pill (\w+)">([^<]*)</span></p>')


def words(kind: object) -> set[str]:
    return {word for word in get_args(kind) if isinstance(word, str)}


def test_every_word_of_a_verdict_has_a_colour() -> None:
    known = words(CheckVerdict) | words(GateVerdict) | words(CheckedTarget.model_fields["outcome"].annotation)
    known |= words(Outcome) - {"recorded"} | {
        "right within fp16" if one == "right within" else one for one in OF_VERIFY
    }
    assert {word for word in known if tone(word) == "plain"} == set()


@pytest.mark.parametrize(
    ("word", "colour"),
    [
        ("right", "good"),
        ("right within int8", "good"),
        ("undecided", "doubt"),
        ("kept, with doubts", "doubt"),
        ("wrong", "bad"),
        ("reference", "plain"),
        ("", "plain"),
        (None, "plain"),
    ],
)
def test_colours(word: str | None, colour: str) -> None:
    assert tone(word) == colour


@pytest.mark.parametrize(
    ("reach", "word", "exit_code_0"),
    [
        (Reach(4, 4, 4), "passed", True),
        (Reach(4, 4, 1), "passed", True),
        (Reach(4, 4, 0), "nothing to compare", True),
        (Reach(0, 0, 0), "nothing to compare", True),
        (Reach(4, 1, 1), "not proven", False),
        (Reach(4, 1, 0), "not proven", False),
        (Reach(4, 4, 4, unproven=1), "not proven", False),
        (Reach(4, 4, 4, doubts=1), "passed, with doubts", True),
        (Reach(4, 4, 0, wrong=1), "failed", False),
        (Reach(4, 1, 1, wrong=1, unproven=2, doubts=3), "failed", False),
    ],
)
def test_green_is_only_what_ran_and_could_have_failed(reach: Reach, word: str, exit_code_0: bool) -> None:
    assert (reach.word(), reach.passed) == (word, exit_code_0)
    assert (tone(word) == "good") == (reach.passed and reach.judged > 0 and not reach.doubts)
    assert (tone(word) == "bad") == (reach.wrong > 0)


def test_an_architecture_for_which_the_compiler_crashed_is_not_proven() -> None:
    targets = {name: CheckedTarget(sm="sm120", asked=(), outcome=name) for name in ("built", "refused", "failed")}
    found = {
        names: TargetCheck.model_construct(targets=tuple(targets[name] for name in names)).reach
        for names in (("built",), ("built", "failed"), ("refused", "failed"))
    }
    assert [one.word("built") for one in found.values()] == ["built", "not proven", "failed"]
    assert [one.passed for one in found.values()] == [True, False, False]


def test_an_answer_has_the_colour_of_its_verdict_and_its_word(tmp_path: Path) -> None:
    page = checked_target(tmp_path / "target").read_text(encoding="utf-8")
    section, pill, word = ANSWER.search(page).groups()  # type: ignore[union-attr]
    assert (section, pill, word) in {("good", "good", "built"), ("bad", "bad", "failed")}
    table = page[page.index("<h2>Architectures") :]
    assert table.count('<span class="pill ') == table.count("<tr><td") > 0


def test_caught_faults_are_green(tmp_path: Path) -> None:
    page = kept(tmp_path, "eval-stream/encoder-ort").read_text(encoding="utf-8")
    assert ANSWER.search(page).groups() == ("good", "good", "passed")  # type: ignore[union-attr]
    matrix = page[page.index("Planted faults by gate") : page.index("Time of a chunk")]
    assert matrix.count('<span class="pill good">caught</span>') > 0
    assert matrix.count('<span class="pill good"') > 2 * matrix.count(">caught<")
    assert '<span class="pill bad"' not in matrix


def test_what_a_verdict_is_called_is_escaped() -> None:
    mark = {"verdict": "<b>", "text": '">', "evidence": None, "allowed": False}
    row = {"model": "m", "backend": None, "precision": None, "verification": mark, "figures": []}
    cell = evidence_from(Path())(mark)
    table = Table((Column("verified", lambda _: cell),), [row])
    page = render("overview/report.html.j2", overview=Overview(), tables=[table], runs=run_tables([], Path()))
    assert '<span class="pill plain" title="&#34;&gt;">&lt;b&gt;</span>' in page


def test_only_the_shared_style_names_colours_of_verdicts() -> None:
    templates = Path(render.__code__.co_filename).parents[1].rglob("*.html.j2")
    named = re.compile(r"--(?:good|doubt|bad)(?:-ground)?:")
    assert [path.name for path in templates if named.search(path.read_text(encoding="utf-8"))] == ["page.html.j2"]


@pytest.mark.parametrize("record", ["eval-llm/perplexity", "eval-stream/encoder-ort"])
def test_a_part_of_a_run_has_not_passed(tmp_path: Path, record: str) -> None:
    page = kept(tmp_path, record)
    assert ANSWER.search(page.read_text(encoding="utf-8")).groups() == ("good", "good", "passed")  # type: ignore[union-attr]
    metrics = page.parent / "metrics.json"
    metrics.write_text(json.dumps(json.loads(metrics.read_text()) | {"status": "partial"}))
    page = write_report(page.parent)
    assert ANSWER.search(page.read_text(encoding="utf-8")).groups() == ("doubt", "doubt", "partial")  # type: ignore[union-attr]
