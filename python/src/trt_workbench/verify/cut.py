"""Parts of a model that stand alone: chosen nodes, fed with the true values of whatever they read from the rest."""

from __future__ import annotations

import enum
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from trt_workbench.backends.registry import load_reference
from trt_workbench.core.counts import grouped
from trt_workbench.core.files import scratch_folder
from trt_workbench.engine.profiles import Profile, ShapeRange
from trt_workbench.model.constants import SCALED, constant_value
from trt_workbench.model.index import GraphIndex
from trt_workbench.model.opened import Model
from trt_workbench.model.walking import components, has_subgraph, reads
from trt_workbench.model.weights import inferred, save_model
from trt_workbench.verify.yardstick import Arrays, typed_for

_OF_SHAPES = frozenset({"Shape", "Size"})


class Form(enum.Enum):
    """What a part keeps of the model's shapes.

    Attributes:
        FOLDED: fixed shapes; what follows only from shapes and constants is a constant.
        FIXED: fixed shapes; the nodes that compute with shapes stay.
        DYNAMIC: the model's dynamic dimensions stay dynamic, with their ranges.
    """

    FOLDED = "folded"
    FIXED = "fixed"
    DYNAMIC = "dynamic"


@dataclass(frozen=True)
class Cut:
    """A part of a model.

    Attributes:
        model: with only the chosen nodes.
        inputs: true values of its inputs.
        expected: true values of its outputs.
        profile: ranges of its inputs where they are dynamic.
    """

    model: onnx.ModelProto
    inputs: Arrays
    expected: Arrays
    profile: Profile | None = None


@dataclass
class CutSource:
    """A model, and what each of its tensors holds for one set of inputs.

    Attributes:
        nodes: the model's nodes but Constant, in the order of the file.
        names: of the nodes; `Operator_N` with the place in the file where it has none.
        values: true values by tensor, of every tensor that numpy can hold.
        folded: places of nodes whose results follow only from shapes and constants.
        outputs: names of the model's own outputs.
    """

    nodes: list[onnx.NodeProto]
    names: list[str]
    values: dict[str, NDArray[Any]]
    folded: frozenset[int]
    outputs: tuple[str, ...]
    _model: onnx.ModelProto
    _index: GraphIndex
    _constants: dict[str, onnx.TensorProto]
    _reads: list[frozenset[str]]
    _ranges: dict[str, ShapeRange] = field(default_factory=dict)

    @property
    def candidates(self) -> frozenset[int]:
        """Places of the nodes that compute with data."""
        return frozenset(range(len(self.nodes))) - self.folded

    def with_ranges(self, low: Arrays, best: Arrays, high: Arrays) -> None:
        """Determine which dimensions are dynamic, and their ranges, from runs of both ends and of the best-tuned sizes.

        Raises:
            UsageProblem: the model does not run there.
        """
        shapes = [
            {name: array.shape for name, array in _every_value(self._model, one).items()} for one in (low, best, high)
        ]
        for name, array in self.values.items():
            several = [one[name] for one in shapes if len(one.get(name, ())) == array.ndim]
            if len(several) == len(shapes):
                dims = list(zip(*several, array.shape, strict=True))
                self._ranges[name] = ShapeRange(min=tuple(map(min, dims)), opt=several[1], max=tuple(map(max, dims)))

    def ancestors(self, tensors: Iterable[str]) -> frozenset[int]:
        """Return the places of all candidates that some tensors are computed from."""
        return frozenset(self._makers(tensors, range(len(self.nodes)))) - self.folded

    def made_by(self, place: int) -> list[str]:
        """Return the outputs of a node."""
        return [name for name in self.nodes[place].output if name]

    def near(self, place: int, steps: int, nodes: Collection[int]) -> frozenset[int]:
        """Return the nodes of a set from which a node of it can be reached over so many others of it at most."""
        found = newest = {place}
        for _ in range(steps):
            makers = {self._index.producer.get(name) for one in newest for name in self._reads[one]}
            newest = {one for one in makers if one is not None and one in nodes} - found
            found = found | newest
        return frozenset(found)

    def parts(self, nodes: Collection[int]) -> list[frozenset[int]]:
        """Return the connected parts of a set of nodes, the largest first."""
        order = sorted(nodes)
        made = [(place, self._index.producer.get(name)) for place in order for name in self._reads[place]]
        labels = components(order, [(place, maker) for place, maker in made if maker is not None and maker in nodes])
        return sorted(map(frozenset, grouped(order, labels.__getitem__).values()), key=len, reverse=True)

    def inner(self, nodes: Collection[int]) -> list[str]:
        """Return the float tensors made by a set of nodes, in the order in which they are made."""
        made = [name for place in sorted(nodes) for name in self.made_by(place)]
        return [name for name in made if name in self.values and self.values[name].dtype.kind == "f"]

    def cut(self, nodes: Collection[int], form: Form, marked: Collection[str] = ()) -> Cut | None:
        """Return a set of nodes as a model of their own.

        What they read from other nodes becomes an input. What others read from them becomes an output, unless nodes
        of the set read it too: a fault may vanish where a tensor in its middle is an output.

        Args:
            nodes: places of candidates.
            form: what becomes of shapes.
            marked: tensors that are always outputs.

        Returns:
            None where a value that would have to be fed in is not known, or there is no output.
        """
        chosen = set(nodes) if form is Form.FOLDED else self._with_shapes(nodes)
        made = {name for place in chosen for name in self.made_by(place)}
        within = {name for place in nodes for name in self._reads[place]}
        needed = {name for place in chosen for name in self._reads[place]} - made
        of_nodes = [name for place in sorted(nodes) for name in self.made_by(place)]
        ends = [
            name
            for name in of_nodes
            if name in self.outputs or name in marked or (name not in within and self._index.users.get(name))
        ]
        fixed = {name for place in self.folded for name in self.made_by(place)} if form is Form.FOLDED else set()
        held = [self._constants[name] for name in sorted(needed & self._constants.keys())]
        fed = sorted(needed - self._constants.keys())
        if not ends or any(name not in self.values for name in (*fed, *ends)):
            return None
        held += [numpy_helper.from_array(self.values[name], name) for name in fed if name in fixed]
        fed = [name for name in fed if name not in fixed]
        dynamic = form is Form.DYNAMIC
        graph = helper.make_graph(
            [self.nodes[place] for place in sorted(chosen)],
            "part",
            [self._info(name, dynamic=dynamic) for name in fed],
            [self._info(name, dynamic=dynamic) for name in ends],
            held,
        )
        source = self._model
        model = helper.make_model(
            graph, opset_imports=source.opset_import, ir_version=source.ir_version, functions=source.functions
        )
        ranged = {name: self._ranges[name] for name in fed if dynamic and self._is_dynamic(name)}
        return Cut(
            model,
            {name: self.values[name] for name in fed},
            {name: self.values[name] for name in ends},
            Profile(shapes=ranged) if ranged else None,
        )

    def _with_shapes(self, nodes: Iterable[int]) -> set[int]:
        """Return nodes with those that compute the shapes and constants which they read."""
        return {*nodes, *self._makers([name for place in nodes for name in self._reads[place]], self.folded)}

    def _makers(self, tensors: Iterable[str], among: Container[int]) -> set[int]:
        """Return which of some nodes tensors are computed from, and what these read, as far as there are such nodes."""
        found, waiting = set[int](), list(tensors)
        while waiting:
            place = self._index.producer.get(waiting.pop())
            if place is not None and place in among and place not in found:
                found.add(place)
                waiting += self._reads[place]
        return found

    def _is_dynamic(self, name: str) -> bool:
        around = self._ranges.get(name)
        return around is not None and around.min != around.max

    def _info(self, name: str, *, dynamic: bool) -> onnx.ValueInfoProto:
        array = self.values[name]
        dims: list[int | str] = list(array.shape)
        if dynamic and self._is_dynamic(name):
            around = self._ranges[name]
            # one name for dimensions of the same sizes: runtimes treat them as equal
            ends = zip(around.min, around.opt, around.max, strict=True)
            dims = [best if low == high else f"d{low}_{best}_{high}" for low, best, high in ends]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims)


