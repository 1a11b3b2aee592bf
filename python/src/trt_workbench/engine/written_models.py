"""Models that a command writes where the user says: marked as ours, never replacing other files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import onnx

from trt_workbench import __version__
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import refuse_foreign
from trt_workbench.model.opened import Model
from trt_workbench.model.weights import save_model

_MARK = "trtw.written_by"
# What the metadata of all our models begin with: of this mark, of candidates, of exported language models.
_OURS = ("trtw.", "trt_workbench.")


def write_model(model: onnx.ModelProto, path: Path) -> None:
    """Write a model with our mark, whole or not at all. Raises OSError as `save_model`."""
    entries = {entry.key: entry.value for entry in model.metadata_props}
    onnx.helper.set_model_props(model, {**entries, _MARK: f"trt-workbench {__version__}"})
    save_model(model, path)


def check_model_output(output: Path, sources: Iterable[Path]) -> None:
    """Check where a model and its weights are to be written, before the work begins.

    Args:
        output: the ONNX file; weights may be stored beside it, as NAME.data.
        sources: files that the model is made from.

    Raises:
        UsageProblem: it would replace a source, or a file that we did not write.
        OSError: it is a folder, a pipe, a device or a socket.
    """
    data = output.with_name(f"{output.name}.data")
    # not resolve(): on a ring of links it raises RuntimeError
    taken = {os.path.realpath(file) for file in sources}
    for file in (output, data):
        if os.path.realpath(file) in taken:
            raise UsageProblem(f"The output would replace the model or its weights; give it another name: {file}")
    refuse_foreign(output, is_our_model)
    refuse_foreign(data, lambda file: is_our_model(output) and file in Model.open(output).external_files)


def is_our_model(path: Path) -> bool:
    """Whether the metadata of a model say that we wrote it. Raises UsageProblem for what is none."""
    return any(key.startswith(_OURS) for key in Model.open(path).facts.metadata)
