"""From an ONNX file to a torch.fx graph: node by node, shapes computed in Python, everything else on tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import fx, nn

from trt_workbench.backends.torch.onnx_torch import (
    conditional,
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
from trt_workbench.backends.torch.onnx_torch.attributes import (
    attribute_value,
    constant_value,
    refuse_odd,
    refuse_unknown,
)
from trt_workbench.backends.torch.onnx_torch.dtypes import INTEGERS, TORCH_DTYPES, as_torch, compute_dtype, to_precision
from trt_workbench.backends.torch.onnx_torch.values import Value, eye_like, full, range_
from trt_workbench.core.device_errors import device_error, device_message
from trt_workbench.core.errors import Unsupported, UsageProblem
from trt_workbench.model.editing import in_order, inlined
from trt_workbench.model.opened import Model, checked_on_error
from trt_workbench.model.proto import opset
from trt_workbench.model.sanitize.branches import settle_ifs
from trt_workbench.model.walking import captured, nodes_within

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
# Operators whose functions take the number of outputs.
_WITH_OUTPUTS = frozenset({"Split", "Dropout", "MaxPool"})
# Written by the converter itself.
SPECIAL = frozenset(
    {"Cast", "CastLike", "Constant", "ConstantOfShape", "EyeLike", "Identity", "Range", "Shape", "Size"}
)
SUPPORTED = frozenset(FUNCTIONS) | SPECIAL | recurrent.KINDS | {"If"}
_SEVERAL = frozenset({"Split", "TopK"}) | recurrent.KINDS
# Largest result of folding what conditions are computed from.
_FOLDED_BYTES = 1 << 20
# Above this an integer vector is data, not a shape.
_LONGEST_SHAPE = 64


@dataclass
class Converted:
    """A module and what its conversion met.

    Attributes:
        module: takes the graph's inputs in order and returns a tuple of its outputs.
        host_reads: nodes that need a computed tensor on the host while running: each waits for the device.
        uncompiled: nodes that torch.compile does not compile.
        operators: operators met.
    """

    module: fx.GraphModule
    host_reads: list[str]
    uncompiled: list[str]
    operators: set[str]


def convert(source: Model, precision: torch.dtype = torch.float32) -> Converted:
    """Convert an ONNX file.

    Args:
        source: the ONNX model.
        precision: what fp32 tensors are held and computed in; inputs and outputs keep the types of the file.

    Raises:
        UsageProblem: an operator has no counterpart; the message names all of them.
    """
    model, path = source.load(), source.path
    try:
        with checked_on_error(source):
            model = inlined(model)
            in_order(model)
            settle_ifs(model, _FOLDED_BYTES)
        return _Converter(model.graph, opset(model), precision).run()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        what = "The model cannot be converted to PyTorch"
        if failed := device_error(error):
            raise failed(f"{device_message(failed, what, str(error))}: {path}") from error
        raise UsageProblem(f"{what} ({type(error).__name__}: {error}): {path}") from error
    except UsageProblem as error:
        raise Unsupported(f"{error} Use ort-cpu or ort-cuda, which support all of ONNX. File: {path}") from error


class _Converter:
    def __init__(self, graph: onnx.GraphProto, opset: int, precision: torch.dtype) -> None:
        self._graph, self._opset, self._precision = graph, opset, precision
        self._root = nn.Module()
        self._fx = fx.Graph(self._root)  # type: ignore[arg-type]  # any module that has the graph's parts
        self._values: dict[str, Value] = {"": Value()}
        self._first: Any = None
        self._host_reads: list[str] = []
        self._uncompiled: list[str] = []

    def run(self) -> Converted:
        refuse_unknown(nodes_within(self._graph.node), SUPPORTED)
        constants = {tensor.name for tensor in self._graph.initializer}
        self._add_initializers()
        for value in self._graph.input:
            if value.name not in constants:
                self._add_input(value)
        for node in self._graph.node:
            self._convert(node)
        module = self._finish(self._output(value) for value in self._graph.output)
        operators = {node.op_type for node in nodes_within(self._graph.node)}
        return Converted(module, self._host_reads, self._uncompiled, operators)

    def _add_initializers(self) -> None:
        for tensor in self._graph.initializer:
            self._add_constant(tensor.name, numpy_helper.to_array(tensor))

    def _finish(self, results: Iterable[Any]) -> fx.GraphModule:
        self._fx.output(tuple(results))
        self._fx.eliminate_dead_code()
        module = fx.GraphModule(self._root, self._fx)
        # its own prints tracebacks, but the session reports errors in a sentence; the class has no other object
        type(module).__call__ = nn.Module.__call__  # type: ignore[method-assign]
        return module.eval()

    def _add_constant(self, name: str, array: np.ndarray[Any, Any]) -> None:
        tensor = as_torch(array)
        is_shape = tensor.dtype in INTEGERS and tensor.ndim <= 1 and tensor.numel() <= _LONGEST_SHAPE
        length = tensor.numel() if tensor.ndim == 1 else None
        self._values[name] = Value(constant=tensor, rank=tensor.ndim if is_shape else None, length=length)

    def _add_input(self, value: onnx.ValueInfoProto) -> None:
        node = self._fx.placeholder(f"input_{len(self._fx.nodes)}")
        self._first = self._first or node
        dtype = self._dtype(value.type.tensor_type.elem_type, value.name)
        target = compute_dtype(dtype, self._precision)
        self._values[value.name] = Value(node if target == dtype else self._fx.call_method("to", (node, target)))

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
            raise Unsupported(f"{name} has type {kind}, which the torch backend does not support.")
        return TORCH_DTYPES[element]

    def _convert(self, node: onnx.NodeProto) -> None:
        refuse_odd(node, self._opset)
        attributes = {entry.name: attribute_value(entry) for entry in node.attribute}
        inputs = [self._value(name) for name in node.input]
        while inputs and inputs[-1] is self._values[""]:
            inputs.pop()  # trailing inputs that were left out
        if node.op_type in SPECIAL and self._special(node, inputs, attributes):
            return
        if node.op_type == "If":
            self._conditional(node, inputs[0], [attributes[name] for name in conditional.BRANCHES])
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

    def _value(self, name: str) -> Value:
        if name not in self._values:
            raise Unsupported(f"{name}, the second or third output of its node, is not supported by the torch backend.")
        return self._values[name]

    def _argument(self, value: Value, node: onnx.NodeProto, place: int) -> Any:
        if value is self._values[""]:
            return None
        # a fixed index selects without a tensor of indices
        if node.op_type == "Gather" and place == 1 and value.constant is not None and value.rank == 0:
            return int(value.constant)
        return self._tensor(value)

    def _bind(self, node: onnx.NodeProto, made: Any) -> None:
        names = list(node.output)
        several = node.op_type in _SEVERAL or (node.op_type in ("Dropout",) and len(names) > 1)
        # of other operators only the first output has a counterpart
        for place, name in enumerate(names if several else names[:1]):
            if name:
                self._values[name] = Value(self._fx.call_function(operator.getitem, (made, place)) if several else made)

    def _on_host(self, node: onnx.NodeProto, inputs: list[Value], attributes: dict[str, Any]) -> bool:
        """Convert a node that computes only with shapes; return whether it was one."""
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
        self._values[node.output[0]] = Value(made, rank=rank, boolean=moved or node.op_type in host.TRUTHS)
        return True

    def _host(self, value: Value, node: onnx.NodeProto) -> Any:
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

    def _tensor(self, value: Value) -> Any:
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

    def _special(self, node: onnx.NodeProto, inputs: list[Value], attributes: dict[str, Any]) -> bool:
        name = node.output[0]
        if node.op_type == "Constant":
            self._add_constant(name, np.asarray(constant_value(attributes)))
        elif node.op_type == "Shape" and inputs[0].rank == 1 and inputs[0].constant is None and not attributes:
            made = self._fx.call_function(host.length, (inputs[0].node,))
            self._values[name] = Value(made, rank=1, length=1)
        elif node.op_type in ("Shape", "Size"):
            function = host.shape if node.op_type == "Shape" else host.size
            made = self._fx.call_function(function, (self._tensor(inputs[0]),), attributes)
            self._values[name] = Value(made, rank=1 if node.op_type == "Shape" else 0)
        elif node.op_type == "Identity":
            self._values[name] = inputs[0]
        elif node.op_type in ("Cast", "CastLike"):
            self._cast(name, inputs, attributes)
        elif node.op_type == "ConstantOfShape":
            self._filled(name, inputs, attributes, node)
        elif node.op_type == "EyeLike":
            dtype = self._computed(attributes["dtype"]) if "dtype" in attributes else None
            made = self._fx.call_function(
                eye_like, (self._tensor(inputs[0]),), {"k": attributes.get("k", 0), "dtype": dtype}
            )
            self._values[name] = Value(made)
        elif not self._on_host(node, inputs, attributes):  # Range
            bounds = tuple(self._host(value, node) for value in inputs)
            made = self._fx.call_function(range_, (*bounds, self._tensor(inputs[0])))
            self._values[name] = Value(made)
        return True

    def _recurrent(self, node: onnx.NodeProto, inputs: list[Value], attributes: dict[str, Any]) -> None:
        left_out = self._values[""]
        given = {place: value for place, value in enumerate(inputs) if value is not left_out}
        if refused := [name for place, name in recurrent.REFUSED.items() if place in given]:
            raise Unsupported(f"{node.op_type} with {refused[0]} is not supported by the torch backend.")
        weights = []
        for value in (given[place] for place in recurrent.WEIGHTS if place in given):
            if value.constant is None:
                raise Unsupported(f"{node.op_type} with computed weights is not supported by the torch backend.")
            weights.append(to_precision(value.constant, self._precision))
        name = f"recurrent_{len(list(self._root.children()))}"
        self._root.add_module(name, recurrent.Recurrent(node.op_type, attributes, *weights))
        self._uncompiled.append(f"{node.op_type} {node.name}".strip())
        called = tuple(self._tensor(given[place]) if place in given else None for place in recurrent.CALLED)
        self._bind(node, self._fx.call_module(name, called))

    def _conditional(self, node: onnx.NodeProto, condition: Value, branches: list[onnx.GraphProto]) -> None:
        """Convert both branches, with what they read as their inputs; sizes stay on the host through them."""
        # types of inner results may be left out; a branch that makes a sequence fails at the node that does
        if any(
            value.type.WhichOneof("value") not in (None, "tensor_type") for graph in branches for value in graph.output
        ):
            raise Unsupported(
                f"If (node {node.name}) whose results are not tensors is not supported by the torch backend."
            )
        names = dict.fromkeys(name for graph in branches for name in captured(graph))
        read = {name: self._value(name) for name in names}
        parts = [_Converter(graph, self._opset, self._precision) for graph in branches]
        for part in parts:
            part.begin_branch(self, read)
        results = [part.results() for part in parts]
        on_host = [
            len({(value.rank, value.boolean) for value in pair}) == 1 and pair[0].rank is not None
            for pair in zip(*results, strict=True)
        ]
        modules = [part.finish_branch(node, values, on_host) for part, values in zip(parts, results, strict=True)]
        name = f"branches_{len(list(self._root.children()))}"
        self._root.add_module(name, conditional.Conditional(*modules))
        handed = [value.node for value in read.values() if value.constant is None]
        made = self._fx.call_module(name, (self._host(condition, node), self._some_tensor(), *handed))
        for place, (result, host_value) in enumerate(zip(node.output, on_host, strict=True)):
            pair = [values[place] for values in results]
            item = self._fx.call_function(operator.getitem, (made, place))
            if host_value:
                length = pair[0].length if pair[0].length == pair[1].length else None
                self._values[result] = replace(pair[0], node=item, constant=None, length=length)
            else:
                self._values[result] = Value(item)

    def begin_branch(self, outer: _Converter, read: dict[str, Value]) -> None:
        """Take a tensor of the graph around a branch, for its device, and what the branch reads of it."""
        self._host_reads, self._uncompiled = outer._host_reads, outer._uncompiled
        self._first = self._fx.placeholder("tensor")
        for place, (name, value) in enumerate(read.items()):
            node = self._fx.placeholder(f"read_{place}") if value.constant is None else None
            self._values[name] = replace(value, node=node)
        self._add_initializers()

    def results(self) -> list[Value]:
        """Convert the nodes of a branch and return its results."""
        for node in self._graph.node:
            self._convert(node)
        return [self._value(value.name) for value in self._graph.output]

    def finish_branch(self, node: onnx.NodeProto, values: list[Value], on_host: list[bool]) -> fx.GraphModule:
        """Return the module of a branch, whose results lie on the host or are tensors."""
        pairs = zip(values, on_host, strict=True)
        return self._finish(
            self._host(value, node) if host_value else self._tensor(value) for value, host_value in pairs
        )

    def _cast(self, name: str, inputs: list[Value], attributes: dict[str, Any]) -> None:
        if "to" not in attributes:  # CastLike
            pair = (self._tensor(inputs[0]), self._tensor(inputs[1]))
            self._values[name] = Value(self._fx.call_method("type_as", pair))
            return
        dtype = self._computed(attributes["to"])
        value = inputs[0]
        if value.rank is not None and dtype in (torch.int64, torch.int32):
            self._values[name] = replace(value, boolean=False)
        else:
            self._values[name] = Value(self._fx.call_method("to", (self._tensor(value), dtype)))

    def _computed(self, element: int) -> torch.dtype:
        return compute_dtype(self._dtype(element, "A cast"), self._precision)

    def _filled(self, name: str, inputs: list[Value], attributes: dict[str, Any], node: onnx.NodeProto) -> None:
        fill = attributes.get("value", np.zeros(1, np.float32))
        item, dtype = fill.reshape(-1)[0].item(), as_torch(fill).dtype
        if inputs[0].rank == 1 and inputs[0].length == 1 and dtype == torch.int64:
            size = self._host(inputs[0], node)
            made = self._fx.call_function(host.constant_of_shape, (size,), {"value": item})
            self._values[name] = Value(made, rank=1)
            return
        keywords = {"value": item, "dtype": compute_dtype(dtype, self._precision)}
        shape = self._host(inputs[0], node)
        self._values[name] = Value(self._fx.call_function(full, (shape, self._some_tensor()), keywords))
