"""Plots of an eval-llm run."""

from __future__ import annotations

from pathlib import Path

from trt_workbench.report.style import PALETTE, by_powers, figure, label
from trt_workbench.runs.llm import LlmMetrics, LlmRecord


def write_plots(metrics: LlmMetrics, records: list[LlmRecord], folder: Path) -> dict[str, Path]:
    """Write the plots that the run has figures for, as PNG. Returns their paths by name."""
    plots = {}
    windows = [record for record in records if record["kind"] == "windows"]
    if windows:
        plots["perplexity"] = _perplexity(windows, folder / "perplexity.png")
    if len(metrics["backends"]) > 1 and windows:
        plots["divergence"] = _divergence(windows, folder / "divergence.png")
    return plots


def _name(record: LlmRecord) -> str:
    return label(f"{record['backend']}:{record['precision']}")


def _series(records: list[LlmRecord]) -> dict[str, list[LlmRecord]]:
    names = dict.fromkeys(map(_name, records))
    return {name: [record for record in records if _name(record) == name] for name in names}


def _perplexity(windows: list[LlmRecord], path: Path) -> Path:
    """Perplexity of everything up to each window: where it settles, the text is long enough."""
    import numpy as np

    with figure(path) as axes:
        for (name, rows), colour in zip(_series(windows).items(), PALETTE * 3, strict=False):
            tokens = np.cumsum([row["tokens"] for row in rows])
            nll = np.cumsum([np.nan if row["nll"] is None else row["nll"] for row in rows])
            axes.plot(tokens, np.exp(nll / tokens), label=name, color=colour, linewidth=1.2)
        axes.set(title="Perplexity up to each window", xlabel="tokens scored", ylabel="perplexity")
        axes.legend()
    return path


def _divergence(windows: list[LlmRecord], path: Path) -> Path:
    """Mean divergence from the reference by window."""
    import numpy as np

    with figure(path) as axes:
        for (name, rows), colour in list(zip(_series(windows).items(), PALETTE * 3, strict=False))[1:]:
            kl = [np.nan if row["kl"] is None else max(row["kl"] / row["tokens"], 1e-17) for row in rows]
            axes.plot(np.cumsum([row["tokens"] for row in rows]), kl, label=name, color=colour, linewidth=1.2)
        axes.set(title="Divergence from the reference", xlabel="tokens scored", ylabel="mean KL divergence, nats")
        by_powers(axes, "y")
        axes.legend()
    return path
