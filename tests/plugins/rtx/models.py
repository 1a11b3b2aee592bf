"""Models that TensorRT-RTX builds or refuses, each for a reason of its own, and what the compiler really said of them.

`python -m tests.plugins.rtx.models` writes answers.json anew; it needs the package tensorrt-rtx.
"""

import contextlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ANSWERS = Path(__file__).with_name("answers.json")
_FP8, _E8M0, _FP4 = TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E8M0, TensorProto.FLOAT4E2M1


def graph(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], x: tuple[int, list[Any]], y: tuple[int, list[Any]]
) -> onnx.ModelProto:
    made = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", *x)], [helper.make_tensor_value_info("y", *y)], weights
    )
    sets = [helper.make_opsetid("", 23), helper.make_opsetid("trt", 1)]
    return helper.make_model(made, opset_imports=sets, ir_version=11)


def raw(name: str, kind: int, values: np.ndarray[Any, Any]) -> onnx.TensorProto:
    return helper.make_tensor(name, kind, values.shape, values.tobytes(), raw=True)


def weights(rows: int = 64, columns: int = 128) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)


def plain() -> onnx.ModelProto:
    """y = x w, of a dynamic batch and int64 row numbers of a table in front."""
    nodes = [helper.make_node("Gather", ["w", "x"], ["r"], "rows"), helper.make_node("MatMul", ["r", "v"], ["y"], "mm")]
    tensors = [numpy_helper.from_array(weights(), "w"), numpy_helper.from_array(weights(128, 16), "v")]
    return graph(nodes, tensors, (TensorProto.INT64, ["n"]), (TensorProto.FLOAT, ["n", 16]))


def int8() -> onnx.ModelProto:
    return quantised(numpy_helper.from_array(np.int8(0), "zero"), weights(16).astype(np.int8))


def fp8() -> onnx.ModelProto:
    zero = raw("zero", _FP8, np.zeros((), ml_dtypes.float8_e4m3fn))
    return quantised(zero, weights(16).astype(ml_dtypes.float8_e4m3fn))


def quantised(zero: onnx.TensorProto, w: np.ndarray[Any, Any]) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "relu"),
        helper.make_node("QuantizeLinear", ["a", "s", "zero"], ["q"], "quantize"),
        helper.make_node("DequantizeLinear", ["q", "s", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s", "zero"], ["v"]),
        helper.make_node("MatMul", ["d", "v"], ["y"], "mm"),
    ]
    tensors = [zero, numpy_helper.from_array(np.float32(0.1), "s"), raw("w", zero.data_type, w)]
    return graph(nodes, tensors, (TensorProto.FLOAT, ["n", 16]), (TensorProto.FLOAT, ["n", 128]))


def mxfp8(scales: int = TensorProto.UINT8) -> onnx.ModelProto:
    blocks = {"domain": "trt", "block_size": 32}
    nodes = [
        helper.make_node("TRT_MXFP8DynamicQuantize", ["x"], ["q", "t"], axis=-1, output_dtype=_FP8, **blocks),
        helper.make_node("TRT_MXFP8DequantizeLinear", ["q", "t"], ["d"], axis=-1, output_dtype=1, **blocks),
        helper.make_node("TRT_MXFP8DequantizeLinear", ["w", "s"], ["v"], axis=0, output_dtype=1, **blocks),
        helper.make_node("MatMul", ["d", "v"], ["y"], "mm"),
    ]
    tensors = [
        raw("w", _FP8, weights().astype(ml_dtypes.float8_e4m3fn)),
        raw("s", scales, np.full((2, 128), 127, np.uint8)),
    ]
    return graph(nodes, tensors, (TensorProto.FLOAT, ["n", 64]), (TensorProto.FLOAT, ["n", 128]))


def nvfp4() -> onnx.ModelProto:
    nodes = [
        helper.make_node("DequantizeLinear", ["s", "g"], ["t"], "scales"),
        helper.make_node("DequantizeLinear", ["w", "t"], ["v"], "widen", axis=0, block_size=16),
        helper.make_node("MatMul", ["x", "v"], ["y"], "mm"),
    ]
    packed = helper.make_tensor("w", _FP4, (64, 128), np.full(64 * 64, 0x21, np.uint8).tobytes(), raw=True)
    scales = raw("s", _FP8, np.ones((4, 128), ml_dtypes.float8_e4m3fn))
    tensors = [packed, scales, numpy_helper.from_array(np.float32(1), "g")]
    return graph(nodes, tensors, (TensorProto.FLOAT, ["n", 64]), (TensorProto.FLOAT, ["n", 128]))


def one(operator: str, kind: int = TensorProto.FLOAT, domain: str = "", **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x"], ["y"], "the_node", domain=domain, **attributes)
    made = graph([node], [], (kind, [2, 2]), (kind, [2, 2]))
    if domain:
        made.opset_import.append(helper.make_opsetid(domain, 1))
    return made


def mixed() -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.ones(2, np.float32), "one")]
    node = helper.make_node("Add", ["x", "one"], ["y"], "add")
    return graph([node], tensors, (TensorProto.FLOAT16, [2]), (TensorProto.FLOAT16, [2]))


