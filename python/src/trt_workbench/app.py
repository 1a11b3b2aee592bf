"""`trtw`: every command under one name."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trt_workbench import __version__
from trt_workbench.bench import cli as bench
from trt_workbench.bench import compare_cli as compare
from trt_workbench.build_engine import cli as build_engine
from trt_workbench.build_engine import refit_cli as refit_engine
from trt_workbench.console.common import PanelCommand
from trt_workbench.decide import cli as decide
from trt_workbench.export import cli as export
from trt_workbench.infer import cli as infer_engine
from trt_workbench.inspect import cli as inspect
from trt_workbench.inspect import engine_cli as inspect_engine
from trt_workbench.inspect import partitions_cli as partitions
from trt_workbench.llm import cli as eval_llm
from trt_workbench.llm import export_cli as export_llm
from trt_workbench.overview import cli as report
from trt_workbench.profile import cli as profile
from trt_workbench.quantize import cli as quantize
from trt_workbench.quantize import sensitivity_cli as sensitivity
from trt_workbench.sanitize import cli as sanitize_onnx
from trt_workbench.scale import cli as merge
from trt_workbench.scale.submit import cli as submit
from trt_workbench.setup import backends_cli as backends
from trt_workbench.setup import cli as setup_tensorrt
from trt_workbench.setup import doctor_cli as doctor
from trt_workbench.setup import ort_cli as build_ort
from trt_workbench.stream import check_cli as check_contract
from trt_workbench.stream import cli as eval_stream
from trt_workbench.stream import make_cli as make_contract
from trt_workbench.target import cli as check_target
from trt_workbench.triton import cli as export_triton
from trt_workbench.upgrade import cli as upgrade
from trt_workbench.verify import cli as verify
from trt_workbench.vision import cli as eval_coco
from trt_workbench.vision import predict_cli as predict


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
app.command("eval-vision", cls=PanelCommand)(eval_coco.eval_coco)
app.command("predict", cls=PanelCommand)(predict.predict)
app.command("eval-llm", cls=PanelCommand)(eval_llm.eval_llm)
app.command("eval-stream", cls=PanelCommand)(eval_stream.eval_stream)
app.command("export-llm", cls=PanelCommand)(export_llm.export_llm)
app.command("bench", cls=PanelCommand)(bench.bench)
app.command("profile", cls=PanelCommand)(profile.profile)
app.command("compare", cls=PanelCommand)(compare.compare)
app.command("decide", cls=PanelCommand)(decide.decide)
app.command("report", cls=PanelCommand)(report.report)
app.command("merge", cls=PanelCommand)(merge.merge)
app.command("submit", cls=PanelCommand)(submit.submit)
app.command("export", cls=PanelCommand)(export.export)
app.command("backends", cls=PanelCommand)(backends.backends)
app.command("doctor", cls=PanelCommand)(doctor.doctor)
app.command("build-ort", cls=PanelCommand)(build_ort.build_ort)
app.command("partitions", cls=PanelCommand)(partitions.partitions)
app.command("check-target", cls=PanelCommand)(check_target.check_target)
app.command("export-triton", cls=PanelCommand)(export_triton.export_triton)
app.command("sanitize-onnx", cls=PanelCommand)(sanitize_onnx.sanitize_onnx)
app.command("quantize", cls=PanelCommand)(quantize.quantize)
app.command("sensitivity", cls=PanelCommand)(sensitivity.sensitivity)
app.command("setup-tensorrt", cls=PanelCommand)(setup_tensorrt.setup_tensorrt)
app.command("make-contract", cls=PanelCommand)(make_contract.make_contract)
app.command("check-contract", cls=PanelCommand)(check_contract.check_contract)
app.command("verify", cls=PanelCommand)(verify.verify)
app.command("upgrade", cls=PanelCommand)(upgrade.upgrade)


def main() -> None:
    """Run `trtw`."""
    app()
