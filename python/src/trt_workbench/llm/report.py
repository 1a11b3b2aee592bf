"""The report of an eval-llm run, made only from the files of its run directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import reader
from trt_workbench.core.percent import change, share
from trt_workbench.llm.document import Generated, LlmMetrics
from trt_workbench.llm.outcome import reach
from trt_workbench.model.precision import precision_label
from trt_workbench.report.tables import ROOMY, Column, Table, small, verdict
from trt_workbench.report.verdict import Headline

read = reader("metrics.json", LlmMetrics)


def answer(metrics: LlmMetrics) -> Headline:
    """Return what the page of a run says first."""
    found = reach(metrics["backends"], metrics.get("generation", []))
    part = "partial" if metrics["status"] == "partial" and found.passed else found.word()
    return Headline([*summarise(metrics), *metrics["notes"]], part)


def view(metrics: LlmMetrics, _: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    return {
        "failures": generation_failures(metrics),
        "perplexities": Table(PERPLEXITIES, metrics["backends"], "Perplexity by backend", [metrics["recipe"]["text"]]),
        "generations": generations(metrics.get("generation", ())),
    }


PERPLEXITIES = (
    Column("backend", lambda row: f"{row['backend']}:{row['precision']}"),
    Column("ran in", lambda row: precision_label(row, "text"), places=ROOMY),
    Column("ran in", precision_label, places=("terminal",)),
    Column("perplexity", "perplexity", 4, better="lower"),
    Column("change", "relative_difference", form=change),
    Column("largest logit difference", "max_logit_difference", form=small, places=ROOMY),
    Column("largest logit difference", "max_logit_difference", form="{:.1e}".format, places=("terminal",)),
    Column("top-1 agreement", "top1_agreement", form=partial(share, digits=4), better="higher", places=ROOMY),
    Column("top-1 agreement", "top1_agreement", form=partial(share, digits=3), places=("terminal",)),
    Column("mean KL", "kl_divergence", form=small, unit="nats", places=ROOMY),
    Column("mean KL", "kl_divergence", form="{:.1e}".format, unit="nats", places=("terminal",)),
    Column("largest KL", "max_kl_divergence", form=small, unit="nats", places=ROOMY),
    Column("gate", verdict(lambda row: "failed" if row["failure"] else "passed")),
)


def generations(rows: Sequence[Generated]) -> Table:
    """Return how far what backends generate is that of PyTorch."""
    columns = (
        Column("mode", "mode"),
        Column("backend", lambda row: f"{row['backend']}:{row['precision']}"),
        Column("batch", "batch"),
        Column("prompt", "prompt_tokens"),
        Column("new tokens", "new_tokens", 0, places=ROOMY),
        Column("largest logit difference", "agreement.max_logit_difference", form="{:.2e}".format),
        Column("limit", "agreement.logit_difference_limit", form="{:.2e}".format),
        Column("tokens as in PyTorch", sameness),
    )
    notes = [
        "generate runs all tokens again for each new one; generate-cached keeps keys and values. Decoding is greedy. "
        "The logit difference is the largest at any of the reference's tokens."
    ]
    return Table(columns, rows, "Generation", notes)


def summarise(metrics: LlmMetrics) -> list[str]:
    """Say in sentences what the figures say."""
    model = Path(metrics["model"]["path"]).name
    sentences = []
    rows = metrics["backends"]
    if rows:
        sentences += [row["failure"] for row in rows if row["failure"]] or [
            "Every backend passes the gate." if rows[1:] else "Nothing to compare: only the reference was scored."
        ]
        if rows[0]["perplexity"] is not None:
            sentences.append(
                f"{model} has a perplexity of {rows[0]['perplexity']:.4f} over {counted(metrics['tokens'], 'token')} "
                "with PyTorch in fp32, the reference."
            )
        others = [(row["relative_difference"], row) for row in rows[1:] if row["relative_difference"] is not None]
        if others:
            increase, worst = max(others, key=lambda one: one[0])
            sentences.append(f"{worst['backend']}:{worst['precision']} has the largest increase, {change(increase)}.")
            if worst["top1_agreement"] is not None:
                sentences[-1] = (
                    f"{sentences[-1][:-1]}; its most likely token is the reference's at "
                    f"{share(worst['top1_agreement'], 3)} of the tokens."
                )
    if shards := metrics.get("shards"):
        sentences.append(shards["text"])
    generated = metrics.get("generation", [])
    if generated:
        right = [row for row in generated if not row["failure"]]
        sentences.append(f"Generations that agree with PyTorch in fp32: {len(right)} of {len(generated)}.")
    return sentences


def generation_failures(metrics: Mapping[str, Any]) -> list[str]:
    """Say in sentences which backends generate something else than PyTorch in fp32 or nothing at all, and why."""
    return [
        f"{row['backend']}:{row['precision']}, {row['mode']} (batch {row['batch']}, prompt of "
        f"{counted(row['prompt_tokens'], 'token')}): {row['failure']}"
        for row in metrics.get("generation", [])
        if row["failure"]
    ]


def sameness(row: Generated) -> str:
    """Say how far the tokens are those of PyTorch in fp32."""
    agreement = row["agreement"]
    if agreement is None:
        return "not compared"
    if row["failure"]:
        return "wrong"
    if agreement["first_difference"] is None:
        return f"all{by_text(agreement)}"
    return (
        f"the first {agreement['first_difference']}{by_text(agreement)}, then a near tie (gap "
        f"{agreement['logit_gap']:.2g} of at most {agreement['logit_gap_limit']:.2g})"
    )


def by_text(agreement: Mapping[str, Any]) -> str:
    """Say that only the text of tokens was compared, as the end of a phrase; "" where the tokens were."""
    return ", by text" if agreement.get("compared") == "text" else ""
