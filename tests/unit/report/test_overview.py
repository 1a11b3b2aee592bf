"""One page over runs of several commands: accuracy beside speed, who wins where."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from tests.records import record
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.overview.report import write_overview
from trt_workbench.report.reports import write_report

REPOSITORY = Path(__file__).parents[3]
TAGS = {"h1", "h2", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "a", "pre", "code", "img"}
KEPT = json.loads((REPOSITORY / "docs/benchmarks/eval-llm/perplexity/metrics.json").read_text())
ENVIRONMENT: dict[str, Any] = {
    "schema_version": 1,
    "command_line": ["trtw"],
    "cpu": {"model": "a processor", "processors_available": 2, "processors": 2},
    "driver": {"gpus": [], "error": "no driver"},
    **dict.fromkeys(("os", "kernel", "python", "workbench_version"), "1"),
    "packages": {},
    "git": {"commit": None},
}


def write_run(folder: Path, command: str, **files: Any) -> Path:
    folder.mkdir()
    run = {"schema_version": 1, "command": command, "run_id": folder.name, "status": "complete"}
    run["started_at"] = "2026-11-22T12:00:00+00:00"
    for name, document in {"run": run, "env": ENVIRONMENT, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def write_bench(folder: Path) -> Path:
    draw = random.Random(0)
    run = write_run(folder, "bench", config={"schema_version": 1, "title": "t", "repetitions": 9})
    with (run / "records.jsonl").open("w", encoding="utf-8") as file:
        for repetition in range(9):
            for runtime, base in {"slow <b>": 2.0, "fast": 1.0}.items():
                made = record(runtime, repetition, base * draw.gauss(1, 0.001), model_sha256=None, work="m b1")
                file.write(made.model_dump_json() + "\n")
    return run


def test_runs_of_every_command_together(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    llm = write_run(
        tmp_path / "llm",
        "eval-llm",
        metrics={**KEPT, "backends": [{**KEPT["backends"][-1], "perplexity": 29.65, "relative_difference": 0.0017}]},
    )
    profile = write_run(tmp_path / "profile", "profile")
    runs = [write_bench(tmp_path / "bench"), make_run(), llm, profile]
    page = write_overview(runs, tmp_path / "all").read_text(encoding="utf-8")
    text = (tmp_path / "all" / "overview.md").read_text(encoding="utf-8")
    for part in ("AP 0.5000", "perplexity 29.6500", "change +1.70e-01 %", "fp16"):
        assert part in page
        assert part in text
    assert "slow &lt;b&gt;" in page
    assert "<b>" not in page
    assert re.search(r"arrays, m b1: fast is fastest, \d\.\d{3} ms .*; slow &lt;b&gt; takes 2\.00 times as long", text)
    said = page[page.index('class="verdict"') : page.index("<h2>")]
    assert "fast is fastest" in said
    assert "tiny-lm on trt in fp16: perplexity 29.6500." in said
    for run in runs:
        assert f'href="../{run.name}/report.html"' in page


def test_a_row_without_its_score_is_not_in_the_answer(tmp_path: Path) -> None:
    good, bad = KEPT["backends"][-1], {**KEPT["backends"][0], "perplexity": None, "relative_difference": None}
    nothing = write_run(
        tmp_path / "nothing", "eval-llm", metrics={**KEPT, "backends": [{**bad, "top1_agreement": 0.5}]}
    )
    page = write_overview([nothing], tmp_path / "all").read_text(encoding="utf-8")
    assert "top-1 agreement 50.00 %" in page
    assert 'class="verdict"' not in page
    both = write_run(tmp_path / "both", "eval-llm", metrics={**KEPT, "backends": [bad, good]})
    page = write_overview([both], tmp_path / "all").read_text(encoding="utf-8")
    assert f"perplexity {good['perplexity']:.4f}." in page[page.index('class="verdict"') : page.index("<h2>")]


def test_works_of_several_runs_are_told_apart(tmp_path: Path) -> None:
    runs = [write_bench(tmp_path / name) for name in ("before", "after")]
    page = write_overview(runs, tmp_path / "all").read_text(encoding="utf-8")
    for name in ("before", "after"):
        assert f"{name}: arrays, m b1" in page
        assert f"{name}: arrays: m b1" in page


HOSTILE = "a|b <img src=x onerror=y> [c](javascript:d) `e` **f** ~~g~~ \n# h\n\n- i \ud800 \x1b[31m"


def test_names_are_no_markup(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    model = {"path": HOSTILE, "sha256": "0", "family": "yolox", "class_count": 1}
    run = make_run(model=model, backend=HOSTILE).rename(tmp_path / "javascript:alert(1) (2)")
    bench = write_bench(tmp_path / "bench")
    lines = (bench / "records.jsonl").read_text(encoding="utf-8")
    renamed = lines.replace('"slow <b>"', json.dumps(HOSTILE)).replace('"m b1"', json.dumps(HOSTILE))
    (bench / "records.jsonl").write_text(renamed, encoding="utf-8")
    page = write_overview([run, bench], tmp_path).read_text(encoding="utf-8")
    text = (tmp_path / "overview.md").read_text(encoding="utf-8")
    assert 'href="javascript%3Aalert%281%29%20%282%29/report.html"' in page
    assert "](javascript%3Aalert%281%29%20%282%29/report.html)" in text
    written = write_report(bench).with_name("report.md").read_text(encoding="utf-8")
    for markdown in (text, written):
        html = MarkdownIt("gfm-like", {"linkify": False}).render(markdown)
        assert set(re.findall(r"<(\w+)", html)) <= TAGS
        assert "javascript:" not in re.sub(r">[^<]*<", "><", html)
        assert "\x1b" not in html
        assert html.count("<h1>") == 1
        assert "h - i" in html  # one line of one cell
    assert "<img src=x" not in page


def test_a_run_that_was_cut_short_is_named(tmp_path: Path) -> None:
    run = write_bench(tmp_path / "bench")
    (run / "env.json").write_text('{"schema')
    with refused(UsageProblem):
        write_overview([run], tmp_path / "all")
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize(
    ("command", "file", "document", "pill"),
    [
        ("gate", "gate", {"schema_version": 1, "passed": True}, '<span class="pill good">passed</span>'),
        ("eval-stream", "metrics", {"schema_version": 1, "passed": False}, '<span class="pill bad">failed</span>'),
        (
            "decide",
            "decision",
            {"schema_version": 1} | {"gate": {"passed": False}},
            '<span class="pill bad">failed</span>',
        ),
        ("decide", "decision", {"schema_version": 1, "gate": None}, "\N{EN DASH}"),
        ("profile", "profile", {"schema_version": 1}, "\N{EN DASH}"),
    ],
)
def test_every_run_has_its_date_and_what_it_found(
    tmp_path: Path, command: str, file: str, document: dict[str, Any], pill: str
) -> None:
    run = write_run(tmp_path / "run", command, **{file: document})
    page = write_overview([run], tmp_path / "all").read_text(encoding="utf-8")
    row = f'<td class="text">2026-11-22 12:00 UTC</td><td class="text">complete</td><td class="text">{pill}</td>'
    assert row in page
