"""`trtw eval-speech`: what each precision of a streaming model transcribes, and its word error rate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    note,
    say,
    say_if_allowed,
)
from trt_workbench.console.drawing import present
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.percent import share, signed
from trt_workbench.core.settings import Report
from trt_workbench.report.tables import Table
from trt_workbench.stream import require_gates
from trt_workbench_speech.settings import SpeechSettings

if TYPE_CHECKING:
    from trt_workbench_speech.document import SpeechMetrics

_SHOWN = 3


@handled
def eval_speech(
    settings: SpeechSettings,
    *,
    report: Report = True,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Transcribe utterances in every precision, and compare word error rates.

    The reference and every precision of a streaming model transcribe the same utterances, each with its own state.
    Without a model, an embedded encoder transcribes embedded utterances. Exit code 1 if a gate fails.
    """
    from trt_workbench.console.progress import progress_bar
    from trt_workbench.core.directory import run_directory
    from trt_workbench.stream.opening import OpenedStream
    from trt_workbench_speech.run import Transcription

    say_if_allowed(allow_unverified=settings.allow_unverified)
    if Path(settings.reference).is_dir():
        raise UsageProblem("eval-speech needs a reference that runs; a record has outputs of one stream alone.")
    with OpenedStream(settings.opened, say) as opened:
        evaluation = Transcription(opened, settings)
        opened.introduce()
        with run_directory("eval-speech", output) as run:
            with progress_bar("utterances") as start:
                metrics = evaluation.run(run.path, start("Transcribing"))
            facts = {"utterances": metrics.utterances, "allow_unverified": settings.allow_unverified}
            directory = run.commit("complete", passed=metrics.passed, **facts)
    for text in metrics.notes:
        note(text)
    drawing = present(directory, metrics, partial(_shown, metrics), as_json=as_json, debug=debug, report=report)
    require_gates({"failures": metrics.failures}, directory)
    drawing.end()


def _shown(metrics: SpeechMetrics, _directory: Path) -> Iterator[Table | str]:
    from trt_workbench_speech.report import DECODING_FAULTS, HEARINGS, SPEECH_TIMES, WORDS

    said = f"{counted(metrics.utterances, 'utterance')}, {counted(metrics.words, 'word')}"
    yield Table(WORDS, metrics.pairs, f"Word error rate: {said}, {metrics.audio_seconds:.0f} s")
    yield Table(SPEECH_TIMES, metrics.timed, f"Speed, {counted(metrics.at_once, 'utterance')} at once")
    if metrics.ways:
        yield Table(HEARINGS, metrics.ways, "The same audio heard in other ways")
    for name, one in metrics.differences.items():
        ends = "" if one.wer.ci95 is None else " ({} to {})".format(*(signed(end, 2) for end in one.wer.ci95))
        yield (
            f"{name}: WER {signed(one.wer.value, 2)}{ends} compared with the reference; "
            f"{counted(one.utterances_changed, 'utterance')} changed"
        )
        for change in metrics.changes[name][:_SHOWN]:
            yield f"  {change.utterance}: {change.text!r}: {change.reference!r} became {change.found!r}"
    if metrics.faults:
        title = f"Self-test of decoding; WER without a fault: {share(metrics.faults_wer or 0.0, 2)}"
        yield Table(DECODING_FAULTS, metrics.faults, title)
    yield from (f"FAILED {failure}" for failure in metrics.failures)
    yield f"{metrics.reach.word().capitalize()}."
