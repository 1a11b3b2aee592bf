"""From an ONNX file to a torch.fx graph: node by node, shapes computed in Python, everything else on tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, fx, nn

from trt_workbench.backends.onnx_torch import (
    elementwise,
    host,
    layout,
    network,
    quantized,
    recurrent,
    reductions,
    resize,
    sampling,
)
from trt_workbench.backends.onnx_torch.dtypes import INTEGERS, TORCH_DTYPES, as_torch, compute_dtype, to_precision
from trt_workbench.errors import UsageProblem
from trt_workbench.onnxtools.model_file import load_model
from trt_workbench.onnxtools.proto import operator_name

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **elementwise.OPERATORS,
    **layout.OPERATORS,
    **network.OPERATORS,
    **quantized.OPERATORS,
    **reductions.OPERATORS,
    **resize.OPERATORS,
    **sampling.OPERATORS,
}
_HOST_INPUTS = {**layout.HOST_INPUTS, **network.HOST_INPUTS, **reductions.HOST_INPUTS, **resize.HOST_INPUTS}
_OLDER = {**layout.OLDER, **resize.OLDER}
_WITH_OPSET = reductions.WITH_OPSET | network.WITH_OPSET
# Operators whose functions are told how many outputs are wanted.
_WITH_OUTPUTS = frozenset({"Split", "Dropout", "MaxPool"})
# Written by the converter itself.
SPECIAL = frozenset(
    {"Cast", "CastLike", "Constant", "ConstantOfShape", "EyeLike", "Identity", "Range", "Shape", "Size"}
)
SUPPORTED = frozenset(FUNCTIONS) | SPECIAL | recurrent.KINDS
_SEVERAL = frozenset({"Split", "TopK"}) | recurrent.KINDS
# Above this an integer vector is data, not a shape.
_LONGEST_SHAPE = 64


@dataclass
class _Value:
    """A value of the ONNX graph: a node of the fx graph, a constant, or both.

    `rank` is set for host values, `length` for vectors among them whose length is known, `boolean` for truth values.
    """

    node: Any = None
    constant: Tensor | None = None
    rank: int | None = None
    length: int | None = None
    boolean: bool = False


@dataclass
class Converted:
    """A module and what its conversion met.

    Attributes:
        module: takes the graph's inputs in order and returns a tuple of its outputs.
        host_reads: nodes that need a computed tensor on the host while running: each waits for the device.
        uncompiled: nodes that torch.compile leaves as they are.
        operators: operators met.
    """

    module: fx.GraphModule
    host_reads: list[str]
    uncompiled: list[str]
    operators: set[str]


def convert(path: Path, precision: torch.dtype = torch.float32) -> Converted:
    """Convert an ONNX file.

    Args:
        path: the file; external data is read from beside it.
        precision: what fp32 tensors are held and computed in; inputs and outputs keep the types of the file.

    Raises:
        UsageProblem: an operator has no counterpart; the message names all of them.
    """
    model = load_model(path)
    try:
        return _Converter(model, precision).run()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise UsageProblem(
            f"The model cannot be converted to PyTorch ({type(error).__name__}: {error}): {path}"
        ) from error
    except UsageProblem as error:
        raise UsageProblem(f"{error} Use ort-cpu or ort-cuda, which run all of ONNX. File: {path}") from error


class _Converter:
    def __init__(self, model: onnx.ModelProto, precision: torch.dtype) -> None:
        self._graph, self._precision = model.graph, precision
        self._opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
        self._root = nn.Module()
        self._fx = fx.Graph(self._root)  # type: ignore[arg-type]  # any module that has the graph's parts
        self._values: dict[str, _Value] = {"": _Value()}
        self._first: Any = None
        self._host_reads: list[str] = []
        self._uncompiled: list[str] = []

    def run(self) -> Converted:
        self._refuse_unknown()
        constants = {tensor.name: tensor for tensor in self._graph.initializer}
        for name, tensor in constants.items():
            self._add_constant(name, numpy_helper.to_array(tensor))
        for value in self._graph.input:
            if value.name not in constants:
                self._add_input(value)
        for node in self._graph.node:
            self._convert(node)
        self._fx.output(tuple(self._output(value) for value in self._graph.output))
        self._fx.eliminate_dead_code()
        module = fx.GraphModule(self._root, self._fx)
        # its own prints the traceback of an error, which the session says in a sentence; the class has no other object
        type(module).__call__ = nn.Module.__call__  # type: ignore[method-assign]
        return Converted(module.eval(), self._host_reads, self._uncompiled, {node.op_type for node in self._graph.node})

    def _refuse_unknown(self) -> None:
        unknown: dict[str, str] = {}
        for node in self._graph.node:
            name = operator_name(node)
            if name not in SUPPORTED:
                unknown.setdefault(name, node.name or "(no name)")
        if unknown:
            named = ", ".join(f"{operator} (node {node})" for operator, node in sorted(unknown.items()))
            raise UsageProblem(f"The torch backend has no counterpart of {named}.")

    def _add_constant(self, name: str, array: np.ndarray[Any, Any]) -> None:
        tensor = as_torch(array)
        is_shape = tensor.dtype in INTEGERS and tensor.ndim <= 1 and tensor.numel() <= _LONGEST_SHAPE
        length = tensor.numel() if tensor.ndim == 1 else None
        self._values[name] = _Value(constant=tensor, rank=tensor.ndim if is_shape else None, length=length)

    def _add_input(self, value: onnx.ValueInfoProto) -> None:
        node = self._fx.placeholder(f"input_{len(self._fx.nodes)}")
        self._first = self._first or node
        dtype = self._dtype(value.type.tensor_type.elem_type, value.name)
        target = compute_dtype(dtype, self._precision)
        self._values[value.name] = _Value(node if target == dtype else self._fx.call_method("to", (node, target)))

    def _output(self, value: onnx.ValueInfoProto) -> Any:
        if not value.name:  # stands for an input that was left out
            raise UsageProblem("An output of the model has no name.")
        found = self._tensor(self._value(value.name))
        dtype = self._dtype(value.type.tensor_type.elem_type, value.name)
        if compute_dtype(dtype, self._precision) != dtype or dtype != torch.float32:
            found = self._fx.call_method("to", (found, dtype))
        return self._fx.call_method("contiguous", (found,))

    def _dtype(self, element: int, name: str) -> torch.dtype:
        if element not in TORCH_DTYPES:
            kind = onnx.TensorProto.DataType.Name(element)
            raise UsageProblem(f"{name} is of type {kind}, which the torch backend does not take.")
        return TORCH_DTYPES[element]

    def _convert(self, node: onnx.NodeProto) -> None:
        attributes = {entry.name: self._attribute(entry) for entry in node.attribute}
        inputs = [self._value(name) for name in node.input]
        while inputs and inputs[-1] is self._values[""]:
            inputs.pop()  # trailing inputs that were left out
        if onnx.defs.has(node.op_type, self._opset, node.domain):
            least = onnx.defs.get_schema(node.op_type, self._opset, node.domain).min_input
            if len(inputs) < least:
                raise UsageProblem(f"{node.op_type} (node {node.name}) has {len(inputs)} of {least} inputs.")
        if node.op_type in SPECIAL and self._special(node, inputs, attributes):
            return
        if node.op_type in recurrent.KINDS:
            self._recurrent(node, inputs, attributes)
            return
        if self._on_host(node, inputs, attributes):
            return
        function = FUNCTIONS[node.op_type]
        older = _OLDER.get(node.op_type)
        if older and self._opset < older[0]:
            function = older[1]
        if node.op_type in _WITH_OPSET:
            attributes["opset"] = self._opset
        if node.op_type in _WITH_OUTPUTS:
            attributes["outputs"] = len(node.output)
        host_places = _HOST_INPUTS.get(node.op_type, ())
        arguments = tuple(
            self._host(value, node) if place in host_places else self._argument(value, node, place)
            for place, value in enumerate(inputs)
        )
        self._bind(node, self._fx.call_function(function, arguments, attributes))

    def _value(self, name: str) -> _Value:
        if name not in self._values:
            raise UsageProblem(
                f"{name}, the second or third output of its node, has no counterpart in the torch backend."
            )
        return self._values[name]

    def _argument(self, value: _Value, node: onnx.NodeProto, place: int) -> Any:
        if value is self._values[""]:
            return None
        # a fixed index selects without a tensor of indices
        if node.op_type == "Gather" and place == 1 and value.constant is not None and value.rank == 0:
            return int(value.constant)
        return self._tensor(value)

    def _bind(self, node: onnx.NodeProto, made: Any) -> None:
        names = list(node.output)
        several = node.op_type in _SEVERAL or (node.op_type in ("Dropout",) and len(names) > 1)
        # of other operators the first output alone has a counterpart
        for place, name in enumerate(names if several else names[:1]):
            if name:
                self._values[name] = _Value(
                    self._fx.call_function(operator.getitem, (made, place)) if several else made
                )

    def _on_host(self, node: onnx.NodeProto, inputs: list[_Value], attributes: dict[str, Any]) -> bool:
        """Convert a node that computes with shapes alone; say whether it was one."""
        entry = host.OPERATORS.get(node.op_type)
        if entry is None or any(value.rank is None for value in inputs if value is not self._values[""]):
            return False
        function, rule = entry
        rank = rule([value.rank for value in inputs], attributes)
        if node.op_type == "Reshape":  # to a vector or a scalar, if it is known which
            rank = inputs[1].length if inputs[1].length in (0, 1) else None
        if rank is None or (node.op_type in ("Max", "Min") and len(inputs) != 2):
            return False
        arguments = tuple(None if value is self._values[""] else self._host(value, node) for value in inputs)
        made = self._fx.call_function(function, arguments, attributes)
        moved = node.op_type in host.MOVES and inputs[host.MOVES[node.op_type]].boolean
        self._values[node.output[0]] = _Value(made, rank=rank, boolean=moved or node.op_type in host.TRUTHS)
        return True

    def _host(self, value: _Value, node: onnx.NodeProto) -> Any:
        """Return `value` as something that lies on the host: a literal, or a node that gives one."""
        if value is self._values[""]:
            return None
        if value.constant is not None:
            literal = value.constant.tolist()
            return None if literal == [] and node.op_type in ("Resize", "Upsample") else literal
        if value.rank is not None:
            return value.node
        self._host_reads.append(f"{node.op_type} {node.name}".strip())
        return self._fx.call_function(host.to_host, (value.node,))

    def _tensor(self, value: _Value) -> Any:
        """Return `value` as a tensor: a buffer for a constant."""
        if value.constant is not None:
            if value.node is None:
                name = f"constant_{len(list(self._root.buffers()))}"
                self._root.register_buffer(name, to_precision(value.constant, self._precision))
                value.node = self._fx.get_attr(name)
            return value.node
        if value.rank is not None:
            truth: dict[str, Any] = {"dtype": torch.bool} if value.boolean else {}
            return self._fx.call_function(host.to_tensor, (value.node, self._some_tensor()), truth)
        return value.node

    def _some_tensor(self) -> Any:
        """Return a tensor whose device is the module's."""
        if self._first is not None:
            return self._first
        if "device" not in dict(self._root.named_buffers()):
            self._root.register_buffer("device", torch.zeros(()))
        return self._fx.get_attr("device")

    def _special(self, node: onnx.NodeProto, inputs: list[_Value], attributes: dict[str, Any]) -> bool:
        name = node.output[0]
        if node.op_type == "Constant":
            self._add_constant(name, np.asarray(self._constant(attributes)))
        elif node.op_type == "Shape" and inputs[0].rank == 1 and inputs[0].constant is None and not attributes:
            made = self._fx.call_function(host.length, (inputs[0].node,))
            self._values[name] = _Value(made, rank=1, length=1)
        elif node.op_type in ("Shape", "Size"):
            function = host.shape if node.op_type == "Shape" else host.size
            made = self._fx.call_function(function, (self._tensor(inputs[0]),), attributes)
            self._values[name] = _Value(made, rank=1 if node.op_type == "Shape" else 0)
        elif node.op_type == "Identity":
            self._values[name] = inputs[0]
        elif node.op_type in ("Cast", "CastLike"):
            self._cast(name, inputs, attributes)
        elif node.op_type == "ConstantOfShape":
            self._filled(name, inputs, attributes, node)
        elif node.op_type == "EyeLike":
            dtype = self._computed(attributes["dtype"]) if "dtype" in attributes else None
            made = self._fx.call_function(
                _eye_like, (self._tensor(inputs[0]),), {"k": attributes.get("k", 0), "dtype": dtype}
            )
            self._values[name] = _Value(made)
        elif not self._on_host(node, inputs, attributes):  # Range
            bounds = tuple(self._host(value, node) for value in inputs)
            made = self._fx.call_function(_range, (*bounds, self._tensor(inputs[0])))
            self._values[name] = _Value(made)
        return True

    def _recurrent(self, node: onnx.NodeProto, inputs: list[_Value], attributes: dict[str, Any]) -> None:
        left_out = self._values[""]
        given = {place: value for place, value in enumerate(inputs) if value is not left_out}
        if refused := [name for place, name in recurrent.REFUSED.items() if place in given]:
            raise UsageProblem(f"{node.op_type} with {refused[0]} has no counterpart in the torch backend.")
        if lacking := [name for place, name in recurrent.NEEDED.items() if place not in given]:
            raise UsageProblem(f"{node.op_type} (node {node.name}) lacks its input {lacking[0]}.")
        weights = []
        for value in (given[place] for place in recurrent.WEIGHTS if place in given):
            if value.constant is None:
                raise UsageProblem(f"{node.op_type} with computed weights has no counterpart in the torch backend.")
            weights.append(to_precision(value.constant, self._precision))
        name = f"recurrent_{len(list(self._root.children()))}"
        self._root.add_module(name, recurrent.Recurrent(node.op_type, attributes, *weights))
        self._uncompiled.append(f"{node.op_type} {node.name}".strip())
        called = tuple(self._tensor(given[place]) if place in given else None for place in recurrent.CALLED)
        self._bind(node, self._fx.call_module(name, called))

    def _cast(self, name: str, inputs: list[_Value], attributes: dict[str, Any]) -> None:
        if "to" not in attributes:  # CastLike
            pair = (self._tensor(inputs[0]), self._tensor(inputs[1]))
            self._values[name] = _Value(self._fx.call_method("type_as", pair))
            return
        dtype = self._computed(attributes["to"])
        value = inputs[0]
        if value.rank is not None and dtype in (torch.int64, torch.int32):
            self._values[name] = replace(value, boolean=False)
        else:
            self._values[name] = _Value(self._fx.call_method("to", (self._tensor(value), dtype)))

    def _computed(self, element: int) -> torch.dtype:
        return compute_dtype(self._dtype(element, "A cast"), self._precision)

    def _filled(self, name: str, inputs: list[_Value], attributes: dict[str, Any], node: onnx.NodeProto) -> None:
        fill = attributes.get("value", np.zeros(1, np.float32))
        item, dtype = fill.reshape(-1)[0].item(), as_torch(fill).dtype
        if inputs[0].rank == 1 and inputs[0].length == 1 and dtype == torch.int64:
            size = self._host(inputs[0], node)
            made = self._fx.call_function(host.constant_of_shape, (size,), {"value": item})
            self._values[name] = _Value(made, rank=1)
            return
        keywords = {"value": item, "dtype": compute_dtype(dtype, self._precision)}
        shape = self._host(inputs[0], node)
        self._values[name] = _Value(self._fx.call_function(_full, (shape, self._some_tensor()), keywords))

    def _constant(self, attributes: dict[str, Any]) -> Any:
        ((kind, value),) = attributes.items()
        types = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
        return np.array(value, types[kind]) if kind in types else value

    def _attribute(self, attribute: onnx.AttributeProto) -> Any:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, onnx.TensorProto):
            return numpy_helper.to_array(value)
        if attribute.type == onnx.AttributeProto.STRINGS:
            return [one.decode() for one in value]
        return list(value) if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS) else value


def _full(shape: list[int], like: Tensor, *, value: float, dtype: torch.dtype) -> Tensor:
    return torch.full(shape, value, dtype=dtype, device=like.device)


def _range(start: float, limit: float, delta: float, like: Tensor) -> Tensor:
    return torch.arange(start, limit, delta, dtype=like.dtype, device=like.device)


def _eye_like(x: Tensor, *, k: int, dtype: torch.dtype | None) -> Tensor:
    ones = torch.ones(x.shape, dtype=dtype or x.dtype, device=x.device)
    return torch.triu(torch.tril(ones, k), k)
