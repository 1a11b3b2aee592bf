"""`eval-llm`: a language model on every backend against PyTorch in fp32: perplexity, and on request generation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    interrupted,
    note,
    say,
    say_if_allowed,
    single_command_app,
)
from trt_workbench.console.drawing import ReportOutcome, present
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.percent import limit
from trt_workbench.core.settings import Report, Setting
from trt_workbench.core.shard import GpusOption, ShardOption, exclude_each_other
from trt_workbench.core.variables import let_idle_threads_sleep
from trt_workbench.llm.settings import LlmSettings
from trt_workbench.report.tables import Table

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.core.spread import Spread
    from trt_workbench.llm.outcome import LlmOutcome
    from trt_workbench.llm.run import LlmRequest


@handled
def eval_llm(
    model: Annotated[
        Path | None, Setting("Folder with config.json and safetensors; the embedded model by default.", argument=True)
    ] = None,
    *,
    text: Annotated[Path | None, Setting("UTF-8 text file; the embedded held-out text by default.")] = None,
    settings: LlmSettings,
    shard: ShardOption = None,
    gpus: GpusOption = None,
    report: Report = True,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare a language model's output on several runtimes.

    Compares perplexity, with a gate, and generated tokens with PyTorch in fp32. Without a model, an embedded one is
    evaluated on an embedded text that it was not trained on.
    """
    let_idle_threads_sleep()
    exclude_each_other(shard, gpus)
    say_if_allowed(allow_unverified=settings.allow_unverified)
    from trt_workbench.llm.run import LlmRequest
    from trt_workbench.quantize import language_candidates

    place, file = _inputs(model, text)
    request = LlmRequest(
        model=place,
        text=file,
        candidate=language_candidates(place, settings.calibration, say),
        shard=shard,
        **vars(settings),
    )
    if shard:
        from trt_workbench.console.shards import run_shard
        from trt_workbench.llm.sharding import COMMAND, what_decides

        run_shard(
            output,
            shard,
            COMMAND,
            partial(what_decides, request),
            lambda folder: _evaluate(request, folder)[1],
            as_json=as_json,
        )
        return
    if gpus is not None:
        from trt_workbench.console.shards import require_whole

        found, directory = _spread(request, output, gpus)
        drawing = _shown(found.metrics, directory, report=report, as_json=as_json, debug=debug)
        require_whole(found, directory)
        require_gate(found.metrics, directory)
        drawing.end()
        return
    outcome, directory = _evaluate(request, output)
    drawing = _shown(outcome.metrics, directory, report=report, as_json=as_json, debug=debug)
    if outcome.status == "partial":
        raise interrupted(directory, f" {_reached(outcome.metrics)}; the results so far are kept, marked partial")
    require_gate(outcome.metrics, directory)
    if outcome.generation_error:
        raise type(outcome.generation_error)(
            f"Not every backend generates what PyTorch generates; the reasons are above. Run directory: {directory}"
        ) from outcome.generation_error
    drawing.end()


def _shown(metrics: dict[str, Any], directory: Path, *, report: bool, as_json: bool, debug: bool) -> ReportOutcome:
    """Make the report of a run, and print what it found."""
    from trt_workbench.llm.document import plain
    from trt_workbench.llm.report import generation_failures

    for text in metrics["notes"]:
        note(text)
    for sentence in generation_failures(metrics):
        say(f"failed: {sentence}")
    return present(directory, plain(metrics), partial(show, metrics), as_json=as_json, debug=debug, report=report)


def _spread(request: LlmRequest, output: Path | None, numbers: tuple[int, ...]) -> tuple[Spread, Path]:
    """Evaluate on several GPUs."""
    from trt_workbench.backends.on_gpus import gpus_for
    from trt_workbench.backends.registry import require_backend
    from trt_workbench.console.shards import spread_over
    from trt_workbench.llm.shard_worker import job_of

    backends = [require_backend(choice.name) for choice in request.backends]
    chosen = request.device not in ("auto", "cuda")
    devices = gpus_for(backends, numbers, device=f"--device {request.device}" if chosen else "")
    return spread_over(devices, job_of(request), "eval-llm", output, "batches", ("tokens",), request.allow_unverified)


def _reached(metrics: dict[str, Any]) -> str:
    """Say how far an interrupted run came."""
    if metrics["interrupted"] == "perplexity":
        return f"after {counted(metrics['tokens'], 'token')}"
    return f"while generating (comparisons done: {len(metrics['generation'])})"


def _inputs(model: Path | None, text: Path | None) -> tuple[Path, Path]:
    """Fill in the embedded model and text."""
    from trt_workbench.core.workspace import LLM, embedded_model, embedded_text

    if model is None:
        model = embedded_model(LLM)
        say(f"Model: the embedded language model {model}")
    if text is None:
        text = embedded_text()
        say(f"Text: the embedded held-out text {text}")
    return model, text


def _evaluate(request: LlmRequest, output: Path | None) -> tuple[LlmOutcome, Path]:
    from trt_workbench.console.progress import progress_bar
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.work import continued
    from trt_workbench.llm.run import LlmEvaluation

    with LlmEvaluation(request, say) as evaluation:
        scores = "perplexity" in request.modes
        if scores:
            say(evaluation.recipe.describe())
        with run_directory("eval-llm", output) as run:
            with progress_bar("tokens") as tokens, progress_bar("backends") as backends:
                outcome = evaluation.run(
                    run.path,
                    tokens("Evaluating") if scores else None,
                    backends("Generating") if request.generating else None,
                    earlier=partial(continued, run, note=say, results="records.jsonl"),
                )
            facts = {key: outcome.metrics[key] for key in ("tokens", "shard") if key in outcome.metrics}
            return outcome, run.commit(outcome.status, allow_unverified=request.allow_unverified, **facts)


def require_gate(metrics: dict[str, Any], directory: Path) -> None:
    """Raise CheckFailed if the perplexity gate failed on a backend."""
    from trt_workbench.llm.outcome import failures_of

    if failures := failures_of(metrics):
        raise CheckFailed(f"The perplexity gate failed. {' '.join(failures)} Run directory: {directory}")


def show(metrics: dict[str, Any], _directory: Path) -> Parts:
    """Return what people see of a run."""
    from trt_workbench.llm.outcome import reach
    from trt_workbench.llm.report import PERPLEXITIES, generations
    from trt_workbench.verify import let_through

    rows, generated = metrics["backends"], metrics["generation"]
    compared = [row for row in generated if row["agreement"]]  # the others are named above
    title = f"Perplexity over {counted(metrics['tokens'], 'token')}"
    gate = f"Gate (at most {limit(metrics['max_ppl_increase'])} perplexity): {reach(rows, []).word()}"
    return [
        *let_through(mark for row in rows + generated for mark in row["verification"]),
        Table(PERPLEXITIES, rows, title) if rows else None,
        generations(compared) if compared else None,
        gate if rows else "",
    ]


def main() -> None:
    """Run `eval-llm`."""
    single_command_app(eval_llm)()
