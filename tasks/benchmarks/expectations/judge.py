"""How often each predictor is right about a model that it has not seen: a table in Markdown from measure.py's records.

Usage: judge.py RECORDS.jsonl [KEEPS COLLAPSES]

A model keeps (a loss of at most KEEPS, 0.01), loses, or collapses (more than COLLAPSES, 0.1). For each model two limits
of the predictor are chosen on all models of other designs, so that most of those are right; then the model is
predicted. Two base rates say of every model "keeps", and what is most frequent. p: McNemar's exact test against the
better one. The last row chooses the predictor, too, on the other designs alone. A collapse that is called is a model
that collapses and was said to.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, spearmanr

_KEEPS, _COLLAPSES = 0.01, 0.1
_OWN = ("noise of four samples", "loss on four samples")
# known of a model before a trial, and no rank of groups or time
_NOT = ("groups", "of groups", "noise_s")


def main() -> None:
    """Print the models, then the predictors of each format."""
    keeps, collapses = map(float, sys.argv[2:]) if sys.argv[2:] else (_KEEPS, _COLLAPSES)
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    print("| model | design | loss counts | fp16 | int8 | fp8 | arithmetic in int8, % |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for row in rows:
        found = [row[name] for name in ("fp16", "int8", "fp8")]
        losses = " | ".join(f"{one['loss']:.4f}" if "loss" in one else "-" for one in found)
        print(f"| {row['model']} | {row['design']} | {row['kind']} | {losses} | {found[1].get('low_macs', 0):.0%} |")
    print(f"\n{len(rows)} models of {len({row['design'] for row in rows})} designs")
    for precision in ("int8", "fp8", "fp16"):
        judged([row for row in rows if "loss" in row[precision]], precision, keeps, collapses)
    groups = [row["before"]["of groups"] for row in rows if row["before"]["of groups"]]
    for place, name in enumerate(("channels' ratio", "tail")):
        found = [pair[place] for pair in groups]
        print(
            f"\nRank correlation of a group's {name} with its own noise, in {len(found)} models of 8 groups and more: "
            f"median {np.median(found):.2f}, from {min(found):.2f} to {max(found):.2f}"
        )


def judged(rows: Sequence[dict[str, Any]], precision: str, keeps: float, collapses: float) -> None:
    """Print the table of one format."""
    losses = np.array([row[precision]["loss"] for row in rows])
    designs = [row["design"] for row in rows]
    actual = (losses > keeps).astype(int) + (losses > collapses)
    counts = np.bincount(actual, minlength=3)
    others = [[place for place, one in enumerate(designs) if one != design] for design in designs]
    base = max((actual == said for said in (0, counts.argmax())), key=lambda hits: hits.sum())
    print(f"\n### {precision}: {len(rows)} models, {counts[0]} keep, {counts[1]} lose, {counts[2]} collapse\n")
    print("| predictor | right | 95 % | better, worse than base | p | collapses called | rank correlation |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for name, said in (("always keeps", 0), ("always what is most frequent", counts.argmax())):
        print(f"| {name} | {(actual == said).sum()} of {len(rows)} | {_ends(actual == said)} | | | | |")
    names = [*(name for name in rows[0]["before"] if name not in _NOT), *_OWN]
    values = {name: np.array([row[precision if name in _OWN else "before"][name] for row in rows]) for name in names}
    best = []
    for rest in others:
        fitted = {name: _limits(one[rest], actual[rest]) for name, one in values.items()}
        best.append(max(names, key=lambda name: fitted[name][0]))
    for name in (*names, ""):
        said = np.array([_said(values[name or best[at]], actual, rest, at) for at, rest in enumerate(others)])
        hits = said == actual
        better, worse = int((hits & ~base).sum()), int((base & ~hits).sum())
        p = binomtest(better, better + worse).pvalue if better + worse else 1.0
        called = f"{((said == 2) & (actual == 2)).sum()} of {counts[2]}, {((said == 2) & (actual < 2)).sum()} wrong"
        rank = f"{spearmanr(values[name], losses).statistic:.2f}" if name else ""
        told = f"{hits.sum()} of {len(rows)} | {_ends(hits)} | {better}, {worse} | {p:.3f} | {called} | {rank}"
        print(f"| {name or 'the best on the others'} | {told} |")


def _ends(hits: NDArray[Any]) -> str:
    ends = binomtest(int(hits.sum()), len(hits)).proportion_ci(method="wilson")
    return f"{ends.low:.0%} to {ends.high:.0%}"


def _said(values: NDArray[Any], actual: NDArray[Any], rest: list[int], at: int) -> int:
    """Return what the limits that are chosen on the rest say of one model."""
    _, low, high = _limits(values[rest], actual[rest])
    return int(values[at] > low) + int(values[at] > high)


def _limits(values: NDArray[Any], actual: NDArray[Any]) -> tuple[int, float, float]:
    """Return how often the best two limits are right, and these; of equals, the middle pair."""
    order = np.unique(values)
    limits = [-np.inf, *(order[:-1] + order[1:]) / 2, np.inf]
    pairs = list(itertools.combinations_with_replacement(limits, 2))
    right = [int((((values > low).astype(int) + (values > high)) == actual).sum()) for low, high in pairs]
    best = [pair for pair, count in zip(pairs, right, strict=True) if count == max(right)]
    return max(right), *best[len(best) // 2]


if __name__ == "__main__":
    main()
