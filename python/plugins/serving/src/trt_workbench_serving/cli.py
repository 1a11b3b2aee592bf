"""`trtw export-triton`: a plan or a model as a repository for Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    print_json,
    print_line,
    print_table,
    say_if_allowed,
)
from trt_workbench.report.tables import Table
from trt_workbench_serving.settings import TritonSettings

if TYPE_CHECKING:
    from trt_workbench_serving.run import ExportedRepository


@handled
def export_triton(
    settings: TritonSettings,
    *,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Write a plan or a model as a repository for Triton.

    The configuration comes from the manifest: tensors, batches, profiles, warm-up. Triton's own format has parsed it.
    A plan has to be verified, and of the TensorRT version that the server has.
    """
    from trt_workbench_serving.run import export_triton as export

    say_if_allowed(allow_unverified=settings.allow_unverified)
    made = export(settings)
    if as_json:
        print_json(made.document())
    else:
        _show(made)


def _show(made: ExportedRepository) -> None:
    row = (
        *(made.config[name] for name in ("name", "backend", "max_batch_size")),
        *(", ".join(one["name"] for one in made.config[side]) for side in ("input", "output")),
    )
    print_table(Table(("model", "executed by", "most rows", "inputs", "outputs"), [row]))
    for note in made.notes:
        print_line(note)
    print_line(f"Example of a client: {made.client}")
    print_line(f"Start it: tritonserver --model-repository={made.repository.resolve()}")
