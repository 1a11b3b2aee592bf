"""A model's graph as ONNX Runtime has it: when it assigns nodes, and when it runs them, with operators of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.common import CPU_PROVIDER, session_config
from trt_workbench.core.files import scratch_folder

_WEIGHTS = "weights"
Load = Callable[[Any], object]


def assigned_graph(ort: Any, model: Path, level: str) -> onnx.GraphProto | None:
    """Return the graph from which ONNX Runtime assigns the nodes, large weights left out.

    The rewrites before the assignment, those of the level "basic", do not depend on the providers. So the CPU makes
    them here, which costs no memory of a device and serves providers whose compiled nodes cannot be written to a file.

    Args:
        ort: the module onnxruntime.
        model: the file.
        level: a key of ort_common.LEVELS, that of the session whose assignment is looked at.

    Returns:
        None if the CPU cannot load the model: an operator may have a kernel only on the device.
    """

    def load(config: Any) -> None:
        ort.InferenceSession(model, config, providers=[CPU_PROVIDER], enable_fallback=0)

    found = optimised_model(ort, "disable" if level == "disable" else "basic", load)
    return found and found.graph


def optimised_model(ort: Any, level: str, load: Load) -> onnx.ModelProto | None:
    """Return the model that a session of ONNX Runtime executes, large weights left out.

    Args:
        ort: the module onnxruntime.
        level: a key of ort_common.LEVELS.
        load: makes the session with the settings that it is given.

    Returns:
        None if the session cannot be made, or has compiled nodes, which no file can hold.
    """
    config, _ = session_config(ort, SessionOptions(threads=1), level, allow_spinning=False)
    with scratch_folder("trtw-graph-") as folder:
        written = Path(folder, "graph.onnx")
        # gigabytes of weights say nothing about types, and a file of more than 2 GB could not be written
        Path(folder, _WEIGHTS).symlink_to("/dev/null")
        config.optimized_model_filepath = str(written)
        config.add_session_config_entry("session.disable_prepacking", "1")
        config.add_session_config_entry("session.optimized_model_external_initializers_file_name", _WEIGHTS)
        try:
            load(config)
        except Exception:  # ONNX Runtime raises many kinds
            return None
        return onnx.load(written, load_external_data=False)
