"""`trtw`: every command under one name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trt_workbench import __version__
from trt_workbench.console.common import PanelCommand, handled
from trt_workbench.console.foreign_words import COMMANDS as FOREIGN_COMMANDS
from trt_workbench.console.foreign_words import OPTIONS as FOREIGN_OPTIONS
from trt_workbench.console.typed import read_sparingly
from trt_workbench.core import extensions
from trt_workbench.core.errors import ComponentMissing

_SCORES = (
    "Score a detector on images with COCO annotations or Ultralytics labels, or a classifier on folders of classes."
)
_BUILDS = (
    "Build ONNX Runtime's TensorRT provider from source, for the TensorRT that is set up and the ONNX Runtime here."
)
# By purpose: where each command is, a module and its function, imported when the command is called, or the plug-in that
# has it, an entry point; and the first sentence of its help, for the list of all of them.
PURPOSES = {
    "See": {
        "inspect": ("inspect.cli:inspect", "Describe a model or an engine without running it."),
        "partitions": (
            "inspect.partitions_cli:partitions",
            "Show which nodes of a model go to which provider, and why.",
        ),
        "predict": ("vision.predict_cli:predict", "Detect objects in images and videos."),
        "report": ("overview.cli:report", "Write the reports of runs again, and an overview of them."),
    },
    "Decide": {
        "decide": ("decide.cli:decide", "Score and time every precision of a model; recommend one."),
        "sensitivity": (
            "quantize.sensitivity_cli:sensitivity",
            "Show what each group of a model loses in a lower precision.",
        ),
        "upgrade": (
            "upgrade.cli:upgrade",
            "Check that models are as correct, as good and as fast in another stack as in the one in use.",
        ),
        "compare": ("bench.compare_cli:compare", "Compare the points that two bench runs have in common."),
    },
    "Check": {
        "verify": (
            "verify.cli:verify",
            "Check that an engine computes what its model says, at every batch and shape that it accepts.",
        ),
        "gate": ("gate.cli:gate", "Check a model's correctness, score and latency in one job."),
        "check-contract": ("stream.check_cli:check_contract", "Check a streaming model against its contract."),
        "check-target": ("rtx", "Compile a model for RTX cards that this machine does not have."),
    },
    "Measure": {
        "eval-coco": ("evaluate.cli:eval_coco", _SCORES),
        "eval-vision": ("evaluate.cli:eval_coco", _SCORES),
        "eval-llm": ("llm.cli:eval_llm", "Compare a language model's output on several runtimes."),
        "eval-stream": ("stream.cli:eval_stream", "Compare a streaming model with a reference chunk by chunk."),
        "eval-speech": ("speech", "Transcribe utterances in every precision, and compare word error rates."),
        "bench": ("bench.cli:bench", "Measure models on runtimes and rank them."),
        "profile": ("profile.cli:profile", "Time every layer, node and kernel; compare two precisions."),
        "infer-engine": ("infer.cli:infer_engine", "Run an engine or a model on arrays, check it, or measure it."),
        "merge": ("scale.cli:merge", "Put shards of a run together."),
        "submit": ("fleet", "Run shards of a command by Slurm, Kubernetes, Ray or on this machine."),
    },
    "Make": {
        "build-engine": ("build_engine.cli:build_engine", "Build a TensorRT engine from an ONNX model."),
        "refit-engine": (
            "build_engine.refit_cli:refit_engine",
            "Put a model's weights into an engine without a new build.",
        ),
        "quantize": ("quantize.cli:quantize", "Convert a model to a lower precision, with its evidence."),
        "sanitize-onnx": (
            "sanitize.cli:sanitize_onnx",
            "Rewrite what TensorRT refuses in an ONNX file, and check the result.",
        ),
        "export-llm": ("llm.export_cli:export_llm", "Export a language model to ONNX and compare it with PyTorch."),
        "export-triton": ("serving", "Write a plan or a model as a repository for Triton."),
        "make-contract": ("stream.make_cli:make_contract", "Draft a streaming model's contract from its file."),
    },
    "Set up": {
        "setup-tensorrt": ("setup.cli:setup_tensorrt", "Bring TensorRT's libraries and headers into this workspace."),
        "build-ort": ("setup.ort_cli:build_ort", _BUILDS),
        "backends": ("setup.backends_cli:backends", "List every backend and whether it is available here."),
        "doctor": ("setup.doctor_cli:doctor", "Check this machine: driver, GPU, libraries, backends."),
    },
}
COMMANDS = {name: place for commands in PURPOSES.values() for name, (place, _) in commands.items()}
OWN_COMMANDS = [name for name, place in COMMANDS.items() if ":" in place]
_LIST = (["-h"], ["--help"])
# Whatever stands behind a command that cannot be used, the answer is why.
_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


class _Commands(TyperGroup):
    """The commands; the list of them has a whole sentence on each, and needs none of them."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer calls it
        """Write the commands by purpose, each with the first sentence of its help."""
        for purpose, names in PURPOSES.items():
            with formatter.section(purpose):
                formatter.write_dl([(name, sentence) for name, (_, sentence) in names.items()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what comes before a command; an option of another tool or a model in its place is refused."""
        read_sparingly(own := self.get_params(ctx))
        if args and (
            args[0].partition("=")[0] in FOREIGN_OPTIONS.keys() - {name for one in own for name in one.opts}
            or args[0].endswith((".onnx", ".plan", ".engine"))
        ):
            ctx.fail("A command comes first, such as `trtw inspect MODEL`; `trtw -h` lists them.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named; one of another tool is refused with ours."""
        if args[0] not in self.commands and args[0] in FOREIGN_COMMANDS:
            ctx.fail(f"There is no command {args[0]!r} here; `trtw {FOREIGN_COMMANDS[args[0]]}` does that.")
        return super().resolve_command(ctx, args)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"trt-workbench {__version__}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """From an ONNX file to a TensorRT deployment decision that can be trusted."""


def app_of(names: Iterable[str]) -> typer.Typer:
    """Return `trtw` with these commands of the table."""
    made = typer.Typer(
        name="trtw",
        cls=_Commands,
        help="From an ONNX file to a TensorRT deployment decision that can be trusted.",
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback()(_root)
    for name in names:
        try:
            made.command(name, cls=PanelCommand)(_command(name))
        except ComponentMissing as problem:
            made.command(name, context_settings=_ANYTHING)(_refusing(f"{name} is not available. {problem}"))
    return made


def _command(name: str) -> Callable[..., Any]:
    """Return the function of a command.

    Raises:
        ComponentMissing: its package is not installed, or cannot be imported.
    """
    module, _, function = COMMANDS.get(name, "").partition(":")
    if function:
        command: Callable[..., Any] = getattr(import_module(f"trt_workbench.{module}"), function)
        return command
    return extensions.imported(extensions.required(extensions.COMMANDS, name, module, OWN_COMMANDS))  # type: ignore[no-any-return]


def _refusing(problem: str) -> Callable[..., Any]:
    @handled
    def refuse() -> None:
        raise ComponentMissing(problem)

    return refuse


def app_for(words: Sequence[str]) -> typer.Typer:
    """Return `trtw` for a command line; of the commands, the one that is called is imported, and none to list them."""
    if [*words] in _LIST:
        return app_of(())
    known = COMMANDS if words and words[0] in COMMANDS else every_command()
    return app_of(words[:1] if words and words[0] in known else known)


def every_command() -> list[str]:
    """Return the names of all commands, those of other packages last."""
    return [*dict.fromkeys((*COMMANDS, *extensions.extensions(extensions.COMMANDS, OWN_COMMANDS)))]


def main() -> None:
    """Run `trtw`."""
    app_for(sys.argv[1:])()


def __getattr__(name: str) -> typer.Typer:
    """Return `app`, which has every command: it is made when it is first asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made = app_of(every_command())
    return made
