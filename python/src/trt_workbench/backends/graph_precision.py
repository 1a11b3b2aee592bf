"""Precision of an ONNX model for runtimes that compute what the graph says: fp16 needs an fp16 graph.

ONNX Runtime does, and TensorRT where networks are strongly typed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from trt_workbench.engine.documents import Strict, read_document, write_json
from trt_workbench.engine.files import atomic_writer
from trt_workbench.engine.hashing import hash_document, hash_file, hash_model
from trt_workbench.errors import ComponentMissing, UsageProblem
from trt_workbench.onnxtools.preflight import ModelFacts
from trt_workbench.system.launcher import package
from trt_workbench.system.workspace import output_root

# Raised when the way of converting changes, so that files converted before are not taken again.
_RECIPE = 1


class Conversion(Strict):
    """conversion.json: from what a file was converted, and its hash."""

    schema_version: Literal[1] = 1
    recipe: int
    model_sha256: str
    onnxruntime: str
    onnx: str
    keep_fp32: list[str]
    converted_sha256: str


def model_in_precision(
    backend: str, model: Path, facts: ModelFacts, precision: str, *, keep_fp32: tuple[str, ...] = ()
) -> tuple[Path, dict[str, Any]]:
    """Return the model to load in `precision` and the record of what was done for it.

    "fp32" takes the file as it was exported. "fp16" takes an fp16 file as it is and converts any other with
    onnxruntime.transformers.float16, inputs and outputs unchanged. "int8" takes a file with QuantizeLinear nodes.

    Args:
        backend: for messages.
        model: the ONNX file.
        facts: of the file.
        precision: "fp32", "fp16" or "int8".
        keep_fp32: operators left in fp32 beside those that ONNX Runtime itself leaves out.

    Raises:
        UsageProblem: the precision is unknown here, or the file cannot be had in it.
        ComponentMissing: ONNX Runtime is absent, or the converter is not part of it.
    """
    if precision == "fp32":
        return model, {"precision": "as exported"}
    if precision == "int8":
        if "int8" not in facts.formats:
            held = f"is quantised to {' and '.join(facts.formats)}" if facts.formats else "has no QuantizeLinear nodes"
            raise UsageProblem(f"The model {held}, so {backend} cannot run it in int8; quantize it: {model}")
        return model, {"precision": "as exported", "quantized": True}
    if precision != "fp16":
        raise UsageProblem(f"A model can be had in fp32 (as exported), fp16 or int8 for {backend}, not {precision!r}.")
    if _float_types(model) == {"float16"}:
        return model, {"precision": "as exported", "exported_in": "fp16"}
    converted, record = _converted(model, facts, keep_fp32)
    return converted, {"precision": "fp16", **record}


def _float_types(model: Path) -> set[str]:
    import onnx

    from trt_workbench.onnxtools.model_file import read_model

    graph = read_model(model).graph
    names = {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.FLOAT16: "float16"}
    return {names[tensor.data_type] for tensor in graph.initializer if tensor.data_type in names}


def _converted(model: Path, facts: ModelFacts, keep_fp32: tuple[str, ...]) -> tuple[Path, dict[str, Any]]:
    """Return the converted file, made once for every model and recipe, and its record."""
    import onnx

    try:
        import onnxruntime as ort
    except ImportError as error:  # TensorRT itself does without
        raise ComponentMissing(
            f"fp16 is made by onnxruntime, which cannot be imported ({error}). {package('onnxruntime')} "
            f"Or export the model in fp16: {model}"
        ) from error
    key: dict[str, Any] = {
        "recipe": _RECIPE,
        "model_sha256": hash_model(model, facts.external_locations),
        "onnxruntime": str(ort.__version__),
        "onnx": str(onnx.__version__),
        "keep_fp32": sorted(keep_fp32),
    }
    digest = hash_document(key)
    folder = output_root() / "converted" / digest
    path, record_path = folder / "model.onnx", folder / "conversion.json"
    if not (path.is_file() and record_path.is_file()):
        _convert(model, path, keep_fp32)
        write_json(record_path, Conversion(**key, converted_sha256=hash_file(path)))
    record = read_document(record_path, Conversion, "remove it, and the model is converted again")
    return path, {
        "converted_by": f"onnxruntime.transformers.float16 {ort.__version__}, inputs and outputs unchanged",
        "converted_sha256": record.converted_sha256,
        "converted_file": str(path),
        "kept_in_fp32": sorted({*_left_out(), *keep_fp32} & facts.operators.keys()),
    }


def _left_out() -> list[str]:
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST

    return list(DEFAULT_OP_BLOCK_LIST)


def _convert(model: Path, path: Path, keep_fp32: tuple[str, ...]) -> None:
    import onnx
    from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

    try:
        from onnxruntime.transformers.float16 import convert_float_to_float16
        from onnxruntime.transformers.onnx_model import OnnxModel
    except ImportError as error:
        raise ComponentMissing(
            f"fp16 needs onnxruntime.transformers.float16, which cannot be imported ({error})."
        ) from error
    from trt_workbench.onnxtools.model_file import load_model

    document = load_model(model)
    block = [*_left_out(), *keep_fp32]
    try:
        half = convert_float_to_float16(document, keep_io_types=True, op_block_list=block)
        OnnxModel.graph_topological_sort(half.graph)  # the converter puts its casts last
        onnx.checker.check_model(half)
        data = half.SerializeToString()
    except (ValueError, onnx.checker.ValidationError, EncodeError) as error:
        raise UsageProblem(
            f"The model cannot be converted to fp16 ({error}); export it in fp16 instead: {model}"
        ) from error
    with atomic_writer(path) as file:
        file.write(data)
