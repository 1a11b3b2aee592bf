"""Figures and verdicts from the records: medians over pairs, held against the targets."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from measuring.cases import (
    LEAST_PREPROCESS_SPEEDUP,
    LEAST_SLOT_RATIO,
    LEAST_THROUGHPUT_RATIO,
    MOST_AP_DIFFERENCE,
    MOST_PYTHON_EXCESS_US,
    MOST_RATIO,
)

Record = Mapping[str, Any]
Row = list[str]


def verdict(*, met: bool) -> str:
    """Return the word of a table for a target that was met or missed."""
    return "met" if met else "**missed**"


def pair_rows(records: Sequence[Record]) -> list[Row]:
    """Return, by case and measure: pairs, trtexec, workbench (medians), median, least and largest ratio, verdict.

    A ratio is taken within each pair; only whole pairs count.
    """
    pairs: dict[str, dict[int, dict[str, Record]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        pairs[record["case"]][record["pair"]][record["tool"]] = record
    rows = []
    for case, numbered in pairs.items():
        whole = [pair for pair in numbered.values() if len(pair) == 2]
        for measure, unit in (("compute", "ms"), ("latency", "ms"), ("throughput", "queries/s"), ("enqueue", "ms")):
            theirs = [_figure(pair["trtexec"], measure) for pair in whole]
            ours = [_figure(pair["workbench"], measure) for pair in whole]
            ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
            middle = statistics.median(ratios)
            judged = _pair_verdict(case, measure, middle)
            digits = 4 if unit == "ms" else 1
            rows.append(
                [
                    f"{case} {measure}, {unit}",
                    str(len(whole)),
                    f"{statistics.median(theirs):.{digits}f}",
                    f"{statistics.median(ours):.{digits}f}",
                    f"{middle:.4f}",
                    f"{min(ratios):.4f} to {max(ratios):.4f}",
                    judged,
                ]
            )
    return rows


def _figure(record: Record, measure: str) -> float:
    if measure in ("compute", "latency"):
        return float(record["summary_ms"][measure]["median"])
    return float(record["throughput_qps" if measure == "throughput" else "enqueue_median_ms"])


def _pair_verdict(case: str, measure: str, ratio: float) -> str:
    # with several streams the queries of one delay those of the other: trtexec itself calls their latencies inaccurate
    if measure == "enqueue" or (measure != "throughput" and "streams" in case):
        return "-"
    if measure == "throughput":
        return verdict(met=ratio >= LEAST_THROUGHPUT_RATIO)
    return verdict(met=ratio <= MOST_RATIO)


def context_rows(records: Sequence[Record]) -> list[Row]:
    """Return, by engine, loading of kernels and steps of a process: rounds, compute of every measurement in turn."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record["engine"], record["module_loading"].lower(), record["steps"]].append(record)
    rows = []
    for (engine, loading, steps), found in groups.items():
        medians = [statistics.median(column) for column in zip(*(r["compute_ms"] for r in found), strict=True)]
        rows.append([engine, loading, steps, str(len(found)), ", ".join(f"{ms:.4f}" for ms in medians)])
    return rows


