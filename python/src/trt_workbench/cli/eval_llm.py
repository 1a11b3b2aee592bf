"""`eval-llm`: perplexity, and on request speed, of a language model on every backend against PyTorch in fp32."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trt_workbench.cli.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    print_json,
    print_line,
    say,
    say_if_allowed,
    single_command_app,
    stdout_console,
)
from trt_workbench.cli.drawing import Drawing, draw
from trt_workbench.errors import INTERRUPTED, CheckFailed, UsageProblem, whole_number
from trt_workbench.onnxtools.opsets import DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET
from trt_workbench.system.settings import AllowUnverified
from trt_workbench.system.threads import let_idle_threads_sleep

if TYPE_CHECKING:
    from trt_workbench.evaluate.llm import LlmOutcome, LlmRequest
    from trt_workbench.evaluate.llm_timing import TimingRequest

_PERPLEXITY = "perplexity"


@handled
def eval_llm(
    model: Annotated[
        Path | None, typer.Argument(help="Folder with config.json and safetensors; the embedded model by default.")
    ] = None,
    *,
    text: Annotated[Path | None, typer.Option(help="UTF-8 text file; the embedded held-out text by default.")] = None,
    backends: Annotated[
        str,
        typer.Option(
            help="Runtimes to compare, apart by commas, each with :precision if not fp32 (trt:fp16, ort-cpu:nvfp4)."
        ),
    ] = "torch,ort-cpu",
    modes: Annotated[
        str, typer.Option(help="perplexity, prefill, generate, generate-cached: what to do, apart by commas.")
    ] = _PERPLEXITY,
    window: Annotated[
        int | None, typer.Option(min=2, help="Tokens that the model sees at once; its positions, at most 1024.")
    ] = None,
    stride: Annotated[int | None, typer.Option(min=1, help="Tokens between windows; half a window by default.")] = None,
    bos: Annotated[
        str, typer.Option(help="Begin-of-text token: none, window (before each), auto (as the tokenizer does).")
    ] = "auto",
    batch: Annotated[int, typer.Option(min=1, help="Windows per forward pass, sequences when timing.")] = 1,
    halve_batch: Annotated[
        bool, typer.Option("--halve-batch", help="Go on with half the batch when memory runs out.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=2, help="Evaluate only so many tokens of the text.")] = None,
    max_ppl_increase: Annotated[
        float, typer.Option(min=0.0, help="Gate: largest increase of the perplexity over PyTorch's, in percent.")
    ] = 1.0,
    prompt: Annotated[
        str, typer.Option(help="Tokens of the prompt when timing, several lengths apart by commas.")
    ] = "64",
    new_tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate when timing.")] = 64,
    warmup: Annotated[int, typer.Option(min=0, help="Repetitions that do not count when timing.")] = 1,
    repetitions: Annotated[int, typer.Option(min=1, help="Repetitions that count when timing.")] = 5,
    device: Annotated[str, typer.Option(help="Device of PyTorch: auto, cpu, cuda, cuda:1.")] = "auto",
    opset: Annotated[
        int, typer.Option(min=OLDEST_OPSET, max=NEWEST_OPSET, help="ONNX operator set of the exported graphs.")
    ] = DEFAULT_OPSET,
    graphs: Annotated[
        Path | None, typer.Option(help="Folder of export-llm to take the graphs from, instead of exporting them.")
    ] = None,
    calibration: Annotated[
        str | None, typer.Option(help="Text that ranges for ort-cpu:int8 and ort-cpu:fp8 are found on, or random.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Processors that a runtime may use; all by default.")
    ] = None,
    allow_unverified: AllowUnverified = False,
    report: Annotated[bool, typer.Option(help="Write report.html and plots/.")] = True,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Evaluate a language model on several runtimes: perplexity against PyTorch in fp32 with a gate, and speed.

    Without a model, an embedded one is evaluated on an embedded text that it has never seen.
    """
    let_idle_threads_sleep()
    say_if_allowed(allow_unverified=allow_unverified)
    from trt_workbench.decide.language import language_candidates
    from trt_workbench.evaluate.llm import LlmRequest
    from trt_workbench.pipeline.llm.opening import parse_backends
    from trt_workbench.report.llm import timing_failures, write_report

    chosen = _modes(modes)
    place, file = _inputs(model, text)
    request = LlmRequest(
        model=place,
        text=file,
        backends=parse_backends(backends),
        window=window,
        stride=stride,
        bos=_bos(bos),
        batch=batch,
        halve_batch=halve_batch,
        limit=limit,
        max_ppl_increase=max_ppl_increase / 100,
        device=device,
        opset=opset,
        graphs=graphs,
        candidate=language_candidates(place, calibration),
        threads=threads,
        perplexity=_PERPLEXITY in chosen,
        timing=_timing(chosen, prompt, new_tokens, batch, warmup, repetitions),
        allow_unverified=allow_unverified,
    )
    outcome, directory = _evaluate(request, output)
    drawing = draw(write_report, directory, debug=debug) if report else Drawing()
    for note in outcome.metrics["notes"]:
        say(f"note: {note}")
    for sentence in timing_failures(outcome.metrics):
        say(f"failed: {sentence}")
    if as_json:
        from trt_workbench.evaluate.llm_files import plain

        print_json({**plain(outcome.metrics), "directory": str(directory)})
    else:
        _show(outcome.metrics, directory)
    if outcome.status == "partial":
        say(f"Interrupted {_reached(outcome.metrics)}; what was done is kept, marked partial: {directory}")
        raise typer.Exit(INTERRUPTED)
    if outcome.failures:
        raise CheckFailed(f"The gate on the perplexity failed. {' '.join(outcome.failures)} Run directory: {directory}")
    if outcome.timing_error:
        raise type(outcome.timing_error)(
            f"Not everything could be timed; the reasons stand above. What was measured is kept: {directory}"
        ) from outcome.timing_error
    drawing.end()


