"""Why TensorRT-RTX did not compile a model, by what it says: the layer and the type that stopped it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import onnx

from trt_workbench.core.documents import Strict
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import data_type, find
from trt_workbench.model.proto import kinds
from trt_workbench.model.walking import nodes_within

# Of a machine without a GPU; nothing follows from it.
_NOISE = re.compile(r"cudaError \d+|catchCudaError")
# "Error Code 4: API Usage Error (NAME: what is wrong. In function at /file:1)"
_IN_BRACKETS = re.compile(r"Error Code \d+: [\w ]+\((?:\[[^\]]*\] )?(.*?)\.? In [\w:()]+(?: \w+)* at /", re.DOTALL)
_QUOTED = re.compile(r'&& "(.*)"', re.DOTALL)
_ASSERTION = re.compile(r"^Assertion failed: .*?: (?=[A-Z])", re.DOTALL)
_FOREIGN = re.compile(r"\{ForeignNode\[(.*?)\.\.\.")
# "ITopKLayer NAME: …", "IConditionalOutputLayer NAME_OutputLayer: …"; a node may become several layers.
_LAYER = re.compile(r"\bI\w+Layer ([^\s:]+):")
# Of the profile, not of the model: no values for a shape input, sizes of one name that differ.
_OF_PROFILE = re.compile(r"is missing values|no optimization profile|not self-consistent|Invalid optimization profile")
_NAMED = (_LAYER, re.compile(r"// (\S+?),"), re.compile(r"\bnode (\S+?)[.\s]*$"), re.compile(r"^(\S+?):? (?=\S)"))
_UNFIT_TYPES = re.compile(r"HW-specific datatypes: ([\w, ]+)")
_FP64 = frozenset(kinds("fp64"))
_HAS_TYPE = re.compile(r"\bhas type (\w+)|\bof types? (\w+)(?: and (\w+))?|\bdatatype (\w+)")


@dataclass(frozen=True)
class Complaint:
    """An error of the ONNX parser.

    Attributes:
        index: of the node in the graph; -1 where it is not about a node.
        name: of the node.
        operator: of the node.
        text: what is wrong.
        function: of the parser, which says what it was reading.
        file: of its source; in its place the name of the input that cannot be read.
    """

    index: int
    name: str
    operator: str
    text: str
    function: str
    file: str = ""


class Refusal(Strict):
    """Why nothing was built.

    Attributes:
        reason: in the compiler's words, shortened.
        layer: name of the ONNX node, or else of the tensor, that stops it; None where the compiler does not say.
        operator: of the node; None for a tensor.
        types: of the layer that the compiler names.
    """

    reason: str
    layer: str | None = None
    operator: str | None = None
    types: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One sentence with all of it."""
        where = " ".join(filter(None, (self.operator, self.layer)))
        types = f" ({', '.join(self.types)})" if self.types else ""
        return f"{where}{types}: {self.reason}" if where else f"{self.reason}{types}"


def parser_refusal(complaints: Sequence[Complaint], graph: onnx.GraphProto) -> Refusal:
    """Return why the model was not read: the first complaint."""
    first = complaints[0]
    sentence = _sentence(first.text)
    if not first.operator:
        return _unread_tensor(first, sentence, graph)
    node = graph.node[first.index] if 0 <= first.index < len(graph.node) else None
    name = first.name or (_label(node) if node else None)
    if sentence in ("false", first.text.strip()) and first.function.startswith("check"):
        sentence = "TensorRT-RTX does not support this operator"
    return Refusal(
        reason=re.sub(rf"^{re.escape(_trt_name(node))}(_\d+)?: ", "", sentence),
        layer=name,
        operator=first.operator,
        types=_types(sentence),
    )