def asymmetric() -> onnx.ModelProto:
    return quantised(numpy_helper.from_array(np.int8(3), "zero"), weights(16).astype(np.int8))


def wide_output() -> onnx.ModelProto:
    """fp32 scales and an output in fp16: it is read, and then its types do not go together."""
    made = nvfp4()
    made.graph.node[1].attribute.append(helper.make_attribute("output_dtype", TensorProto.FLOAT16))
    for value in (made.graph.input[0], made.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return made


def sized(operator: str, inputs: dict[str, list[Any]], constants: dict[str, Any]) -> onnx.ModelProto:
    """A node, `the_node`, whose inputs do not fit each other; the first is of the graph."""
    node = helper.make_node(operator, [*inputs, *constants], ["y", "i"] if operator == "TopK" else ["y"], "the_node")
    kind = TensorProto.INT64 if operator == "NonMaxSuppression" else TensorProto.FLOAT
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    made = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", kind, None)], tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def branches() -> onnx.ModelProto:
    """Branches of other ranks."""
    shapes = {"a": ("Relu", [2, 3]), "b": ("ReduceSum", [])}
    made = [
        helper.make_graph(
            [helper.make_node(kind, ["x"], [name], **({"keepdims": 0} if kind != "Relu" else {}))], name, [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
        )
        for name, (kind, shape) in shapes.items()
    ]  # fmt: skip
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], "sum", keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"], "greater"),
        helper.make_node("If", ["c"], ["y"], "the_node", then_branch=made[0], else_branch=made[1]),
    ]
    whole = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(np.float32(0), "zero")],
    )  # fmt: skip
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


_BOXES: dict[str, list[Any]] = {"b": [1, 10, 4], "s": [1, 2, 11]}
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "plain": plain,
    "int8": int8,
    "fp8": fp8,
    "mxfp8": mxfp8,
    "mxfp8 with scales that it does not read": lambda: mxfp8(_E8M0),
    "nvfp4": nvfp4,
    "no such operator": lambda: one("Det"),
    "a foreign operator": lambda: one("Own", domain="own"),
    "text": lambda: one("Identity", TensorProto.STRING),
    "two types": mixed,
    "asymmetric": asymmetric,
    "types that do not fit": wide_output,
    "a squeeze that does not fit": lambda: sized("Squeeze", {"x": [2, 3]}, {"axes": [0]}),
    "a reshape that does not fit": lambda: sized("Reshape", {"x": [2, 3]}, {"shape": [4, 2]}),
    "a reshape that fits no batch": lambda: sized("Reshape", {"x": ["n", 3]}, {"shape": [4, 2]}),
    "more than there are": lambda: sized("TopK", {"x": [2, 3]}, {"k": [5]}),
    "boxes and scores that do not fit": lambda: sized("NonMaxSuppression", _BOXES, {"most": [3]}),
    "branches of other ranks": branches,
}


def profiles(model: onnx.ModelProto) -> list[str]:
    """Return a profile for batches of 1 to 4 where the batch is dynamic."""
    dims = [dim.dim_value or None for dim in model.graph.input[0].type.tensor_type.shape.dim]
    ranges = "/".join("x".join(str(dim or batch) for dim in dims) for batch in (1, 4, 4))
    return [f"x:{ranges}"] if None in dims else []


def words_of(model: onnx.ModelProto, sm: str) -> dict[str, Any]:
    """Return what the compiler says of a model: what the functions that read its log are given."""
    from trt_workbench.engine.profiles import Profile
    from trt_workbench_rtx import compiler as rtx

    names = ("parser_refusal", "build_refusal", "built_layers")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        parsed, built, layers = (
            stack.enter_context(mock.patch.object(rtx, name, wraps=getattr(rtx, name))) for name in names
        )
        onnx.save(model, folder / "m.onnx")
        rtx.compile_model(folder / "m.onnx", sm, [Profile.model_validate(text) for text in profiles(model)])
    if parsed.called:
        return {"complaints": [asdict(one) for one in parsed.call_args.args[0]]}
    if layers.called:
        return {"layers": next(text for text in layers.call_args.args[0] if text.startswith("Layers:"))}
    return {"errors": list(built.call_args.args[0])}


if __name__ == "__main__":
    found = {f"{name}, {sm}": words_of(make(), sm) for name, make in MODELS.items() for sm in ("sm120", "sm86")}
    document = {"tensorrt_rtx": version("tensorrt-rtx"), "answers": found}
    ANSWERS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
