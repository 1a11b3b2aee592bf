"""Prints what a transcription found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from trt_workbench.console.common import print_line
from trt_workbench.core.counts import counted
from trt_workbench.core.percent import share, signed
from trt_workbench.core.statistics.summary import claimed

if TYPE_CHECKING:
    from rich.console import Console

    from trt_workbench.stream.transcribe.document import OtherHearing, Score, Side, Transcribed

_SHOWN = 3


def show_transcribed(found: Transcribed, console: Console) -> None:
    """Print error rates by side, differences, the first texts that changed, and planted faults."""
    from rich.table import Table

    line = partial(print_line, console)
    said = f"{counted(found.utterances, 'utterance')}, {counted(found.words, 'word')}, {found.audio_seconds:.0f} s"
    table = Table("lane", "WER", "95 % interval", "tokens wrong", "gates", title=f"Word error rate: {said}")
    for side in found.sides:
        table.add_row(*_row(side))
    console.print(table)
    for side in found.sides:
        line(_speed(side, found.at_once))
    if found.ways:
        table = Table(
            "also heard as", "WER", "more than the reference", "changed", "a word waits, ms", "real-time factor"
        )
        for way in found.ways:
            table.add_row(*_way(way))
        console.print(table)
    for name, one in found.differences.items():
        line(
            f"{name}: WER {_difference(one.wer.value)}{_interval(one.wer, ' ({} to {})', _difference)} compared "
            f"with the reference; {counted(one.utterances_changed, 'utterance')} changed"
        )
        for change in found.changes[name][:_SHOWN]:
            line(f"  {change.utterance}: {change.text!r}: {change.reference!r} became {change.found!r}")
    if found.faults:
        title = f"Self-test of decoding; WER without a fault: {_percent(found.faults_wer or 0.0)}"
        table = Table("planted fault", "WER", "caught", title=title)
        for fault in found.faults:
            if fault.wer is None:
                table.add_row(fault.fault, "-", f"not planted: {fault.reason}")
            else:
                table.add_row(fault.fault, _percent(fault.wer), "yes" if fault.caught else "NO")
        console.print(table)


def _row(side: Side) -> tuple[str, ...]:
    failed = ", ".join(gate.gate for gate in side.gates if gate.verdict == "failed")
    return (
        side.name,
        _percent(side.wer.value),
        _interval(side.wer, "{} to {}", _percent) or "-",
        _percent(side.token_error_rate.value),
        "-" if not side.gates else f"FAILED: {failed}" if failed else "passed",
    )


def _way(way: OtherHearing) -> tuple[str, ...]:
    more = _difference(way.difference.value) + _interval(way.difference, " ({} to {})", _difference)
    waits = "-" if way.word_delay_ms is None else f"{way.word_delay_ms['p50']:.0f}"
    return way.name, _percent(way.wer.value), more, str(way.utterances_changed), waits, f"{way.real_time_factor:.4f}"


def _speed(side: Side, at_once: int) -> str:
    if side.real_time_factor is None:
        return f"{side.name}: simulated, so its times say nothing"
    late = side.word_latency_ms
    known = [] if late is None else [(name, claimed(late, name)) for name in ("p50", "p99")]
    shown = ", ".join(f"{name} {figure:.1f} ms" for name, figure in known if figure is not None)
    words = f"; latency of a word from due time: {shown}" if shown else ""
    waits = side.word_delay_ms
    words += f"; a word waits {waits['p50']:.0f} ms for its chunk" if waits else ""
    return f"{side.name} on {side.backend}: real-time factor {side.real_time_factor:.4f}, {at_once} at once{words}"


def _interval(score: Score, form: str, text: Callable[[float], str]) -> str:
    return "" if score.ci95 is None else form.format(*map(text, score.ci95))


_percent = partial(share, digits=2)
_difference = partial(signed, digits=2)
