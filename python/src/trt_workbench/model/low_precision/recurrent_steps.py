"""LSTM, GRU and RNN as loops of the operators that they are made of, so that the result of each can be rounded.

One node keeps what it adds up from step to step in fp32. Semantics: the ONNX operator documentation; sums and products
are in the order in which PyTorch computes them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx
from onnx import TensorProto, helper

from trt_workbench.model.editing import NodeWriter
from trt_workbench.model.proto import STANDARD, element_types, integer, opset
from trt_workbench.model.walking import all_graphs, all_nodes, subgraphs
from trt_workbench.model.weights import inferred

_ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_GATES = {"LSTM": "iofc", "GRU": "zrh", "RNN": "h"}
_KNOWN = frozenset({"Sigmoid", "Tanh", "Relu"})
_OLDEST = 9  # Scan without a batch
# sequence_lens and peepholes, which no exporter of a model in 16 bits writes.
_REFUSED_INPUTS = (4, 7)
_REFUSED = ("clip", "input_forget", "activation_alpha", "activation_beta", "layout")


def step_by_step(model: onnx.ModelProto, kinds: Collection[int], writer: NodeWriter) -> None:
    """Put loops in place of the recurrent nodes that compute in one of the types `kinds`; those of rare forms stay.

    Args:
        model: changed.
        kinds: element types.
        writer: names what is made.
    """
    if opset(model) < _OLDEST or not any(map(_is_known, all_nodes(model))):
        return
    types = _types(inferred(model).graph)
    for graph in all_graphs(model):
        nodes: list[onnx.NodeProto] = []
        with writer.apart():
            for node in list(graph.node):
                if _is_known(node) and types.get(node.input[0]) in kinds:
                    _write(node, types[node.input[0]], writer)
                    nodes += writer.taken()
                else:
                    nodes.append(node)
            writer.fill(graph, nodes)


def _types(graph: onnx.GraphProto) -> dict[str, int]:
    """Return the element types of a graph's tensors and of those in its nodes' graphs."""
    found = element_types(graph)
    for inner in subgraphs(graph.node):
        found |= _types(inner)
    return found


def _is_known(node: onnx.NodeProto) -> bool:
    if node.op_type not in _GATES or node.domain not in STANDARD:
        return False
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    named = [one.decode() for one in attributes.get("activations", ())]
    given = any(len(node.input) > place and node.input[place] for place in _REFUSED_INPUTS)
    return _KNOWN.issuperset(named) and not given and not any(attributes.get(name) for name in _REFUSED)


_CELLS = {"LSTM": ("h", "c"), "GRU": ("h",), "RNN": ("h",)}
# What a step computes, of what the input adds to a gate (f) and what the state does (s), with functions by number.
_STEPS = {
    "LSTM": """
        ai = Add(fi, si) ao = Add(fo, so) af = Add(ff, sf) ac = Add(fc, sc)
        enter = {0}(ai) leave = {0}(ao) keep = {0}(af) kept = Mul(keep, c) given = {1}(ac)
        added = Mul(enter, given) c2 = Add(kept, added) shown = {2}(c2) h2 = Mul(leave, shown)
    """,
    "GRU": """
        az = Add(fz, sz) update = {0}(az) ar = Add(fr, sr) reset = {0}(ar) {reset} ah = Add(fh, given) new = {1}(ah)
        apart = Sub(h, new) back = Mul(apart, update) h2 = Add(back, new)
    """,
    "RNN": "ah = Add(fh, sh) h2 = {0}(ah)",
}


def _write(node: onnx.NodeProto, kind: int, writer: NodeWriter) -> None:
    """Write the nodes that make the outputs of a node in the type `kind`."""
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    ways = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}[attributes.get("direction", b"forward").decode()]
    size, functions = integer(node, "hidden_size"), _ACTIVATIONS[node.op_type]
    chosen = [one.decode() for one in attributes.get("activations", ())] or [*functions] * len(ways)
    given = {name: tensor for name, tensor in zip("XWRBLHC", node.input, strict=False) if tensor}
    text = f"""
        shape = Shape(X) first = Constant<value = int64[2] {{0, 1}}>() leading = Gather(shape, first)
        size = Constant<value = int64[1] {{{size}}}>() fed_shape = Concat<axis = 0>(leading, size)
        one = Constant<value = int64[1] {{1}}>() minus = Constant<value = int64[1] {{-1}}>()
    """
    called = TensorProto.DataType.Name(kind).lower()
    for place, way in enumerate(ways):
        text += _direction(node, called, size, place, way, chosen[len(functions) * place :], given.keys())
    for name, output, shape in zip("ahc", node.output, ("0, 1, -1", "1, -1", "1, -1"), strict=False):
        if output:
            given[f"out_{name}"] = output
            text += f"{name}_shape = Constant<value = int64[{shape.count(',') + 2}] {{{shape}, {size}}}>()"
            text += "".join(f" {name}_{way} = Reshape({name}{way}, {name}_shape)" for way in range(len(ways)))
            parts = ", ".join(f"{name}_{way}" for way in range(len(ways)))
            text += f" out_{name} = Concat<axis = {1 if name == 'a' else 0}>({parts})"
    writer.formula(text, **given)


def _direction(
    node: onnx.NodeProto, kind: str, size: int, p: int, way: int, functions: Sequence[str], given: Collection[str]
) -> str:
    """Return what makes all states `aP`, [T,N,H], and the last ones `hP` and `cP`, [N,H], of one direction."""
    gates, cells = _GATES[node.op_type], _CELLS[node.op_type]
    matrices = "wrb" if "B" in given else "wr"
    text = f" p{p} = Constant<value = int64 {{{p}}}>() "
    text += "".join(f"{name}{p} = Gather<axis = 0>({name.upper()}, p{p}) " for name in matrices)
    text += f"size{p} = Shape(w{p}) last{p} = Gather(size{p}, one) flat_shape{p} = Concat<axis = 0>(minus, last{p}) "
    text += f"flat{p} = Reshape(X, flat_shape{p}) "
    for number, gate in enumerate(gates):
        for name, first in (("w", number), ("r", number), ("b", number), ("s", len(gates) + number)):
            source = "b" if name == "s" else name  # of the bias, the state's is behind the input's
            if source in matrices:
                rows = ", ".join(map(str, range(first * size, (first + 1) * size)))
                text += f"rows_{name}{gate}{p} = Constant<value = int64[{size}] {{{rows}}}>() "
                text += f"{name}{gate}{p} = Gather<axis = 0>({source}{p}, rows_{name}{gate}{p}) "
        bias = f", b{gate}{p}" if "b" in matrices else ""
        text += f"sum_{gate}{p} = Gemm<transB = 1>(flat{p}, w{gate}{p}{bias}) "
        text += f"f{gate}{p} = Reshape(sum_{gate}{p}, fed_shape) "
    for cell in cells:
        if cell.upper() in given:
            text += f"begin_{cell}{p} = Gather<axis = 0>({cell.upper()}, p{p}) "
        else:
            text += f"rows_{cell}{p} = Gather(shape, one) shape_{cell}{p} = Concat<axis = 0>(rows_{cell}{p}, size) "
            text += f"begin_{cell}{p} = ConstantOfShape<value = {kind}[1] {{0}}>(shape_{cell}{p}) "

    def product(rows: str, gate: str) -> str:
        return f"Gemm<transB = 1>({rows}, r{gate}{p}{f', s{gate}{p}' if 'b' in matrices else ''}) "

    after = bool(integer(node, "linear_before_reset"))
    reset = "given = Mul(reset, sh)" if after else f"of_reset = Mul(reset, h) given = {product('of_reset', 'h')}"
    plain = gates if node.op_type != "GRU" or after else gates[:-1]
    step = "".join(f"s{gate} = {product('h', gate)}" for gate in plain)
    step += _STEPS[node.op_type].format(*functions, reset=reset)
    carried = ", ".join(f"{kind}[?, {size}] {cell}" for cell in cells)
    fed = ", ".join(f"{kind}[?, {size}] f{gate}" for gate in gates)
    made = ", ".join(f"{kind}[?, {size}] {cell}2" for cell in cells)
    return (
        f"{text} {', '.join(f'{cell}{p}' for cell in cells)}, a{p} = Scan<num_scan_inputs = {len(gates)}, "
        f"scan_input_directions = [{', '.join([str(way)] * len(gates))}], scan_output_directions = [{way}], "
        f"body = step ({carried}, {fed}) => ({made}, {kind}[?, {size}] every) {{ {step} every = Identity(h2) }}>"
        f"({', '.join(f'begin_{cell}{p}' for cell in cells)}, {', '.join(f'f{gate}{p}' for gate in gates)}) "
    )
