"""`trtw`: every command under one name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trt_workbench import __version__
from trt_workbench.console.common import PanelCommand
from trt_workbench.console.foreign_words import COMMANDS as FOREIGN_COMMANDS
from trt_workbench.console.foreign_words import OPTIONS as FOREIGN_OPTIONS
from trt_workbench.console.typed import read_sparingly

# Where each command is, by purpose: a module and its function, imported when the command is called.
PURPOSES = {
    "See": {
        "inspect": "inspect.cli:inspect",
        "inspect-engine": "inspect.engine_cli:inspect_engine",
        "partitions": "inspect.partitions_cli:partitions",
        "predict": "vision.predict_cli:predict",
        "report": "overview.cli:report",
        "export": "export.cli:export",
    },
    "Decide": {
        "decide": "decide.cli:decide",
        "sensitivity": "quantize.sensitivity_cli:sensitivity",
        "upgrade": "upgrade.cli:upgrade",
        "compare": "bench.compare_cli:compare",
    },
    "Check": {
        "verify": "verify.cli:verify",
        "gate": "gate.cli:gate",
        "check-contract": "stream.check_cli:check_contract",
        "check-target": "target.cli:check_target",
    },
    "Measure": {
        "eval-coco": "vision.cli:eval_coco",
        "eval-vision": "vision.cli:eval_coco",
        "eval-llm": "llm.cli:eval_llm",
        "eval-stream": "stream.cli:eval_stream",
        "bench": "bench.cli:bench",
        "profile": "profile.cli:profile",
        "infer-engine": "infer.cli:infer_engine",
        "merge": "scale.cli:merge",
        "submit": "scale.submit.cli:submit",
    },
    "Make": {
        "build-engine": "build_engine.cli:build_engine",
        "refit-engine": "build_engine.refit_cli:refit_engine",
        "quantize": "quantize.cli:quantize",
        "sanitize-onnx": "sanitize.cli:sanitize_onnx",
        "export-llm": "llm.export_cli:export_llm",
        "export-triton": "triton.cli:export_triton",
        "make-contract": "stream.make_cli:make_contract",
    },
    "Set up": {
        "setup-tensorrt": "setup.cli:setup_tensorrt",
        "build-ort": "setup.ort_cli:build_ort",
        "backends": "setup.backends_cli:backends",
        "doctor": "setup.doctor_cli:doctor",
    },
}
COMMANDS = {name: place for commands in PURPOSES.values() for name, place in commands.items()}


class _Commands(TyperGroup):
    """The commands; the list of them has a whole sentence on each."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer calls it
        """Write the commands by purpose, each with the first sentence of its help."""
        for purpose, names in PURPOSES.items():
            with formatter.section(purpose):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=1000)) for name in names])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what comes before a command; an option of another tool or a model in its place is refused."""
        read_sparingly(self.get_params(ctx))
        if args and (args[0].partition("=")[0] in FOREIGN_OPTIONS or args[0].endswith((".onnx", ".plan", ".engine"))):
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
        module, function = COMMANDS[name].split(":")
        command = getattr(import_module(f"trt_workbench.{module}"), function)
        made.command(name, cls=PanelCommand)(command)
    return made


def app_for(words: Sequence[str]) -> typer.Typer:
    """Return `trtw` for a command line; of the commands, the one that is called is imported."""
    return app_of(words[:1] if words and words[0] in COMMANDS else COMMANDS)


def main() -> None:
    """Run `trtw`."""
    app_for(sys.argv[1:])()


def __getattr__(name: str) -> typer.Typer:
    """Return `app`, which has every command: it is made when it is first asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made = app_of(COMMANDS)
    return made
