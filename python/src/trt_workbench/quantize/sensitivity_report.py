"""The report of a sensitivity run, made only from the files of its run directory."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trt_workbench.core.artefacts import read_environment
from trt_workbench.core.counts import counted, some
from trt_workbench.core.documents import reader
from trt_workbench.core.percent import share
from trt_workbench.quantize.document import Sensitivity, decibels, noisiest
from trt_workbench.report.hover import say_rows
from trt_workbench.report.style import ACCENT, PALETTE, WIDE, figure, label, legend_below, plots_folder
from trt_workbench.report.tables import ROOMY, Cell, Column, Table
from trt_workbench.report.verdict import Headline

# Bars that can be read; the table has all groups.
_BARS = 30
_NAMED = 3  # groups in a sentence
_OF_SCORES = ("--worst", "--annotations", "--split", "--score", "--better")  # options of sensitivity alone
_LONGEST = 54  # characters of a group's name next to its bar


read = reader("sensitivity.json", Sensitivity)


_FLAGS = ("--debug", "--json")
_OUTPUT = ("--output", "-o")


def again(words: Sequence[str], without: Collection[str] = (), more: Sequence[str] = ()) -> str:
    """Return a command to copy, made from the one that the report is of, without its output and some of its options.

    Args:
        words: of the command line.
        without: options, each with a value, that are left out.
        more: words at its end.
    """
    left_out = (*_OUTPUT, *without)
    kept, skip = [], False
    for word in words:
        if skip or word in _FLAGS or word.split("=")[0] in left_out:
            skip = not skip and word in left_out
            continue
        kept.append(word)
    return shlex.join([*kept, *more])


def answer(found: Sensitivity) -> Headline:
    """Return what the page of a run says first."""
    return Headline(_said(found))


def view(found: Sensitivity, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides, and draw its `plots/`."""
    return {
        "groups": groups(found),
        "picture": draw_groups(found, plots_folder(directory) / "groups.svg"),
        "brings": brings(found),
        "next": proposed(found, read_environment(directory).command_line),
    }


def groups(found: Sensitivity, most: int | None = None) -> Table:
    """Return what the groups cost, the noisiest first; at most so many."""
    total = sum(group.noise for group in found.free) or 1.0
    shares = partial(share, digits=1)
    columns = (
        Column("group", lambda one: Cell(one.name, f"stays in fp32: {one.kept}" if one.kept else ""), long=True),
        Column("operator", "op_type"),
        Column("SQNR", "sqnr_db", 1, unit="dB", better="higher"),
        Column("of the noise", lambda one: "fp32" if one.kept else share(one.noise / total, 1), 1),
        Column("of the arithmetic", "macs_share", form=shares),
        Column("of the weights", "weights_share", form=shares, places=ROOMY),
    )
    score = (
        Column(str(found.figure), "score.value", 4),
        Column("loss", "score.loss", 4, better="lower"),
        Column("95 %", "score.loss_ci95", 4),
    )
    return Table((*columns, *score) if found.figure else columns, found.groups[:most])


def _said(found: Sensitivity) -> list[str]:
    """Say which groups make half of the noise, and what the noisiest costs in score."""
    if not any(group.noise for group in found.groups):
        return [f"No group changes any output in {found.to}."]
    sentences, free, chosen = list[str](), found.free, noisiest(found.free)
    if total := sum(group.noise for group in free):
        what = f"{len(chosen)} of {len(free)} groups cause" if len(chosen) > 1 else "One group causes"
        sentences.append(
            f"{what} {share(sum(group.noise for group in chosen) / total)} of the noise of {found.to}, with "
            f"{share(sum(group.macs_share for group in chosen))} of the arithmetic."
        )
        sentences.append(f"The noisiest: {', '.join(group.name for group in chosen[:_NAMED])}.")
    if kept := found.groups[len(free) :]:
        sentences.append(
            f"{counted(len(kept), 'other group')} {'stay' if len(kept) > 1 else 'stays'} in fp32 anyway: "
            f"quantize keeps {', '.join(dict.fromkeys(group.kept for group in kept))}."
        )
    if (score := found.groups[0].score) is not None:
        sentences.append(f"{found.groups[0].name} alone in {found.to} costs {score.loss:.4f} of {found.figure}.")
    return sentences


def proposed(found: Sensitivity, words: list[str]) -> str:
    """Return the command that makes the model without its noisiest groups; empty where that is no gain."""
    if "sensitivity" not in words or not found.advised:
        return ""
    place = words.index("sensitivity")
    keep = [word for name in found.advised for word in ("--keep", name)]
    words = [*words[:place], "quantize", *words[place + 1 :]]
    return again(words, ("--to", *_OF_SCORES), ("--to", found.to, *keep))


def brings(found: Sensitivity) -> str:
    """Say what `--keep` of the noisiest groups brings, as it was measured."""
    if found.plain is None or not found.plain:
        return ""
    made = f"As quantize makes it: {decibels(found.plain):z.1f} dB"
    if not found.advised or found.kept is None:
        return f"{made}; keeping its noisiest groups in fp32 is no gain."
    macs = share(sum(group.macs_share for group in found.free if group.name in found.advised))
    raised = f"{decibels(found.kept):z.1f} dB" if found.kept else "no noise"
    return f"{made}; with {some(found.advised, _NAMED)} in fp32, too ({macs} of the arithmetic): {raised}."


def _short(name: str) -> str:
    """Return a name without its middle where it is long: nodes of one block differ at their ends."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 3]}…{name[1 - _LONGEST + _LONGEST // 3 :]}"


def draw_groups(found: Sensitivity, path: Path) -> Path | None:
    """Draw the noise of the noisiest groups as shares of all groups' noise, next to their shares of the arithmetic.

    Nothing where no group was measured.
    """
    free = found.free or found.groups  # a search may have asked for the others alone
    if not (shown := free[:_BARS]):
        return None
    total = sum(group.noise for group in free) or 1.0
    with figure(path, width=WIDE, height=1.2 + 0.2 * len(shown)) as axes:
        places = range(len(shown))
        axes.barh(places, [100 * group.noise / total for group in shown], 0.7, color=ACCENT, label="of the noise")
        shares = [100 * group.macs_share for group in shown]
        axes.scatter(shares, places, 18, color=PALETTE[3], label="of the arithmetic", zorder=3)
        said = [f"{label(group.name)}: {share(group.noise / total, 1)} of the noise" for group in shown]
        say_rows(
            axes,
            {
                at: f"{text}, {share(group.macs_share, 1)} of the arithmetic"
                for at, text, group in zip(places, said, shown, strict=True)
            },
        )
        axes.set_yticks(places, [_short(label(group.name)) for group in shown], fontsize=8)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set(title=f"Noise of each group alone in {found.to}", xlabel="share, %")
        axes.set_xlim(left=0)
        legend_below(axes)
    return path
