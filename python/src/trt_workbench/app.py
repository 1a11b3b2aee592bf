"""`trtw`: every command under one name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trt_workbench import __version__
from trt_workbench.console.common import PanelCommand

# Where each command is: a module and its function, imported when the command is called.
COMMANDS = {
    "build-engine": "build_engine.cli:build_engine",
    "infer-engine": "infer.cli:infer_engine",
    "inspect": "inspect.cli:inspect",
    "inspect-engine": "inspect.engine_cli:inspect_engine",
    "refit-engine": "build_engine.refit_cli:refit_engine",
    "eval-coco": "vision.cli:eval_coco",
    "eval-vision": "vision.cli:eval_coco",
    "predict": "vision.predict_cli:predict",
    "eval-llm": "llm.cli:eval_llm",
    "eval-stream": "stream.cli:eval_stream",
    "export-llm": "llm.export_cli:export_llm",
    "bench": "bench.cli:bench",
    "profile": "profile.cli:profile",
    "compare": "bench.compare_cli:compare",
    "decide": "decide.cli:decide",
    "report": "overview.cli:report",
    "merge": "scale.cli:merge",
    "submit": "scale.submit.cli:submit",
    "export": "export.cli:export",
    "backends": "setup.backends_cli:backends",
    "doctor": "setup.doctor_cli:doctor",
    "build-ort": "setup.ort_cli:build_ort",
    "partitions": "inspect.partitions_cli:partitions",
    "check-target": "target.cli:check_target",
    "export-triton": "triton.cli:export_triton",
    "sanitize-onnx": "sanitize.cli:sanitize_onnx",
    "quantize": "quantize.cli:quantize",
    "sensitivity": "quantize.sensitivity_cli:sensitivity",
    "setup-tensorrt": "setup.cli:setup_tensorrt",
    "make-contract": "stream.make_cli:make_contract",
    "check-contract": "stream.check_cli:check_contract",
    "verify": "verify.cli:verify",
    "upgrade": "upgrade.cli:upgrade",
}


class _Commands(TyperGroup):
    """The commands; the list of them has a whole sentence on each."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write every command with the first sentence of its help, on further lines where it is long."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, one.get_short_help_str(limit=1000)) for name, one in commands if one and not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; a command that comes first leaves no options to look for.

        To read one, typer imports pydantic, which takes as long as all the rest of a command's `--help`.
        """
        if args and args[0] in self.commands:
            self.params, self.add_help_option = [], False
        return super().parse_args(ctx, args)


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


def main() -> None:
    """Run `trtw`; of the commands, the one that is called is imported."""
    first = sys.argv[1:2]
    app_of(first if first and first[0] in COMMANDS else COMMANDS)()


def __getattr__(name: str) -> typer.Typer:
    """Return `app`, which has every command: it is made when it is first asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made = app_of(COMMANDS)
    return made
