"""`trtw export-triton`: a plan or a model as a repository for Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    print_found,
    say_if_allowed,
)
from trt_workbench.report.tables import Table
from trt_workbench_serving.settings import TritonSettings

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
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
    print_found(made.document(), lambda _: _shown(made), as_json=as_json)


def _shown(made: ExportedRepository) -> Parts:
    row = (
        *(made.config[name] for name in ("name", "backend", "max_batch_size")),
        *(", ".join(one["name"] for one in made.config[side]) for side in ("input", "output")),
    )
    return [
        Table(("model", "executed by", "most rows", "inputs", "outputs"), [row]),
        *made.notes,
        f"Example of a client: {made.client}",
        f"Start it: tritonserver --model-repository={made.repository.resolve()}",
    ]