def _reached(metrics: dict[str, Any]) -> str:
    """Say how far an interrupted run came."""
    if metrics["interrupted"] == "perplexity":
        return f"after {metrics['tokens']} tokens"
    return f"while timing (measurements done: {len(metrics['timing'])})"


def _modes(text: str) -> tuple[str, ...]:
    from trt_workbench.evaluate.llm_timing import TIMING_MODES

    known = (_PERPLEXITY, *TIMING_MODES)
    chosen = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not chosen or (unknown := [mode for mode in chosen if mode not in known]):
        raise UsageProblem(
            f"--modes takes some of {', '.join(known)}, apart by commas, not {unknown[0] if chosen else text!r}."
        )
    return chosen


def _timing(
    chosen: tuple[str, ...], prompt: str, new_tokens: int, batch: int, warmup: int, repetitions: int
) -> TimingRequest | None:
    from trt_workbench.evaluate.llm_timing import TIMING_MODES, TimingRequest

    modes = tuple(mode for mode in TIMING_MODES if mode in chosen)
    sizes = [whole_number(part.strip()) for part in prompt.split(",") if part.strip()]
    if not sizes or not all(sizes):
        raise UsageProblem(
            f"--prompt takes one number of tokens or several apart by commas, such as 128,512, not {prompt!r}."
        )
    prompts = tuple(dict.fromkeys(filter(None, sizes)))
    return TimingRequest(modes, prompts, new_tokens, batch, warmup, repetitions) if modes else None


def _bos(text: str) -> Any:
    if text not in ("auto", "none", "window"):
        raise UsageProblem(f"--bos takes auto, none or window, not {text!r}.")
    return None if text == "auto" else text


def _inputs(model: Path | None, text: Path | None) -> tuple[Path, Path]:
    """Fill in the embedded model and text."""
    from trt_workbench.system.embedded import LLM, embedded_model, embedded_text

    if model is None:
        model = embedded_model(LLM)
        say(f"Model: the embedded language model {model}")
    if text is None:
        text = embedded_text()
        say(f"Text: the embedded held-out text {text}")
    return model, text


