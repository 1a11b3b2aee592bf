"""The report of an eval-llm run, made from the files of its run directory alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trt_workbench.engine.documents import read_document, read_lines
from trt_workbench.engine.files import write_text
from trt_workbench.report.llm_plots import write_plots
from trt_workbench.report.page import image_url, render
from trt_workbench.report.style import plots_folder
from trt_workbench.runs.artefacts import read_environment
from trt_workbench.runs.llm import LlmMetrics, LlmRecord, Timed


def write_report(directory: Path) -> Path:
    """Write `report.html` and `plots/` into an eval-llm run directory. It can be called again at any time.

    Args:
        directory: holds metrics.json, records.jsonl and env.json.

    Returns:
        The path of report.html, one file that needs no other.

    Raises:
        UsageProblem: a file is missing, cut short or of another schema version.
    """
    metrics = read_document(directory / "metrics.json", LlmMetrics)
    records = read_lines(directory / "records.jsonl", LlmRecord)
    plots = write_plots(metrics, records, plots_folder(directory))
    page = render(
        "llm.html.j2",
        metrics=metrics,
        summary=summarise(metrics),
        failures=timing_failures(metrics),
        sameness=sameness,
        plots={name: image_url(path) for name, path in plots.items()},
        environment=read_environment(directory),
    )
    write_text(directory / "report.html", page)
    return directory / "report.html"


def summarise(metrics: LlmMetrics) -> list[str]:
    """Say in sentences what the figures say."""
    model = Path(metrics["model"]["path"]).name
    sentences = []
    rows = metrics["backends"]
    if rows:
        sentences.append(
            f"{model} has a perplexity of {rows[0]['perplexity']:.4f} over {metrics['tokens']} tokens with PyTorch in "
            f"fp32, the reference."
        )
        others = [(row["relative_difference"], row) for row in rows[1:] if row["relative_difference"] is not None]
        if others:
            increase, worst = max(others, key=lambda one: one[0])
            sentences.append(
                f"The largest increase is that of {worst['backend']}:{worst['precision']}, {increase:+.4%}; its "
                f"likeliest token is the reference's at {worst['top1_agreement']:.3%} of the tokens."
            )
        sentences.append(
            "Every backend passes the gate." if metrics["passed"] else "Not every backend passes the gate."
        )
        sentences += [row["failure"] for row in rows if row["failure"]]
    # only what did the same work is compared: a long prompt has more tokens a second than a short one
    works: dict[tuple[str, int, int, int], list[Timed]] = {}
    for row in metrics["timing"]:
        work = (row["mode"], row["batch"], row["prompt_tokens"], row["new_tokens"])
        works.setdefault(work, []).append(row)
    for (mode, batch, prompt, new), timed in works.items():
        best = max(timed, key=lambda row: row["tokens_per_s"]["p50"])
        sentences.append(
            f"{mode}, batch {batch}, {prompt} tokens{'' if mode == 'prefill' else f' and {new} new'}: "
            f"{best['backend']}:{best['precision']} is the fastest of {len(timed)} with "
            f"{best['tokens_per_s']['p50']:.1f} tokens/s (median of {best['repetitions']})."
        )
    return sentences


def timing_failures(metrics: Mapping[str, Any]) -> list[str]:
    """Say in sentences which backend could not be timed in which mode, and why."""
    return [
        f"{row['backend']}:{row['precision']} {_verdict(row)} in {row['mode']} (batch {row['batch']}, prompts of "
        f"{', '.join(map(str, row['missing_prompts']))} tokens): {row['error']}"
        for row in metrics.get("timing_failures", [])
    ]


def _verdict(row: Mapping[str, Any]) -> str:
    return "is wrong and was not timed" if "agreement" in row else "could not be timed"


def sameness(row: Timed) -> str:
    """Say how far the tokens of a timing are those of PyTorch in fp32."""
    agreement = row.get("agreement")
    if agreement is None:  # runs of older versions compared tokens alone, and let any difference pass
        return "all" if row["same_tokens_as_torch"] else f"the first {row['first_difference']}; not judged"
    if agreement["first_difference"] is None:
        return "all"
    return (
        f"the first {agreement['first_difference']}, then a near tie (gap {agreement['logit_gap']:.2g} of at most "
        f"{agreement['logit_gap_limit']:.2g})"
    )
