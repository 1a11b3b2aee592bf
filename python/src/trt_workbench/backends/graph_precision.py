"""Precision of an ONNX model for runtimes that compute what the graph says: fp16 needs an fp16 graph.

ONNX Runtime does, and TensorRT where networks are strongly typed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.kept import seal, sealed
from trt_workbench.core.precision import GRAPH_PRECISIONS
from trt_workbench.core.workspace import cache_root
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.opened import Model

# Bump to invalidate cached conversions.
_RECIPE = 4
# ONNX allows them in fp16, and providers of ONNX Runtime lack kernels: its own converter leaves them in fp32, too.
_WITHOUT_FP16 = ("TopK", "RoiAlign", "Min", "Max", "Upsample")


class Conversion(Strict):
    """conversion.json: from what a file was converted, and its hash."""

    schema_version: Literal[1] = 1
    recipe: int
    model_sha256: str
    onnx: str
    keep_fp32: list[str]
    kept_in_fp32: list[str]
    converted_sha256: str


def model_in_precision(
    backend: str, model: Model, precision: str, *, keep_fp32: tuple[str, ...] = ()
) -> tuple[Model, dict[str, Any]]:
    """Return the model to load in `precision` and the record of the conversion.

    "fp32" takes the file as it was exported. "fp16" takes a file that computes in fp16 as it is and converts any other
    as `trtw quantize --to fp16` does, inputs and outputs unchanged. "int8" takes a file with QuantizeLinear nodes.

    Args:
        backend: for messages.
        model: the ONNX model.
        precision: "fp32", "fp16" or "int8".
        keep_fp32: operators left in fp32 besides those that lose their meaning in fp16, or have no kernel there.

    Raises:
        UsageProblem: the precision is unknown here, or the file is not available in it.
    """
    if precision == "fp32":
        return model, {"precision": "as exported"}
    if precision == "int8":
        if "int8" not in (formats := model.facts.formats):
            held = f"is quantised to {' and '.join(formats)}" if formats else "has no QuantizeLinear nodes"
            raise UsageProblem(f"The model {held}, so {backend} cannot run it in int8; quantize it: {model.path}")
        return model, {"precision": "as exported", "quantized": True}
    if precision != "fp16":
        *others, last = GRAPH_PRECISIONS
        raise UsageProblem(f"Backend {backend} can run a model in {', '.join(others)} or {last}, not {precision!r}.")
    if "fp16" in read_precision(model).shares:
        return model, {"precision": "as exported", "exported_in": "fp16"}
    converted, record = _converted(model, keep_fp32)
    return converted, {"precision": "fp16", **record}


def _converted(model: Model, keep_fp32: tuple[str, ...]) -> tuple[Model, dict[str, Any]]:
    """Return the converted model, made once for every model and recipe, and its record."""
    import onnx

    from trt_workbench import __version__

    key: dict[str, Any] = {
        "recipe": _RECIPE,
        "model_sha256": model.sha256,
        "onnx": str(onnx.__version__),
        "keep_fp32": sorted(keep_fp32),
    }
    folder = cache_root() / "converted" / hash_document(key)
    path, record_path = folder / "model.onnx", folder / "conversion.json"
    files = (path, folder / "model.onnx.data", record_path)
    if not sealed(files):
        wide = _convert(model, path, keep_fp32)
        write_json(record_path, Conversion(**key, kept_in_fp32=wide, converted_sha256=Model.open(path).sha256))
        seal(files)
    record = read_document(record_path, Conversion)
    return Model.open(path), {
        "converted_by": f"trt-workbench {__version__}, inputs and outputs unchanged",
        "converted_sha256": record.converted_sha256,
        "converted_file": str(path),
        "kept_in_fp32": record.kept_in_fp32,
    }


def _convert(model: Model, path: Path, keep_fp32: tuple[str, ...]) -> list[str]:
    """Write the converted file and return the operators of it that stayed in fp32 somewhere."""
    from trt_workbench.model.low_precision.cast import cast_model
    from trt_workbench.model.weights import save_model

    try:
        made = cast_model(model.load(), "fp16", operators={*_WITHOUT_FP16, *keep_fp32})
    except UsageProblem as problem:
        raise UsageProblem(f"The model cannot be converted to fp16: {problem} Model: {model.path}") from problem
    save_model(made.model, path)
    return sorted(made.wide)