def _evaluate(request: LlmRequest, output: Path | None) -> tuple[LlmOutcome, Path]:
    from trt_workbench.cli.progress import progress_bar
    from trt_workbench.evaluate.llm import LlmEvaluation
    from trt_workbench.runs.directory import run_directory

    with LlmEvaluation(request, say) as evaluation:
        if request.perplexity:
            say(evaluation.recipe.describe())
        with run_directory("eval-llm", output) as run:
            with progress_bar("tokens") as tokens, progress_bar("repetitions") as repetitions:
                outcome = evaluation.run(
                    run.path,
                    tokens("Evaluating") if request.perplexity else None,
                    repetitions("Timing") if request.timing else None,
                )
            return outcome, run.commit(
                outcome.status, tokens=outcome.metrics["tokens"], allow_unverified=request.allow_unverified
            )


def _show(metrics: dict[str, Any], directory: Path) -> None:
    from trt_workbench.verify.unverified import let_through

    console = stdout_console(quiet=False)
    rows = metrics["backends"] + metrics["timing"]
    for sentence in let_through(mark for row in rows for mark in row["verification"]):
        print_line(console, sentence)
    if metrics["backends"]:
        console.print(_perplexities(metrics))
    if metrics["timing"] or any("agreement" in row for row in metrics["timing_failures"]):
        console.print(_timings(metrics))
    lines = []
    if metrics["backends"]:
        verdict = "passed" if metrics["passed"] else "failed"
        lines.append(f"Gate (at most +{metrics['max_ppl_increase']:.3%} perplexity): {verdict}")
    lines.append(f"Run directory: {directory}")
    if (directory / "report.html").is_file():
        lines.append(f"Report: {directory / 'report.html'}")
    for line in lines:
        print_line(console, line)


def _perplexities(metrics: dict[str, Any]) -> Any:
    from trt_workbench.onnxtools.precision import told

    columns = ("backend", "ran in", "perplexity", "change", "Δ logit", "top-1", "KL", "gate")
    table = _table(f"Perplexity over {metrics['tokens']} tokens", *columns)
    for row in metrics["backends"]:
        table.add_row(
            f"{row['backend']}:{row['precision']}",
            told(row) or "-",
            f"{row['perplexity']:.4f}",
            f"{row['relative_difference']:+.1e}",
            f"{row['max_logit_difference']:.1e}",
            f"{row['top1_agreement']:.3%}",
            f"{row['kl_divergence']:.1e}",
            "failed" if row["failure"] else "passed",
        )
    return table


def _timings(metrics: dict[str, Any]) -> Any:
    columns = ("mode", "backend", "prompt", "first ms", "each ms", "tokens/s", "same")
    table = _table("Speed, medians; same: tokens until a near tie parts them from PyTorch's", *columns)
    for row in metrics["timing"]:
        per_token = row["time_per_token_ms"]
        table.add_row(
            row["mode"],
            f"{row['backend']}:{row['precision']}",
            f"{row['batch']}x{row['prompt_tokens']}",
            f"{row['time_to_first_token_ms']['p50']:.5g}",
            f"{per_token['p50']:.4g}" if per_token else "-",
            f"{row['tokens_per_s']['p50']:.5g}",
            "all" if row["agreement"]["first_difference"] is None else str(row["agreement"]["first_difference"]),
        )
    for row in metrics["timing_failures"]:
        if "agreement" in row:  # the others were not computed, and are named elsewhere
            shape = f"{row['batch']}x{row['missing_prompts'][0]}"
            table.add_row(row["mode"], f"{row['backend']}:{row['precision']}", shape, "-", "-", "-", "wrong")
    return table


def _table(title: str, *columns: str) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)  # 80 columns must do
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def main() -> None:
    """Run `eval-llm`."""
    single_command_app(eval_llm)()
