"""The report of an eval-speech run, made only from the files of its run directory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import reader
from trt_workbench.core.percent import share, signed
from trt_workbench.core.statistics.summary import claimed
from trt_workbench.report.tables import ROOMY, Column, Table, at, verdict
from trt_workbench.report.verdict import Headline
from trt_workbench.stream.document import gates_of
from trt_workbench_speech.document import SpeechMetrics

read = reader("metrics.json", SpeechMetrics)
_PERCENT, _SIGNED = partial(share, digits=2), partial(signed, digits=2)
# Of pairs of a side and its difference from the reference.
WORDS = (
    Column("lane", "0.name"),
    Column("backend", "0.backend", places=ROOMY),
    Column("WER", "0.wer.value", form=_PERCENT, better="lower"),
    Column("95 % interval", "0.wer.ci95", form=_PERCENT),
    Column("substituted", "0.substitutions", places=ROOMY),
    Column("deleted", "0.deletions", places=ROOMY),
    Column("inserted", "0.insertions", places=ROOMY),
    Column("tokens wrong", "0.token_error_rate.value", form=_PERCENT),
    Column("WER compared with the reference", "1.wer.value", form=_SIGNED, places=ROOMY),
    Column("95 % interval", "1.wer.ci95", form=_SIGNED, places=ROOMY),
    Column("utterances changed", "1.utterances_changed", 0, places=ROOMY),
    Column("tokens changed", "1.tokens_changed", form=_PERCENT, places=ROOMY),
    Column("gates", lambda pair: gates_of(pair[0])),
)
_PLACES = {True: "device", False: "host"}
SPEECH_TIMES = (
    Column("lane", "name"),
    Column("real-time factor", "real_time_factor", 4),
    Column("latency of a word p50", "word_latency_ms.p50", 1, unit="ms"),
    Column("p99", lambda side: (times := at(side, "word_latency_ms")) and claimed(times, "p99"), 1),
    Column("max", "word_latency_ms.max", 1, places=ROOMY),
    Column("a word waits p50", "word_delay_ms.p50", 1, unit="ms"),
    Column("encoder's state", lambda side: _PLACES.get(at(side, "state_on_device")), places=ROOMY),
    Column("decoder's state", lambda side: _PLACES.get(at(side, "predictor_on_device")), places=ROOMY),
)
HEARINGS = (
    Column("way", "name"),
    Column("hop", "hop_seconds", 3, unit="s", places=ROOMY),
    Column("ahead", "ahead_seconds", 3, unit="s", places=ROOMY),
    Column("WER", "wer.value", form=_PERCENT, better="lower"),
    Column("95 % interval", "wer.ci95", form=_PERCENT, places=ROOMY),
    Column("WER compared with the reference", "difference.value", form=_SIGNED),
    Column("95 % interval", "difference.ci95", form=_SIGNED),
    Column("utterances changed", "utterances_changed"),
    Column("a word waits p50", "word_delay_ms.p50", 1, unit="ms"),
    Column("p99", lambda way: (times := at(way, "word_delay_ms")) and claimed(times, "p99"), 1, places=ROOMY),
    Column("real-time factor", "real_time_factor", 4),
)
CHANGED_TEXTS = (
    Column("utterance", "utterance"),
    Column("right", "text"),
    Column("reference", "reference"),
    Column("found", "found"),
    Column("errors", "errors"),
    Column("reference's", "reference_errors"),
)
DECODING_FAULTS = (
    Column("planted fault", "fault"),
    Column("what", lambda one: at(one, "reason") or at(one, "text"), places=ROOMY),
    Column("WER", "wer", form=_PERCENT),
    Column(
        "caught",
        verdict(
            lambda one: "not planted" if at(one, "wer") is None else "caught" if at(one, "caught") else "missed",
            "reason",
        ),
    ),
)


def answer(metrics: SpeechMetrics) -> Headline:
    """Return what the page of a run says first: whether the gates hold, then the rate of each side."""
    said = f"{metrics.backend} compared with {metrics.reference['name']}, {counted(metrics.utterances, 'utterance')}"
    rates = [f"{side.name}: WER {share(side.wer.value, 2)}." for side in metrics.sides]
    return Headline([f"{metrics.reach.word().capitalize()}: {said}.", *rates], metrics.reach.word())


def view(metrics: SpeechMetrics, _directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    return {
        "words": Table(WORDS, metrics.pairs),
        "times": Table(SPEECH_TIMES, metrics.timed),
        "hearings": Table(HEARINGS, metrics.ways),
        "changes": [(name, Table(CHANGED_TEXTS, texts)) for name, texts in metrics.changes.items() if texts],
        "faults": Table(DECODING_FAULTS, metrics.faults),
    }