def read_source(source: Model, inputs: Arrays) -> CutSource:
    """Compute all of its tensors on ort-cpu.

    Args:
        source: the model.
        inputs: of one call, perhaps of a narrower type than the model's own.

    Raises:
        UsageProblem: the model cannot be run.
    """
    model = source.load()
    index = GraphIndex(model)
    initial = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and (value := constant_value(node)) is not None:
            initial[node.output[0]] = numpy_helper.from_array(value, node.output[0])
    read = [frozenset(reads(node)) for node in index.nodes]
    fixed, folded = set(initial), set()
    for place, node in enumerate(index.nodes):
        follows = node.op_type in _OF_SHAPES or (node.op_type not in SCALED and read[place] <= fixed)
        if follows and not has_subgraph(node):
            folded.add(place)
            fixed.update(node.output)
    return CutSource(
        nodes=index.nodes,
        names=[node.name for node in index.nodes],
        values=_every_value(model, inputs),
        folded=frozenset(folded),
        outputs=tuple(value.name for value in model.graph.output),
        _model=model,
        _index=index,
        _constants=initial,
        _reads=read,
    )


def _every_value(model: onnx.ModelProto, inputs: Arrays) -> dict[str, NDArray[Any]]:
    """Return the values of all inputs and computed tensors that numpy can hold."""
    marked = onnx.ModelProto()
    marked.CopyFrom(model)
    typed = inferred(model).graph
    types = {value.name: value.type for value in (*typed.value_info, *typed.output)}
    known = {value.name for value in marked.graph.output}
    for name in (name for node in model.graph.node for name in node.output if name):
        if name not in known and _is_array(types.get(name)):
            marked.graph.output.append(onnx.ValueInfoProto(name=name, type=types[name]))
    with scratch_folder("trtw-values-") as folder:
        path = Path(folder) / "marked.onnx"
        save_model(marked, path)
        with load_reference(path) as session:
            fed = typed_for(session, inputs)
            return {**fed, **session.run(fed)}


def _is_array(kind: onnx.TypeProto | None) -> bool:
    if kind is None or not kind.HasField("tensor_type"):
        return False
    element = kind.tensor_type.elem_type
    if element in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        return False
    return np.dtype(helper.tensor_dtype_to_np_dtype(element)).kind in "biuf"
