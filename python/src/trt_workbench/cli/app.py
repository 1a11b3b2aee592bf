"""`trtw`: every command under one name."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trt_workbench import __version__
from trt_workbench.cli import (
    backends,
    bench,
    build_engine,
    build_ort,
    check_contract,
    check_target,
    compare,
    decide,
    doctor,
    eval_coco,
    eval_llm,
    eval_stream,
    export_llm,
    infer_engine,
    inspect,
    inspect_engine,
    make_contract,
    partitions,
    predict,
    profile,
    quantize,
    refit_engine,
    report,
    sanitize_onnx,
    sensitivity,
    setup_tensorrt,
    verify,
)
from trt_workbench.cli.common import PanelCommand


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


app = typer.Typer(
    name="trtw",
    cls=_Commands,
    help="From an ONNX file to a TensorRT deployment decision that can be trusted.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"trt-workbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """From an ONNX file to a TensorRT deployment decision that can be trusted."""


app.command("build-engine", cls=PanelCommand)(build_engine.build_engine)
app.command("infer-engine", cls=PanelCommand)(infer_engine.infer_engine)
app.command("inspect", cls=PanelCommand)(inspect.inspect)
app.command("inspect-engine", cls=PanelCommand)(inspect_engine.inspect_engine)
app.command("refit-engine", cls=PanelCommand)(refit_engine.refit_engine)
app.command("eval-coco", cls=PanelCommand)(eval_coco.eval_coco)
app.command("predict", cls=PanelCommand)(predict.predict)
app.command("eval-llm", cls=PanelCommand)(eval_llm.eval_llm)
app.command("eval-stream", cls=PanelCommand)(eval_stream.eval_stream)
app.command("export-llm", cls=PanelCommand)(export_llm.export_llm)
app.command("bench", cls=PanelCommand)(bench.bench)
app.command("profile", cls=PanelCommand)(profile.profile)
app.command("compare", cls=PanelCommand)(compare.compare)
app.command("decide", cls=PanelCommand)(decide.decide)
app.command("report", cls=PanelCommand)(report.report)
app.command("backends", cls=PanelCommand)(backends.backends)
app.command("doctor", cls=PanelCommand)(doctor.doctor)
app.command("build-ort", cls=PanelCommand)(build_ort.build_ort)
app.command("partitions", cls=PanelCommand)(partitions.partitions)
app.command("check-target", cls=PanelCommand)(check_target.check_target)
app.command("sanitize-onnx", cls=PanelCommand)(sanitize_onnx.sanitize_onnx)
app.command("quantize", cls=PanelCommand)(quantize.quantize)
app.command("sensitivity", cls=PanelCommand)(sensitivity.sensitivity)
app.command("setup-tensorrt", cls=PanelCommand)(setup_tensorrt.setup_tensorrt)
app.command("make-contract", cls=PanelCommand)(make_contract.make_contract)
app.command("check-contract", cls=PanelCommand)(check_contract.check_contract)
app.command("verify", cls=PanelCommand)(verify.verify)


def main() -> None:
    """Run `trtw`."""
    app()
