"""One page over runs of several commands: accuracy beside speed, who wins where."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from tests.copies import copied
from tests.records import record
from tests.run_folders import bench_folder, profile_folder, upgrade_folder
from tests.texts import refused

from trt_workbench.core.artefacts import read_environment, run_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.overview.report import write_overview
from trt_workbench.overview.runs import RunAnswer, run_answer
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
    runs = [write_bench(tmp_path / "bench"), make_run(), llm, profile_folder(tmp_path / "profile", None)]
    for run in runs:
        (run / "report.html").touch()
    page = write_overview(runs, tmp_path / "all").read_text(encoding="utf-8")
    text = (tmp_path / "all" / "overview.md").read_text(encoding="utf-8")
    for part in ("AP 0.5000", "perplexity 29.6500", "change +0.1700 %", "fp16"):
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
    (run / "report.html").touch()
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


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Copy a committed run; its report is not drawn."""
    folder = tmp_path_factory.mktemp("committed")
    return lambda name: copied(REPOSITORY / "docs/benchmarks" / name, folder / name)


@pytest.mark.parametrize(
    ("kept", "outcome", "colour"),
    [
        ("eval-stream/encoder-ort", "passed", "good"),
        ("eval-llm/perplexity", "passed", "good"),
        ("bench-h200/vit", "unstable", "doubt"),
        ("eval-stream/recurrent", "failed", "bad"),
    ],
)
def test_a_committed_run_has_its_date_and_what_it_found(
    committed: Callable[[str], Path], tmp_path: Path, kept: str, outcome: str, colour: str
) -> None:
    page = write_overview([committed(kept)], tmp_path / "all").read_text(encoding="utf-8")
    assert f'<td class="text"><span class="pill {colour}">{outcome}</span></td>' in page
    assert re.search(r'<td class="text">20\d\d-\d\d-\d\d \d\d:\d\d UTC</td>', page)


@pytest.mark.parametrize(
    ("own_ms", "outcome"), [(2.0, "faster"), (0.5, "slower"), (1.001, "complete"), (None, "complete")]
)
def test_a_profile_says_which_side_is_faster(tmp_path: Path, own_ms: float | None, outcome: str) -> None:
    assert run_of(profile_folder(tmp_path / "run", own_ms)).outcome == outcome


@pytest.mark.parametrize(("passed", "outcome"), [(True, "passed"), (False, "failed")])
def test_a_gate_passes_or_fails(tmp_path: Path, passed: bool, outcome: str) -> None:
    check = {
        "name": "score",
        "passed": passed,
        "text": "AP 0.4",
        "exit_code": 0 if passed else 1,
        "report": None,
        "seconds": 1.0,
    }
    gate = {"schema_version": 1, "model": "m.onnx", "passed": passed, "checks": [check]}
    found = run_of(write_run(tmp_path / "run", "gate", gate=gate))
    assert (found.outcome, "score" in found.answer) == (outcome, True)


def test_an_upgrade_is_safe_and_a_record_is_complete(tmp_path: Path) -> None:
    started = "2026-11-22T12:00:00+00:00"
    runs = [
        upgrade_folder(tmp_path / name, [1.0, 1.1], started, recorded=name == "record") for name in ("both", "record")
    ]
    assert [run_of(run).outcome for run in runs] == ["safe", "complete"]


def test_a_part_of_an_evaluation_and_an_engine_let_through_are_no_whole_result(make_run: Callable[..., Path]) -> None:
    run = make_run()
    assert (run_of(run).outcome, run_of(run).answer.count("AP 0.5000")) == ("complete", 1)
    metrics = json.loads((run / "metrics.json").read_text())
    (run / "metrics.json").write_text(json.dumps(metrics | {"status": "partial"}))
    assert run_of(run).outcome == "partial"
    mark = {
        "engine": "m.plan",
        "engine_sha256": "0",
        "verdict": "undecided",
        "text": "t",
        "evidence": None,
        "allowed": True,
    }
    (run / "metrics.json").write_text(json.dumps(metrics | {"verification": mark}))
    assert run_of(run).outcome == "undecided"


def test_what_did_not_pass_is_said_first(tmp_path: Path) -> None:
    check = {"name": "score", "passed": False, "exit_code": 1, "text": "", "report": None, "seconds": 1}
    gate = {"schema_version": 1, "model": "m.onnx", "passed": False, "checks": [check]}
    runs = [write_bench(tmp_path / "bench"), write_run(tmp_path / "night", "gate", gate=gate)]
    page = write_overview(runs, tmp_path / "all").read_text(encoding="utf-8")
    assert '<section class="verdict bad">' in page
    assert '<p class="first wrap">1 of 2 runs did not pass: gate: failed.</p>' in page
    runs.append(write_run(tmp_path / "day", "gate", gate=gate | {"passed": True, "checks": [check | {"passed": True}]}))
    page = write_overview(runs, tmp_path / "all").read_text(encoding="utf-8")
    assert '<p class="first wrap">1 of 3 runs did not pass: gate night: failed.</p>' in page


@pytest.mark.long
def test_a_bench_whose_winners_are_stable_says_so_first_and_what_is_unstable_next(
    committed: Callable[[str], Path],
) -> None:
    page = write_report(committed("bench-h200/vit")).read_text(encoding="utf-8")
    said = page[page.index('<p class="first wrap">') :]
    assert said.startswith('<p class="first wrap">Fastest: trt-fp16 at 4 of 4 workloads.</p>')
    assert said.index("<li") == said.index('<li class="wrap">Unstable: the times of 5 of 24 points are unreliable.')
    mark = {"engine": "m.plan", "engine_sha256": "0", "verdict": "undecided", "text": "undecided", "evidence": None}
    records = committed("bench-h200/vit") / "records.jsonl"
    lines = records.read_text(encoding="utf-8").splitlines()
    marked = [json.dumps(json.loads(line) | {"verification": mark | {"allowed": True}}) for line in lines]
    records.write_text("\n".join([*marked, ""]), encoding="utf-8")
    page = write_report(records.parent).read_text(encoding="utf-8")
    assert '<p class="first wrap">Not verified, accepted by --allow-unverified: m.plan is undecided.</p>' in page


def test_what_is_unstable_in_all_repetitions_is_nowhere_the_fastest(tmp_path: Path) -> None:
    shaky = ["the median moved"]
    run = bench_folder(
        tmp_path / "bench", {"a": [1.0] * 9, "b": [2.0] * 9}, "2026-11-22T12:00:00+00:00", unstable=shaky
    )
    write_report(run)
    write_overview([run], tmp_path / "all")
    for page in (run / "report.html", run / "report.md", tmp_path / "all/overview.html", tmp_path / "all/overview.md"):
        assert "astest" not in page.read_text(encoding="utf-8")
    text = (run / "report.html").read_text(encoding="utf-8")
    assert '<section class="verdict doubt">\n<p><span class="pill doubt">unstable</span></p>' in text
    assert 'a <span class="pill doubt">unstable</span></td>' in text
    assert text.count('<svg class="spark"') == 2  # a curve of its repetitions for each runtime
    assert text.count('r="2" fill="var(--panel)" stroke="var(--doubt)"><title>repetition ') == 18
    assert "| a ? unstable |" in (run / "report.md").read_text(encoding="utf-8")


def run_of(directory: Path) -> RunAnswer:
    return run_answer(directory, run_document(directory), read_environment(directory))
