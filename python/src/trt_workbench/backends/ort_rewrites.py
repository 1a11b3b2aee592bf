"""A model's graph as ONNX Runtime has it when it gives out nodes: some have names that the file does not have."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort_common import CPU_PROVIDER, session_config

if TYPE_CHECKING:
    import onnx

_WEIGHTS = "weights"


def assigned_graph(ort: Any, model: Path, level: str) -> onnx.GraphProto | None:
    """Return the graph from which ONNX Runtime assigns the nodes, large weights left out.

    The rewrites before the assignment, those of the level "basic", do not depend on the providers. So the CPU makes
    them here, which costs no memory of a device and serves providers whose compiled nodes cannot be written to a file.

    Args:
        ort: the module onnxruntime.
        model: the file.
        level: a key of ort_common.LEVELS, that of the session whose assignment is looked at.

    Returns:
        None if the CPU cannot load the model: an operator may have a kernel on the device alone.
    """
    import onnx

    config, _ = session_config(
        ort, SessionOptions(threads=1), "disable" if level == "disable" else "basic", allow_spinning=False
    )
    config.log_severity_level = 4  # a failure is an answer here
    with tempfile.TemporaryDirectory(prefix="trtw-graph-") as folder:
        written = Path(folder, "graph.onnx")
        # gigabytes of weights say nothing about shapes, and a file of more than 2 GB could not be written
        Path(folder, _WEIGHTS).symlink_to("/dev/null")
        config.optimized_model_filepath = str(written)
        config.add_session_config_entry("session.optimized_model_external_initializers_file_name", _WEIGHTS)
        config.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
        try:
            ort.InferenceSession(model, config, providers=[CPU_PROVIDER], enable_fallback=0)
        except Exception:  # ONNX Runtime raises many kinds; without the graph the check is the stricter one
            return None
        return onnx.load(written, load_external_data=False).graph
