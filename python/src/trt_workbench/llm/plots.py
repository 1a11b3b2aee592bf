"""Plots of an eval-llm run."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from trt_workbench.llm.document import LlmMetrics, LlmRecord
from trt_workbench.report.hover import listed, say_columns
from trt_workbench.report.style import PALETTE, by_powers, figure, label, legend_below

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Curves this close, as a share, coincide.
_SAME = 1e-3
_WIDE = 60  # characters of a line of the legend


def write_plots(metrics: LlmMetrics, records: list[LlmRecord], folder: Path) -> dict[str, Path]:
    """Write the plots that the run has figures for, as SVG. Returns their paths by name."""
    plots = {}
    windows = [record for record in records if record["kind"] == "windows"]
    if windows:
        plots["perplexity"] = _perplexity(windows, folder / "perplexity.svg")
    if len(metrics["backends"]) > 1 and windows:
        plots["divergence"] = _divergence(windows, folder / "divergence.svg")
    return plots


def _name(record: LlmRecord) -> str:
    return label(f"{record['backend']}:{record['precision']}")


def _series(records: list[LlmRecord]) -> dict[str, list[LlmRecord]]:
    names = dict.fromkeys(map(_name, records))
    return {name: [record for record in records if _name(record) == name] for name in names}


def _perplexity(windows: list[LlmRecord], path: Path) -> Path:
    """Perplexity of everything up to each window: if it settles, the text is long enough.

    Backends whose curves coincide share a line, and are named with it.
    """
    import numpy as np

    from trt_workbench.core.elements import equal
    from trt_workbench.core.tolerance import deviation

    lines: list[tuple[list[str], NDArray[np.float64], NDArray[np.float64]]] = []
    for name, rows in _series(windows).items():
        tokens = np.cumsum([float(row["tokens"]) for row in rows])
        nll = np.cumsum([np.nan if row["nll"] is None else row["nll"] for row in rows])
        curve = np.exp(nll / tokens)
        for names, others, drawn in lines:
            if equal(tokens, others) and deviation(curve, drawn, _SAME, 0).passed:
                names.append(name)
                break
        else:
            lines.append(([name], tokens, curve))
    said: dict[float, dict[str, str]] = {}
    with figure(path, height=_height(windows)) as axes:
        for (names, tokens, curve), colour in zip(lines, PALETTE * 3, strict=False):
            text = "\n".join(wrap(", ".join(names), _WIDE))
            axes.plot(tokens, curve, label=text, color=colour, linewidth=1.6)
            for place, value in zip(tokens.tolist(), curve.tolist(), strict=True):
                said.setdefault(place, {})[", ".join(names)] = f"{value:.4f}"
        say_columns(axes, {place: listed(f"after {place:,.0f} tokens", by_name) for place, by_name in said.items()})
        axes.set(xlabel="tokens scored", ylabel="perplexity")
        together = "\n(within 0.1 % of one another: one line)" if len(lines) < len(_series(windows)) else ""
        axes.set_title(f"Perplexity up to each window{together}")
        legend_below(axes)
    return path


def _height(windows: list[LlmRecord]) -> float:
    """Return the inches of the two pictures side by side, with room for a legend of all backends."""
    return 3.6 + 0.12 * len(_series(windows))


def _divergence(windows: list[LlmRecord], path: Path) -> Path:
    """Mean divergence from the reference by window."""
    import numpy as np

    said: dict[float, dict[str, str]] = {}
    with figure(path, height=_height(windows)) as axes:
        for (name, rows), colour in list(zip(_series(windows).items(), PALETTE * 3, strict=False))[1:]:
            kl = [np.nan if row["kl"] is None else max(row["kl"] / row["tokens"], 1e-17) for row in rows]
            tokens = np.cumsum([float(row["tokens"]) for row in rows])
            axes.plot(tokens, kl, label=name, color=colour, linewidth=1.2)
            for place, value in zip(tokens.tolist(), kl, strict=True):
                said.setdefault(place, {})[name] = f"{value:.2e}"
        say_columns(
            axes, {place: listed(f"window up to token {place:,.0f}", by_name) for place, by_name in said.items()}
        )
        axes.set(title="Divergence from the reference", xlabel="tokens scored", ylabel="mean KL divergence, nats")
        by_powers(axes, "y")
        legend_below(axes)
    return path
