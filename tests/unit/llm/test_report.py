"""What an eval-llm report says in words."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.copies import copied
from tests.texts import held

from trt_workbench.console.common import print_parts
from trt_workbench.llm.cli import show
from trt_workbench.llm.report import answer, generation_failures, sameness, summarise
from trt_workbench.report.reports import write_report

KEPT = Path(__file__).parents[3] / "docs" / "benchmarks" / "eval-llm"


@pytest.mark.parametrize("run", ["perplexity", "gpt2-generate-cached"])
def test_runs_of_versions_that_timed_generation_have_a_report(run: str, tmp_path: Path) -> None:
    copied(KEPT / run, tmp_path / run)
    page = write_report(tmp_path / run).read_text(encoding="utf-8")
    assert ("Perplexity by backend" in page) == (run == "perplexity")
    assert "<h2>Generation</h2>" not in page


def test_a_change_of_perplexity_has_one_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copied(KEPT / "perplexity", tmp_path / "run")
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "has the largest increase, &lt; 0.0001 %" in page
    assert "<td>&lt; 0.0001 %</td>" in page
    metrics: Any = json.loads((tmp_path / "run" / "metrics.json").read_text())
    rows = [{"failure": None, "verification": [], **one} for one in metrics["backends"]]
    monkeypatch.setenv("COLUMNS", "200")
    print_parts(show({"generation": [], **metrics, "backends": rows}, tmp_path))
    assert " < 0.0001 % " in capsys.readouterr().out


def generated(first_difference: int | None = None, *, failure: str | None = None, compared: bool = True) -> Any:
    row = {"mode": "generate-cached", "backend": "trt", "precision": "fp16", "batch": 2, "prompt_tokens": 6}
    agreement = {"first_difference": first_difference, "logit_gap": 0.0125, "logit_gap_limit": 0.05}
    return {**row, "failure": failure, "agreement": agreement if compared else None}


@pytest.mark.parametrize(
    ("backends", "generations", "word"),
    [
        ([None], [], "nothing to compare"),  # PyTorch in fp32 with itself
        ([None, None], [], "passed"),
        ([None, "worse"], [], "failed"),
        ([], [generated(compared=False)], "nothing to compare"),
        ([], [generated()], "passed"),
        ([], [generated(failure="No room.", compared=False)], "failed"),
    ],
)
def test_a_reference_alone_has_nothing_to_fail_by(
    backends: list[str | None], generations: list[Any], word: str
) -> None:
    row = {"backend": "torch", "precision": "fp32", "perplexity": None, "relative_difference": None}
    rows = [{**row, "failure": failure} for failure in backends]
    metrics: Any = {"model": {"path": "lm"}, "backends": rows, "generation": generations, "notes": [], "tokens": 9}
    found = answer({**metrics, "status": "complete"})
    assert found.verdict == word
    assert ("Nothing to compare: only the reference was scored." in found.said) is (len(rows) == 1)


def test_what_was_generated() -> None:
    wrong, failed = generated(0, failure="Sequence 1 differs."), generated(failure="No room.", compared=False)
    rows = [generated(), generated(3), wrong, failed]
    held(*[sameness(row) for row in rows])
    metrics: Any = {"model": {"path": "models/lm"}, "backends": [], "generation": rows}
    held(*summarise(metrics))
    assert generation_failures(metrics) == [
        f"trt:fp16, generate-cached (batch 2, prompt of 6 tokens): {why}" for why in ("Sequence 1 differs.", "No room.")
    ]
