"""Concat of all pieces of one tensor, in ONNX Runtime the same bit for bit."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser

from trt_workbench.evaluate.embedded import embedded_model
from trt_workbench.onnxtools.sanitize import default_rewrites, sanitize
from trt_workbench.onnxtools.sanitize_concats import collapse_concats

NAME = "collapse-concats"
# The block of a C2f: a tensor in two halves, of which the second one goes on.
BLOCK = """
    a, b = Split <axis: int = 1> (x, sizes)
    c = Relu (b)
    y = Concat <axis: int = 1> (a, b, c)
"""


def model_of(
    body: str, constants: str = "", shape: str = "2, 6, 3", opset: int = 17, outputs: str = "float[] y"
) -> onnx.ModelProto:
    """Return a model of one float input x and the constants, such as "int64[1] one = {1}"."""
    outputs = outputs.replace("float[]", "float[p, q, r]")
    header = f'<ir_version: 8, opset_import: ["": {opset}]>'
    return parser.parse_model(f"{header} g (float[{shape}] x) => ({outputs}) <{constants}> {{ {body} }}")


def ints(**values: int | Sequence[int]) -> str:
    """Return constants of one dimension."""
    lists = {name: [value] if isinstance(value, int) else list(value) for name, value in values.items()}
    return ", ".join(f"int64[{len(v)}] {name} = {{{', '.join(map(str, v))}}}" for name, v in lists.items())


def run(model: onnx.ModelProto, shape: Sequence[int]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # the model as it is written
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return list(session.run(None, {"x": x}))


def collapsed(model: onnx.ModelProto, shape: Sequence[int] = (2, 6, 3)) -> tuple[onnx.GraphProto, list[str]]:
    """Run the rewrite and check that the result is valid and says the same, bit for bit."""
    expected = run(model, shape)
    after = onnx.ModelProto()
    after.CopyFrom(model)
    changed = collapse_concats(after)
    onnx.checker.check_model(after, full_check=True)
    for want, got in zip(expected, run(after, shape), strict=True):
        assert want.shape == got.shape
        assert want.tobytes() == got.tobytes()
    assert bool(changed) == (after.graph != model.graph)
    assert collapse_concats(after) == []
    return after.graph, changed


def inputs_of(graph: onnx.GraphProto) -> list[str]:
    """Return what the only Concat reads."""
    (node,) = (node for node in graph.node if node.op_type == "Concat")
    return list(node.input)


def operators(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


def test_a_split_that_is_still_read_stays() -> None:
    graph, changed = collapsed(model_of(BLOCK, ints(sizes=[2, 4])))
    assert inputs_of(graph) == ["x", "c"]
    assert operators(graph) == ["Split", "Relu", "Concat"]
    assert changed == ["Concat y: 3 inputs are now 2"]


def test_a_split_that_nobody_reads_goes() -> None:
    body = "a, b = Split <axis: int = 1> (x) r = Relu (x) y = Concat <axis: int = 1> (r, a, b)"
    graph, _ = collapsed(model_of(body))
    assert inputs_of(graph) == ["r", "x"]
    assert operators(graph) == ["Relu", "Concat"]


@pytest.mark.parametrize(
    ("split", "opset"),
    [
        ("Split <axis: int = 1> (x)", 13),
        ("Split <axis: int = -2> (x)", 13),
        ("Split <axis: int = 1, num_outputs: int = 3> (x)", 18),
        ("Split <axis: int = 1> (x, sizes)", 18),
        ("Split <axis: int = 1, split: ints = [1, 0, 5]> (x)", 11),
    ],
)
def test_forms_of_split(split: str, opset: int) -> None:
    body = f"a, b, c = {split} r = Relu (c) y = Concat <axis: int = -2> (r, a, b, c, a)"
    graph, _ = collapsed(model_of(body, ints(sizes=[1, 3, 2]) if "sizes" in split else "", opset=opset))
    assert inputs_of(graph) == ["r", "x", "a"]


def test_the_last_part_of_a_split_may_be_smaller() -> None:
    body = "a, b = Split <axis: int = 1, num_outputs: int = 2> (x) r = Relu (b) y = Concat <axis: int = 1> (a, b, r)"
    graph, _ = collapsed(model_of(body, shape="2, 5, 3", opset=18), (2, 5, 3))
    assert inputs_of(graph) == ["x", "r"]


@pytest.mark.parametrize("cut", [ints(zero=0, two=2, end=6), ints(zero=-6, two=-4, end=2**63 - 1)])
@pytest.mark.parametrize("more", [", axis", ", axis, step"])
def test_slices(cut: str, more: str) -> None:
    body = f"a = Slice (x, zero, two{more}) b = Slice (x, two, end{more}) r = Relu (b)"
    body += "y = Concat <axis: int = 1> (a, b, r)"
    graph, _ = collapsed(model_of(body, f"{cut}, {ints(axis=-2, step=1)}"))
    assert inputs_of(graph) == ["x", "r"]
    assert operators(graph) == ["Slice", "Relu", "Concat"]  # the first piece has no other reader


def test_slices_without_an_axis_are_along_the_first() -> None:
    body = 'a = Slice (x, zero, one) b = Slice (x, one, end, "", step) y = Concat <axis: int = 0> (x, a, b)'
    graph, _ = collapsed(model_of(body, ints(zero=0, one=1, end=2, step=1)))
    assert inputs_of(graph) == ["x", "x"]


@pytest.mark.parametrize("size", [1, 3, 6])
def test_a_dynamic_dimension_that_is_cut_to_its_end(size: int) -> None:
    """Also where it is shorter than the first piece may be, and the second one is empty."""
    body = "a = Slice (x, zero, two, axis) b = Slice (x, two, end, axis) r = Relu (b)"
    body += "y = Concat <axis: int = 1> (a, b, r)"
    constants = ints(zero=0, two=2, end=2**31 - 1, axis=1)
    graph, _ = collapsed(model_of(body, constants, shape="n, c, 3"), (2, size, 3))
    assert inputs_of(graph) == ["x", "r"]


def test_one_tensor_in_pieces_twice() -> None:
    body = "a, b = Split <axis: int = 1> (x) c = Slice (x, zero, two, axis) d = Slice (x, two, end, axis)"
    body += "y = Concat <axis: int = 1> (c, d, a, b, c, d)"
    graph, changed = collapsed(model_of(body, ints(zero=0, two=2, end=99, axis=1)))
    assert inputs_of(graph) == ["x", "x", "x"]
    assert operators(graph) == ["Concat"]
    assert changed == ["Concat y: 6 inputs are now 3"]


@pytest.mark.parametrize(
    ("inputs", "axis"),
    [
        ("b, a, c", 1),  # another order
        ("a, b", 1),  # not all
        ("b, c", 1),
        ("a, c", 1),
        ("a, a, c", 1),  # one twice
        ("a, x, b, c", 1),  # something between them
        ("a, b, c", 2),  # along another axis
        ("a, b, c", -1),
        ("a, e, f", 1),  # of two tensors
        ("a, h, i", 1),  # of two cuts of one
    ],
)
def test_other_parts_of_a_split_stay(inputs: str, axis: int) -> None:
    body = "r = Relu (x) a, b, c = Split <axis: int = 1> (x) d, e, f = Split <axis: int = 1> (r)"
    body += f"g, h, i = Split <axis: int = 1> (x, sizes) y = Concat <axis: int = {axis}> ({inputs})"
    _, changed = collapsed(model_of(body, ints(sizes=[1, 3, 2])))
    assert changed == []


@pytest.mark.parametrize(
    ("first", "second", "step", "shape"),
    [
        ((0, 2), (3, 6), 1, "2, 6, 3"),  # a gap
        ((0, 3), (2, 6), 1, "2, 6, 3"),  # an overlap
        ((2, 6), (0, 2), 1, "2, 6, 3"),  # another order
        ((1, 2), (2, 6), 1, "2, 6, 3"),  # without the start
        ((0, 2), (2, 5), 1, "2, 6, 3"),  # without the end
        ((0, 2), (2, -1), 1, "2, 6, 3"),
        ((0, 2), (2, 6), 2, "2, 6, 3"),  # every other one
        ((0, 2), (2, 6), 1, "2, c, 3"),  # the end is not known to be one
        ((0, -2), (-2, 6), 1, "2, c, 3"),
    ],
)
def test_other_slices_stay(first: tuple[int, int], second: tuple[int, int], step: int, shape: str) -> None:
    body = "a = Slice (x, s, e, axis, step) b = Slice (x, t, f, axis, step) y = Concat <axis: int = 1> (a, b)"
    constants = ints(s=first[0], e=first[1], t=second[0], f=second[1], axis=1, step=step)
    _, changed = collapsed(model_of(body, constants, shape=shape))
    assert changed == []


def test_slices_along_another_axis_stay() -> None:
    body = "a = Slice (x, s, t, axis) b = Slice (x, t, f, axis) y = Concat <axis: int = 1> (a, b)"
    _, changed = collapsed(model_of(body, ints(s=0, t=3, f=6, axis=2), shape="2, 3, 6"), (2, 3, 6))
    assert changed == []


def test_three_slices_of_which_one_goes_back_stay() -> None:
    body = "a = Slice (x, s, u, axis) b = Slice (x, u, t, axis) c = Slice (x, t, f, axis)"
    body += "y = Concat <axis: int = 1> (a, b, c)"
    _, changed = collapsed(model_of(body, ints(s=0, t=2, u=4, f=6, axis=1)))
    assert changed == []


def test_a_slice_of_two_axes_stays() -> None:
    body = "a = Slice (x, s, t, axes) b = Slice (x, t, f, axes) y = Concat <axis: int = 1> (a, b)"
    _, changed = collapsed(model_of(body, ints(s=[0, 0], t=[3, 2], f=[6, 4], axes=[1, 2]), shape="2, 6, 4"), (2, 6, 4))
    assert changed == []


def test_a_slice_at_computed_places_stays() -> None:
    body = "n = Neg (minus) a = Slice (x, zero, n, one) b = Slice (x, n, end, one) y = Concat <axis: int = 1> (a, b)"
    constants = ints(zero=0, one=1, minus=-2, end=2**31 - 1)
    assert collapsed(model_of(body, constants))[1] == []
    # a default of an input of the graph is no constant either
    model = model_of(body.replace("n = Neg (minus)", ""), f"{constants}, {ints(n=2)}")
    model.graph.input.append(onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, [1]))
    assert collapsed(model)[1] == []


def test_pieces_that_are_outputs_of_the_graph_stay() -> None:
    graph, _ = collapsed(model_of(BLOCK, ints(sizes=[2, 4]), outputs="float[] y, float[] a"))
    assert inputs_of(graph) == ["x", "c"]
    assert operators(graph) == ["Split", "Relu", "Concat"]


def test_a_concat_of_nothing_else_is_the_tensor(tmp_path: Path) -> None:
    body = "r = Relu (x) a, b = Split <axis: int = 1> (r) {name} = Concat <axis: int = 1> (a, b)"
    output = model_of(body.format(name="y"))
    graph, changed = collapsed(output)
    assert operators(graph) == ["Relu", "Identity"]  # names an output
    assert changed == ["Concat y: 2 inputs are now 1"]
    inside = model_of(body.format(name="c") + "y = Neg (c)")
    onnx.save(inside, tmp_path / "m.onnx")
    model, report = sanitize(tmp_path / "m.onnx", default_rewrites())
    assert operators(model.graph) == ["Relu", "Neg"]
    assert report.changes[NAME] == ["Concat c: 2 inputs are now 1"]


def test_pieces_of_an_initialiser() -> None:
    constants = "float[2, 2, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}"
    body = "a, b = Split <axis: int = 1> (w) y = Concat <axis: int = 1> (x, a, b)"
    graph, _ = collapsed(model_of(body, constants))
    assert inputs_of(graph) == ["x", "w"]


def test_pieces_of_a_piece() -> None:
    body = (
        "a, b = Split <axis: int = 1> (x) c, d, e = Split <axis: int = 1> (a) y = Concat <axis: int = 1> (c, d, e, b)"
    )
    after = model_of(body)
    assert collapse_concats(after) == ["Concat y: 4 inputs are now 2"]
    assert collapse_concats(after) == ["Concat y: 2 inputs are now 1"]
    assert operators(after.graph) == ["Identity"]
    assert run(model_of(body), (2, 6, 3))[0].tobytes() == run(after, (2, 6, 3))[0].tobytes()


def test_inside_a_branch() -> None:
    body = """
        total = ReduceSum <keepdims: int = 0> (x)
        condition = Cast <to: int = 9> (total)
        y = If (condition) <
            then_branch = then () => (float[p, q, r] t) {
                u = Relu (x)
                a, b = Split <axis: int = 1> (u)
                t = Concat <axis: int = 1> (a, b)
            },
            else_branch = other () => (float[p, q, r] e) { e = Identity (x) }
        >
    """
    graph, changed = collapsed(model_of(body))
    assert changed == ["Concat t: 2 inputs are now 1"]
    assert operators(graph.node[-1].attribute[0].g) == ["Relu", "Identity"]


def test_a_piece_that_a_branch_reads_is_still_made() -> None:
    body = """
        a, b = Split <axis: int = 1> (x)
        whole = Concat <axis: int = 1> (a, b)
        total = ReduceSum <keepdims: int = 0> (whole)
        condition = Cast <to: int = 9> (total)
        y = If (condition) <
            then_branch = then () => (float[p, q, r] t) { t = Concat <axis: int = 1> (a, b) },
            else_branch = other () => (float[p, q, r] e) { e = Identity (b) }
        >
    """
    graph, changed = collapsed(model_of(body))
    assert changed == ["Concat whole: 2 inputs are now 1"]  # the branch has its pieces from outside
    assert operators(graph)[:2] == ["Split", "Identity"]


@st.composite
def concats(draw: st.DrawFn) -> tuple[onnx.ModelProto, int]:
    """Draw a Concat of whole cuts and of single pieces among them; return it with the number of its inputs after."""
    size = draw(st.integers(1, 7))
    nodes, constants, names, after = ["r = Relu (x)"], ["int64[1] axis = {1}"], [], 0
    for number in range(draw(st.integers(1, 4))):
        places = sorted(draw(st.lists(st.integers(0, size), max_size=3)))
        bounds = [0, *places, size]
        parts = [f"p{number}_{i}" for i in range(len(bounds) - 1)]
        source = draw(st.sampled_from("xr"))
        if draw(st.booleans()):
            constants.append(ints(**{f"sizes{number}": np.diff(bounds).tolist()}))
            nodes.append(f"{', '.join(parts)} = Split <axis: int = 1> ({source}, sizes{number})")
        else:
            # each bound from the front or the end; the last also beyond it
            written = [draw(st.sampled_from([bound, bound - size] if bound < size else [bound])) for bound in bounds]
            written[-1] += draw(st.sampled_from([0, 1, 2**31]))
            constants += [ints(**{f"b{number}_{i}": bound}) for i, bound in enumerate(written)]
            nodes += [
                f"{part} = Slice ({source}, b{number}_{i}, b{number}_{i + 1}, axis)" for i, part in enumerate(parts)
            ]
        names += parts
        after += 1
        if draw(st.booleans()):
            names.append("x")
            after += 1
    nodes.append(f"y = Concat <axis: int = {draw(st.sampled_from([1, -2]))}> ({', '.join(names)})")
    return model_of(" ".join(nodes), ", ".join(constants), shape=f"2, {size}, 3"), after


@given(concats())
def test_all_pieces_are_the_tensor(drawn: tuple[onnx.ModelProto, int]) -> None:
    model, wanted = drawn
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    before = run(model, shape)[0]
    collapse_concats(model)
    assert before.tobytes() == run(model, shape)[0].tobytes()
    # the pieces of no size at the end of a cut by Slice are left
    assert len([name for name in model.graph.node[-1].input if not name.startswith("p")]) == wanted


@given(concats(), st.randoms(use_true_random=False))
def test_pieces_in_any_order_say_the_same(drawn: tuple[onnx.ModelProto, int], random: Random) -> None:
    model, _ = drawn
    names = list(model.graph.node[-1].input)
    random.shuffle(names)
    model.graph.node[-1].input[:] = names
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    before = run(model, shape)[0]
    collapse_concats(model)
    assert before.tobytes() == run(model, shape)[0].tobytes()


def test_the_embedded_detector() -> None:
    model, report = sanitize(embedded_model(), [NAME])
    assert len(report.changes[NAME]) == 8  # its C2f-like blocks
    images = np.random.default_rng(0).random((1, 3, 320, 320), np.float32)
    results = [
        ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"images": images})[0]
        for data in (embedded_model().read_bytes(), model.SerializeToString())
    ]
    assert results[0].tobytes() == results[1].tobytes()
