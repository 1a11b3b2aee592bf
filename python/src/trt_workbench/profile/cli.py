"""`trtw profile`: where an engine or a model spends its time, by layer, node and kernel."""

from __future__ import annotations

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    note,
)
from trt_workbench.console.drawing import present
from trt_workbench.profile.settings import ProfileRequest


@handled
def profile(
    request: ProfileRequest,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Time every layer, node and kernel; compare two precisions.

    Maps the layers of an engine to the ONNX nodes that they compute. NVIDIA's profilers record the kernels.
    """
    from trt_workbench.profile.run import profile as run_profile

    directory = run_profile(request, output, note)
    from trt_workbench.profile.tables import document, shown

    present(directory, document(directory), shown, as_json=as_json, debug=debug).end()