def latency_rows(records: Sequence[Record]) -> list[Row]:
    """Return, by engine and way through Python: rounds, C++ and Python medians in ms, excess in µs, verdict."""
    rounds: dict[str, dict[tuple[int, int], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    seen: Counter[tuple[str, int, str]] = Counter()
    for record in records:
        engine, number, way = record["engine"], record["round"], record["way"]
        # every day of measuring counts its rounds from 0
        rounds[engine][seen[engine, number, way], number][way] = record["summary_ms"]["median"]
        seen[engine, number, way] += 1
    rows = []
    for engine, numbered in rounds.items():
        for way in ("python-runner", "python-session"):
            whole = [(ways["c++"], ways[way]) for ways in numbered.values() if way in ways and "c++" in ways]
            if not whole:
                continue
            excess = statistics.median((python - core) * 1e3 for core, python in whole)
            core, python = (statistics.median(column) for column in zip(*whole, strict=True))
            judged = verdict(met=excess <= MOST_PYTHON_EXCESS_US)
            rows.append([engine, way, str(len(whole)), f"{core:.4f}", f"{python:.4f}", f"{excess:+.1f}", judged])
    return rows


def slot_rows(records: Sequence[Record]) -> list[Row]:
    """Return, by engine, slots and way: rounds, throughput, 1/compute, median ratio, verdict from two slots on."""
    groups: dict[tuple[str, int, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record["engine"], record["slots"], record["way"]].append(record)
    rows = []
    for (engine, slots, way), found in sorted(groups.items()):
        ratio = statistics.median(record["ratio"] for record in found)
        rate = statistics.median(record["throughput_qps"] for record in found)
        ideal = statistics.median(1e3 / record["compute_ms"] for record in found)
        judged = verdict(met=ratio >= LEAST_SLOT_RATIO) if slots > 1 else "-"
        rows.append([engine, str(slots), way, str(len(found)), f"{rate:.1f}", f"{ideal:.1f}", f"{ratio:.4f}", judged])
    return rows


def accuracy_rows(records: Sequence[Record]) -> list[Row]:
    """Return, by run: images, AP, AP50, difference of AP to the processor's, images a second, verdict."""
    reference = {record["detector"]: record["AP"] for record in records if record["run"].endswith("ort-cpu")}
    rows = []
    for record in records:
        difference, judged = "-", "-"
        precision = next((name for name in MOST_AP_DIFFERENCE if f" {name} " in record["run"]), None)
        if precision and record["detector"] in reference:
            apart = record["AP"] - reference[record["detector"]]
            difference = f"{apart:+.5f}"
            judged = verdict(met=abs(apart) <= MOST_AP_DIFFERENCE[precision])
        figures = [f"{record['AP']:.5f}", f"{record['AP50']:.5f}", difference, f"{record['images_per_s']:.0f}"]
        rows.append([record["run"], str(record["images"]), *figures, judged])
    return rows


def image_rows(records: Sequence[Record]) -> list[Row]:
    """Return, by engine, image size and memory of the image: rounds, device, engine and host in ms, speed-ups, verdict.

    Times are medians of the rounds' medians. Of the host there are two, with all processors and with one. With all of
    them there are two speed-ups: of all that the engine's own time is taken from, and of the whole.
    """
    groups: dict[tuple[str, int, int], list[Record]] = defaultdict(list)
    for record in records:
        groups[record["engine"], *record["size"]].append(record)
    rows = []
    for (engine, height, width), found in groups.items():
        for way, memory in (("device", "ordinary"), ("device_page_locked", "page-locked")):
            if measured := [record for record in found if way in record["summary_ms"]]:
                rows.append([f"{engine}, {width}x{height}", memory, *_image_figures(measured, way)])
    return rows


def _image_figures(records: Sequence[Record], way: str) -> Row:
    device, host = _median_ms(records, way), _median_ms(records, "host")
    one = _median_ms(records, "host_one_thread") if all("host_one_thread" in r["summary_ms"] for r in records) else None
    rounds = [record["summary_ms"] for record in records]
    speedup = statistics.median(ms["host"]["median"] / ms[way]["median"] for ms in rounds)
    alone = [record["engine_ms"] for record in records if "engine_ms" in record]
    engine_ms = statistics.median(alone) if alone else None
    figures = [str(len(records)), f"{device:.3f}", "-" if engine_ms is None else f"{engine_ms:.3f}"]
    figures += ["-", "-"] if one is None else [f"{one:.3f}", f"{one / device:.2f}"]
    figures += [f"{host:.3f}", "-" if engine_ms is None else f"{(host - engine_ms) / (device - engine_ms):.1f}"]
    return [*figures, f"{speedup:.2f}", verdict(met=speedup >= LEAST_PREPROCESS_SPEEDUP)]


def _median_ms(records: Sequence[Record], way: str) -> float:
    return statistics.median(record["summary_ms"][way]["median"] for record in records)


def table(head: Iterable[str], rows: Iterable[Row]) -> str:
    """Return a Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
