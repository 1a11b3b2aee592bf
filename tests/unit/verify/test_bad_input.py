"""Models and inputs that cannot be verified as they are: said, never passed over."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.errors import UsageProblem
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.reference import LiveReference
from trt_workbench.verify.run import Verified, verify
from trt_workbench.verify.settings import Range

FLOAT = TensorProto.FLOAT


def model(
    path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: dict[str, Any], constants: Any = ()
) -> Path:
    values = [
        [helper.make_tensor_value_info(name, *kind) for name, kind in several.items()] for several in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "small", *values, list(constants))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def found(target: Path, **more: Any) -> Verified:
    folder = target.parent / "run"
    folder.mkdir()
    request = VerifyRequest(target=target, backend="ort-cpu", **more)
    return verify(request, folder)


def test_a_model_that_is_random_by_design_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["n"]), helper.make_node("Add", ["x", "n"], ["y"])]
    path = model(tmp_path / "m.onnx", nodes, {"x": (FLOAT, ["N", 4])}, {"y": (FLOAT, ["N", 4])})
    with pytest.raises(UsageProblem, match=r"random by design \(RandomNormalLike\)"):
        found(path)


def test_an_output_whose_shape_depends_on_data(tmp_path: Path) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    path = model(tmp_path / "m.onnx", nodes, {"x": (FLOAT, ["N", 4])}, {"y": (TensorProto.INT64, [2, "K"])})
    document = found(path, quick=True).document
    assert document["verdict"] == "right"
    # with zeros there is none, and 2 is not the batch
    assert {tuple(row["shape"]) for case in document["cases"] for row in case["outputs"]} >= {(2, 4), (2, 8)}


def test_a_model_without_inputs(tmp_path: Path) -> None:
    value = numpy_helper.from_array(np.ones(3, np.float32))
    path = model(tmp_path / "m.onnx", [helper.make_node("Constant", [], ["y"], value=value)], {}, {"y": (FLOAT, [3])})
    assert found(path).document["verdict"] == "right"


def test_a_constant_output_beside_another(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Sub", ["x", "x"], ["z"])]
    kind = (FLOAT, ["N", 4])
    assert found(model(tmp_path / "m.onnx", nodes, {"x": kind}, {"y": kind, "z": kind})).failures == ()


def test_a_dimension_of_no_elements(tmp_path: Path) -> None:
    kind = (FLOAT, ["N", 0])
    path = model(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": kind}, {"y": kind})
    assert found(path).document["verdict"] == "right"


def test_strings_are_named(tmp_path: Path) -> None:
    kind = (TensorProto.STRING, ["N"])
    path = model(tmp_path / "m.onnx", [helper.make_node("Identity", ["x"], ["y"])], {"x": kind}, {"y": kind})
    with pytest.raises(UsageProblem, match=r"x .*no values can be drawn"):
        found(path)


def test_gigabytes_are_sampled_by_a_smaller_batch_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_workbench.verify.calls.MOST_BYTES", 1 << 20)
    kind = (FLOAT, ["N", 1024])
    path = model(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": kind}, {"y": kind})
    result = found(path, quick=True, ranges={"N": Range(1, 2, 1 << 20)})
    huge, instead = result.document["cases"][-2:]
    assert (huge["label"], huge["verdict"]) == ("N=1048576", "unverified")
    assert huge["reason"] == "its inputs take 4 GiB, at most 1 MiB are tried: N=256 stands for it"
    assert (instead["label"], instead["verdict"]) == ("N=256", "right")
    assert result.document["verdict"] == "right"
    assert result.unproven == ()


def test_gigabytes_without_a_batch_are_sampled_by_smaller_dimensions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_workbench.verify.calls.MOST_BYTES", 1 << 16)
    kind = (FLOAT, [1, 3, "H", "W"])
    path = model(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": kind}, {"y": kind})
    cases = found(path, quick=True, ranges={"H": Range(8, 8, 1008), "W": Range(8, 8, 2008)}).document["cases"]
    huge = next(case for case in cases if case["label"] == "H=1008 W=2008")
    assert huge["reason"].endswith("H=54 W=101 stands for it")
    assert [case["verdict"] for case in cases if case["label"] == "H=54 W=101"] == ["right"]


def test_inputs_that_are_too_large_at_their_smallest_are_not_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_workbench.verify.calls.MOST_BYTES", 8)
    kind = (FLOAT, ["N", 4])
    path = model(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": kind}, {"y": kind})
    with pytest.raises(UsageProblem, match="no smaller shape is offered that fits"):
        found(path)


def test_a_shape_that_the_model_refuses_is_not_verified(tmp_path: Path) -> None:
    reshape = helper.make_node("Reshape", ["x", "shape"], ["y"])
    shape = numpy_helper.from_array(np.array([2, -1]), "shape")  # rows of an odd number of elements do not fit
    path = model(tmp_path / "m.onnx", [reshape], {"x": (FLOAT, ["N", 3])}, {"y": (FLOAT, [2, "K"])}, [shape])
    document = found(path, quick=True).document
    assert {case["label"]: case["verdict"] for case in document["cases"]} == {
        "N=1": "unverified",
        "N=2": "right",
        "N=3": "unverified",
        "N=16": "right",
    }
    assert document["cases"][0]["reason"].startswith("the reference ort-cpu does not run it: ")


def test_ranges_that_no_input_fits(tmp_path: Path) -> None:
    nodes = [helper.make_node("Concat", ["x", "z"], ["y"], axis=1)]
    inputs = {"x": (FLOAT, ["N", 3]), "z": (FLOAT, ["M", 3])}
    path = model(tmp_path / "m.onnx", nodes, inputs, {"y": (FLOAT, ["N", 6])})
    with pytest.raises(UsageProblem, match="No shape could be run; the first answer was: the reference"):
        found(path, ranges={"N": Range(2, 2, 2), "M": Range(3, 3, 3)})


def test_a_range_of_nothing(tmp_path: Path) -> None:
    kind = (FLOAT, ["N", 4])
    path = model(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": kind}, {"y": kind})
    with pytest.raises(UsageProblem, match="no dynamic dimension 'batch'; the model has: N"):
        found(path, ranges={"batch": Range(1, 2, 3)})


def test_a_reference_that_cannot_open_the_model(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    kind = (FLOAT, ["N", 4, 4])
    path = model(tmp_path / "m.onnx", [helper.make_node("Det", ["x"], ["y"])], {"x": kind}, {"y": (FLOAT, ["N"])})
    with pytest.raises(UsageProblem, match="reference torch cannot be opened; choose another with --reference"):
        found(path, reference="torch")


def test_rows_of_the_users_own_are_put_together_to_every_batch(tmp_path: Path) -> None:
    kind = (FLOAT, ["N", "T"])
    path = model(tmp_path / "m.onnx", [helper.make_node("Softmax", ["x"], ["y"])], {"x": kind}, {"y": kind})
    samples = tmp_path / "samples"
    samples.mkdir()
    for number, length in enumerate((5, 5, 9)):
        np.save(samples / f"{number}.npy", np.full((1, length), number, np.float32))
    document = found(path, inputs=(str(samples),), quick=True).document
    shapes = [case["shapes"]["x"] for case in document["cases"]]
    assert shapes == [[n, length] for length in (5, 9) for n in (1, 2, 3, 16)]
    assert {row["inputs"] for case in document["cases"] for row in case["outputs"]} == {"given", "given, the next rows"}
    np.save(samples / "3.npy", np.zeros((1, 65), np.float32))
    (tmp_path / "run").rmdir()
    with pytest.raises(UsageProblem, match=r"No sample of --inputs has shapes that are offered.*\[1, 65\]"):
        found(path, inputs=(str(samples / "3.npy"),))


def test_an_input_whose_values_are_sizes_is_tried_at_its_ends(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["rows", "size"], ["shape"], axis=0),
        helper.make_node("Expand", ["x", "shape"], ["y"]),
    ]
    inputs = {"x": (FLOAT, ["N", 1]), "size": (TensorProto.INT64, [1])}
    shape = [helper.make_node("Shape", ["x"], ["rows"], start=0, end=1)]
    path = model(tmp_path / "m.onnx", [*shape, *nodes], inputs, {"y": (FLOAT, ["N", "K"])})
    document = found(path, quick=True, ranges={"N": Range(1, 2, 3), "size": Range(1, 4, 9)}).document
    assert document["verdict"] == "right"
    assert document["cases_unverified"] == 0
    shapes = {tuple(row["shape"]) for case in document["cases"] for row in case["outputs"]}
    assert {(1, 4), (2, 4), (3, 4), (1, 1), (1, 9), (2, 1), (2, 9)} <= shapes


def test_boxes_whose_number_depends_on_data(tmp_path: Path) -> None:
    """Non-maximum suppression: rounding may change how many there are, which is no fault."""
    nodes = [
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"]),
    ]
    constants = [
        numpy_helper.from_array(np.array([20]), "most"),
        numpy_helper.from_array(np.array([0.5], np.float32), "overlap"),
        numpy_helper.from_array(np.array([0.1], np.float32), "least"),
    ]
    inputs = {"boxes": (FLOAT, ["N", 30, 4]), "scores": (FLOAT, ["N", 2, 30])}
    path = model(tmp_path / "m.onnx", nodes, inputs, {"chosen": (TensorProto.INT64, ["K", 3])}, constants)
    result = found(path, quick=True)
    assert result.failures == ()
    assert {row["verdict"] for case in result.document["cases"] for row in case["outputs"]} <= {"right", "undecided"}
    assert len({row["shape"][0] for case in result.document["cases"] for row in case["outputs"]}) > 1


def test_a_reference_that_fails_at_one_shape_leaves_the_others_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = LiveReference._run

    def fails(self: LiveReference, inputs: Any) -> Any:
        if len(inputs["x"]) == 3:
            raise UsageProblem("no kernel for this shape")
        return running(self, inputs)

    monkeypatch.setattr(LiveReference, "_run", fails)
    kind = (FLOAT, ["N", 4])
    path = model(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": kind}, {"y": kind})
    result = found(path, quick=True)
    assert {case["label"]: case["verdict"] for case in result.document["cases"]} == {
        "N=1": "right",
        "N=2": "right",
        "N=3": "unverified",
        "N=16": "right",
    }
    assert result.unproven == (
        "N=3: the reference ort-cpu does not run it: no kernel for this shape; the target does, and nothing was proven "
        "of it",
    )