def build_refusal(errors: Sequence[str], graph: onnx.GraphProto) -> Refusal:
    """Return why no engine came of a model that was read: the first error in the log.

    Raises:
        UsageProblem: the profile is at fault, not the model.
    """
    said = [text for text in errors if not _NOISE.search(text)] or list(errors)
    if not said:
        return Refusal(reason="the compiler gave no reason")
    sentence = _sentence(said[0])
    if unfit := _UNFIT_TYPES.search(sentence):
        words = [word.strip() for word in unfit[1].split(",")]
        types = tuple(data_type(word) or word for word in words)
        node = _first_of_type(graph, {kind for name in types if find(name) for kind in kinds(name)})
        reason = f"the architecture has no arithmetic in {' or '.join(words)}"
        return Refusal(reason=reason, types=types, **_place(node))
    if _OF_PROFILE.search(sentence):
        raise UsageProblem(
            f"The profile does not fit the model ({sentence}); set it with --profile NAME:MIN/OPT/MAX for shapes, and "
            "NAME=MIN/OPT/MAX for the values of an input that shapes depend on."
        )
    named = {name for pattern in (_FOREIGN, *_NAMED) for name in pattern.findall(sentence)}
    nodes = {_trt_name(node): node for node in nodes_within(graph.node)}
    node = next((one for name, one in nodes.items() if named & {one.name, name} - {""}), None)
    if node is None:  # the longest name that the layer's begins with
        begun = [name for name in nodes for layer in _LAYER.findall(sentence) if name and layer.startswith(f"{name}_")]
        node = nodes[max(begun, key=len)] if begun else None
    return Refusal(reason=sentence, types=_types(sentence), **_place(node))


def fp64_notes(graph: onnx.GraphProto) -> tuple[str, ...]:
    """Return what is to be said of a graph with values in fp64, which the compiler takes for fp32."""
    outer = [one.name for one in (*graph.input, *graph.output) if one.type.tensor_type.elem_type in _FP64]
    if not outer and _first_of_type(graph, _FP64) is None:
        return ()
    types = f" {', '.join(outer)} of the engine are float32, not float64 as in the model." if outer else ""
    return (f"TensorRT-RTX has no fp64: what the model computes in fp64 is compiled as fp32.{types}",)


def _unread_tensor(complaint: Complaint, sentence: str, graph: onnx.GraphProto) -> Refusal:
    """Return the refusal of an input or initializer."""
    if complaint.function == "importInput":
        value = next((one for one in graph.input if one.name == complaint.file), None)
        types = (_type_name(value.type.tensor_type.elem_type),) if value else ()
        return Refusal(reason="inputs of this type are not supported", layer=complaint.file or None, types=types)
    name = complaint.text.rpartition(": ")[2].strip()
    tensor = next((one for one in graph.initializer if one.name == name), None)
    if tensor is None:
        return Refusal(reason=sentence)
    node = next((node for node in graph.node if name in node.input), None)
    reason = f"initializer {name}: this type is not supported"
    return Refusal(reason=reason, types=(_type_name(tensor.data_type),), **_place(node))


def _sentence(text: str) -> str:
    """Return what a message says without the names of functions and files around it."""
    useful = "\n".join(line for line in text.split("\n") if not _NOISE.search(line))
    for pattern in (_IN_BRACKETS, _QUOTED):
        if found := pattern.search(useful):
            useful = found[1]
            break
    return " ".join(_ASSERTION.sub("", useful).split())


def _types(sentence: str) -> tuple[str, ...]:
    words = [word for found in _HAS_TYPE.findall(sentence) for word in found if word]
    return tuple(dict.fromkeys(name for word in words if (name := data_type(word))))


def _first_of_type(graph: onnx.GraphProto, wanted: Collection[int]) -> onnx.NodeProto | None:
    """Return the first node that holds or makes values of one of the element types."""
    node: onnx.NodeProto
    held = {tensor.name for tensor in graph.initializer if tensor.data_type in wanted}
    for node in nodes_within(graph.node):
        made = [entry.i for entry in node.attribute if entry.name in ("to", "output_dtype", "scale_type")]
        made += [entry.t.data_type for entry in node.attribute if entry.HasField("t")]
        if held.intersection(node.input) or any(kind in wanted for kind in made):
            return node
    return None


def _place(node: onnx.NodeProto | None) -> dict[str, str]:
    return {"layer": _label(node), "operator": node.op_type} if node else {}


def _label(node: onnx.NodeProto) -> str:
    return node.name or f"(unnamed, makes {node.output[0]})"


def _trt_name(node: onnx.NodeProto | None) -> str:
    return (node.name or f"node_of_{node.output[0]}") if node and node.output else ""


def _type_name(element: int) -> str:
    name: str = onnx.TensorProto.DataType.Name(element)
    return name.lower()
