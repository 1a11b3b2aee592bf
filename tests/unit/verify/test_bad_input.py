"""Models and inputs that cannot be verified as they are: said, never passed over."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faulty_backend import FaultySession
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import held, refused

from trt_workbench.console.common import print_parts
from trt_workbench.core.errors import CheckFailed, Unsupported, UsageProblem
from trt_workbench.model.index import empty_tensors, rounded_sizes
from trt_workbench.verify.cli import require_right, show
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.reference import LiveReference
from trt_workbench.verify.report import answer, worst_differences
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range


def found(target: Path, **more: Any) -> Verified:
    folder = target.parent / "run"
    folder.mkdir()
    request = VerifyRequest(target=target, backend="ort-cpu", **more)
    return verify(request, folder)


def test_a_model_that_is_random_by_design_is_refused(tmp_path: Path) -> None:
    graph = "g (float[N,4] x) => (float[N,4] y) { n = RandomNormalLike(x) y = Add(x, n) }"
    path = write_onnx(tmp_path / "m.onnx", graph)
    with refused(UsageProblem):
        found(path)


def test_an_output_whose_shape_depends_on_data(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,4] x) => (int64[2,K] y) { y = NonZero(x) }")
    document = found(path, quick=True).document
    assert document["verdict"] == "consistent"
    # with zeros there is none, and 2 is not the batch
    assert {tuple(row["shape"]) for case in document["cases"] for row in case["outputs"]} >= {(2, 4), (2, 8)}


def test_a_model_without_inputs(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g () => (float[3] y) { y = Constant<value = float[3] {1, 1, 1}>() }")
    assert found(path).document["verdict"] == "consistent"


def test_a_constant_output_beside_another(tmp_path: Path) -> None:
    graph = "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = Relu(x) z = Sub(x, x) }"
    assert found(write_onnx(tmp_path / "m.onnx", graph)).failures == ()


def test_a_dimension_of_no_elements(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,0] x) => (float[N,0] y) { y = Relu(x) }")
    assert found(path).document["verdict"] == "consistent"


def test_strings_are_named(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (string[N] x) => (string[N] y) { y = Identity(x) }")
    with refused(UsageProblem):
        found(path)


def test_gigabytes_are_sampled_by_a_smaller_batch_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_workbench.verify.calls.MOST_BYTES", 1 << 20)
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,1024] x) => (float[N,1024] y) { y = Relu(x) }")
    result = found(path, quick=True, ranges={"N": Range(1, 2, 1 << 20)})
    huge, instead = result.document["cases"][-2:]
    assert (huge["label"], huge["verdict"]) == ("N=1048576", "unverified")
    held(huge["reason"])
    assert (instead["label"], instead["verdict"]) == ("N=256", "consistent")
    assert result.document["verdict"] == "consistent"
    assert result.unproven == ()


def test_gigabytes_without_a_batch_are_sampled_by_smaller_dimensions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_workbench.verify.calls.MOST_BYTES", 1 << 16)
    path = write_onnx(tmp_path / "m.onnx", "g (float[1,3,H,W] x) => (float[1,3,H,W] y) { y = Relu(x) }")
    cases = found(path, quick=True, ranges={"H": Range(8, 8, 1008), "W": Range(8, 8, 2008)}).document["cases"]
    huge = next(case for case in cases if case["label"] == "H=1008 W=2008")
    assert huge["reason"].endswith("H=54 W=101 is tried instead")
    assert [case["verdict"] for case in cases if case["label"] == "H=54 W=101"] == ["consistent"]


def test_inputs_that_are_too_large_at_their_smallest_are_not_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_workbench.verify.calls.MOST_BYTES", 8)
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    with refused(UsageProblem):
        found(path)


def test_a_shape_that_the_model_refuses_is_not_verified(tmp_path: Path) -> None:
    # rows of an odd number of elements do not fit
    graph = "g (float[N,3] x) => (float[2,K] y) <int64[2] shape = {2, -1}> { y = Reshape(x, shape) }"
    document = found(write_onnx(tmp_path / "m.onnx", graph), quick=True).document
    assert {case["label"]: case["verdict"] for case in document["cases"]} == {
        "N=1": "unverified",
        "N=2": "consistent",
        "N=3": "unverified",
        "N=16": "consistent",
    }
    assert document["cases"][0]["reason"].startswith("the reference ort-cpu does not run it: ")


def test_ranges_that_no_input_fits(tmp_path: Path) -> None:
    graph = "g (float[N,3] x, float[M,3] z) => (float[N,6] y) { y = Concat<axis = 1>(x, z) }"
    path = write_onnx(tmp_path / "m.onnx", graph)
    with refused(UsageProblem):
        found(path, ranges={"N": Range(2, 2, 2), "M": Range(3, 3, 3)})


def test_a_range_of_nothing(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    with refused(UsageProblem):
        found(path, ranges={"batch": Range(1, 2, 3)})


def test_a_reference_that_cannot_open_the_model(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,4,4] x) => (float[N] y) { y = Det(x) }")
    with refused(UsageProblem):
        found(path, reference="torch")


def test_rows_of_the_users_own_are_put_together_to_every_batch(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,T] x) => (float[N,T] y) { y = Softmax(x) }")
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
    with refused(UsageProblem):
        found(path, inputs=(str(samples / "3.npy"),))


def test_an_input_whose_values_are_sizes_is_tried_at_its_ends(tmp_path: Path) -> None:
    graph = """g (float[N,1] x, int64[1] size) => (float[N,K] y) {
      rows = Shape<start = 0, end = 1>(x) shape = Concat<axis = 0>(rows, size) y = Expand(x, shape) }"""
    path = write_onnx(tmp_path / "m.onnx", graph)
    document = found(path, quick=True, ranges={"N": Range(1, 2, 3), "size": Range(1, 4, 9)}).document
    assert document["verdict"] == "consistent"
    assert document["cases_unverified"] == 0
    shapes = {tuple(row["shape"]) for case in document["cases"] for row in case["outputs"]}
    assert {(1, 4), (2, 4), (3, 4), (1, 1), (1, 9), (2, 1), (2, 9)} <= shapes


def test_boxes_whose_number_depends_on_data(tmp_path: Path) -> None:
    """Non-maximum suppression: rounding may change how many there are, which is no fault."""
    graph = """g (float[N,30,4] boxes, float[N,2,30] scores) => (int64[K,3] chosen)
      <int64[1] most = {20}, float[1] overlap = {0.5}, float[1] least = {0.1}>
      { chosen = NonMaxSuppression(boxes, scores, most, overlap, least) }"""
    result = found(write_onnx(tmp_path / "m.onnx", graph), quick=True)
    assert result.failures == ()
    assert {row["verdict"] for case in result.document["cases"] for row in case["outputs"]} <= {
        "consistent",
        "undecided",
    }
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
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    result = found(path, quick=True)
    assert {case["label"]: case["verdict"] for case in result.document["cases"]} == {
        "N=1": "consistent",
        "N=2": "consistent",
        "N=3": "unverified",
        "N=16": "consistent",
    }
    held(*result.unproven)


@pytest.mark.parametrize("quick", [True, False])
def test_an_output_that_only_the_model_has_is_named(tmp_path: Path, *, quick: bool) -> None:
    model = write_onnx(
        tmp_path / "m.onnx", "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = Relu(x) z = Neg(x) }"
    )
    target = write_onnx(tmp_path / "t.onnx", "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    with pytest.raises(UsageProblem, match="The reference has an output z, the target does not"):
        found(target, model=model, quick=quick)


def test_integers_that_are_wrong_are_shown_by_how_many_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, target = (
        write_onnx(
            tmp_path / f"{name}.onnx",
            f"g (int64[N,4] x) => (int64[N,4] y) {{ o = Constant<value = int64 {{{value}}}>() y = Add(x, o) }}",
        )
        for name, value in (("m", 1), ("t", 2))
    )
    done = found(target, model=model, quick=True)
    print_parts(show(done.document, tmp_path / "run"))
    said = capsys.readouterr().out
    assert "changed" in said
    assert "0.00e+00" not in said
    assert [row["share"] for row in worst_differences(done.document)] == [np.inf]


def test_sizes_that_the_model_refuses_are_named_once_and_are_not_proven(tmp_path: Path) -> None:
    """A split of the batch by the sizes of the export, as YOLO26 has it (ultralytics#25753)."""
    split = """g (float[N,3] x) => (float[N,3] y) {
        r = Relu(x) a, b = Split<axis = 0>(r, sizes) c = Neg(b) y = Concat<axis = 0>(a, c) }"""
    result = found(write_onnx(tmp_path / "m.onnx", split, {"sizes": [2, 2]}), ranges={"N": Range(1, 2, 6)})
    assert [case["values"]["N"] for case in result.document["cases"] if case["refused"]] == [1, 2, 3, 5, 6]
    (said,) = result.unproven
    assert "free dimension N at 1 to 3, 5, 6 (5 of 6 shapes)" in said
    held(said)
    with refused(CheckFailed):
        require_right(result.document, tmp_path)
    assert answer(result.document).verdict == "not proven"


def test_of_two_free_dimensions_the_refused_one_is_named(tmp_path: Path) -> None:
    text = "g (float[N,T] x) => (float[N,T] y) { r = Reshape(x, shape) q = Neg(r) s = Shape(x) y = Reshape(q, s) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"shape": [-1, 2, 2]})
    result = found(path, quick=True, ranges={"N": Range(1, 2, 3), "T": Range(4, 8, 9)})
    assert result.document["cases_tried"] == 5
    assert [case["label"] for case in result.document["cases"] if case["refused"]] == ["N=1 T=9", "N=2 T=9"]
    assert "free dimension T at 9 (2 of 7 shapes)" in result.unproven[0]


POOLS = """g (float[N,2,H,16] x) => (float[N,2,a,b] y) {
    p = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(x) q = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(p)
    y = Relu(q) }"""


@pytest.mark.parametrize("backend", ["ort-cpu", "faulty"])
def test_a_shape_that_leaves_an_inner_tensor_empty_is_none_of_the_models(backend: str, tmp_path: Path) -> None:
    """ONNX Runtime answers there against its own formulas (onnxruntime#25234), and runtimes differ."""
    path = write_onnx(tmp_path / "m.onnx", POOLS)
    options = {"fault": "only batch 2 and height 6"} if backend == "faulty" else {}
    folder = tmp_path / "run"
    folder.mkdir()
    ranges = {"N": Range(1, 2, 2), "H": Range(6, 8, 16)}
    result = verify(VerifyRequest(path, backend=backend, quick=True, ranges=ranges, options=options), folder)
    rows = {case["values"]["H"]: case for case in result.document["cases"]}
    assert (rows[6]["outside"], rows[6]["verdict"], rows[8]["outside"]) == (True, "unverified", False)
    held(rows[6]["reason"])
    assert (result.failures, result.unproven) == ((), ())
    assert result.document["cases_tried"] == 4
    assert answer(result.document).verdict == ("nothing to compare" if backend == "ort-cpu" else "right")


@pytest.mark.parametrize(
    ("text", "weights", "height", "empty"),
    [
        (POOLS, {}, 7, set()),
        (POOLS, {}, 6, {"q"}),
        (POOLS, {}, 2, {"p", "q", "y"}),
        ("Conv(x, w)", {"w": (1, 1, 3, 3)}, 2, {"y"}),
        ("Conv<pads = [1,1,1,1]>(x, w)", {"w": (1, 1, 3, 3)}, 1, set()),
        ("Conv<dilations = [3,1]>(x, w)", {"w": (1, 1, 3, 3)}, 6, {"y"}),
        ('Conv<auto_pad = "SAME_UPPER">(x, w)', {"w": (1, 1, 3, 3)}, 1, set()),
        ("Slice(x, from, to, on)", {"from": [4], "to": [99], "on": [2]}, 4, {"y"}),
    ],
)  # fmt: skip
def test_tensors_without_elements(text: str, weights: dict[str, Any], height: int, empty: set[str]) -> None:
    arrays = {
        key: np.zeros(one, np.float32) if isinstance(one, tuple) else np.array(one) for key, one in weights.items()
    }
    graph = text if text == POOLS else f"g (float[N,1,H,9] x) => (float[N,1,a,b] y) {{ y = {text} }}"
    model = parse_onnx(graph, arrays)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    assert empty_tensors(model, {"x": (1, shape[1], height, shape[3])}) == empty


SEQUENCES = [
    "s = SplitToSequence<axis = 1>(x, two) a = SequenceAt(s, one) b = Exp(a) y = Concat<axis = 1>(b, a)",
    "r = Relu(x) s = SequenceConstruct(x, r) t = SequenceErase(s) e = ConcatFromSequence<axis = 1>(t) y = Exp(e)",
    "e = Exp(x) o = Optional(e) a = OptionalGetElement(o) y = Exp(a)",
]


@pytest.mark.long(but=1)
@pytest.mark.parametrize("fault", ["none", "rows after the first"])
@pytest.mark.parametrize("nodes", SEQUENCES)
def test_noise_is_not_added_to_sequences(nodes: str, fault: str, tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", f"g (float[N,4] x) => (float[N,4] y) {{ {nodes} }}", {"two": 2, "one": 1})
    folder = tmp_path / "run"
    folder.mkdir()
    request = VerifyRequest(path, backend="faulty", quick=True, options={"fault": fault})
    assert verify(request, folder).document["verdict"] == ("right" if fault == "none" else "wrong")


def test_what_a_backend_does_not_support_is_not_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch has no Resize with antialias, which is found while the model runs."""
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    folder = tmp_path / "run"
    folder.mkdir()
    request = VerifyRequest(path, backend="faulty", ranges={"N": Range(1, 2, 2)})

    def infer(session: FaultySession, inputs: dict[str, Any]) -> Any:
        if len(inputs["x"]) == 2:
            raise Unsupported("Resize with antialias is not supported.")
        return session._inner.run(inputs)

    monkeypatch.setattr(FaultySession, "_infer", infer)
    result = verify(request, folder)
    assert (result.failures, result.unproven) == ((), ("N=2: Resize with antialias is not supported.",))
    assert answer(result.document).verdict == "not proven"


@pytest.mark.parametrize(
    ("size", "scale", "said"),
    [
        (10, 2.3, ["floor(10 * 2.3) of up is 22 in doubles, 23 in fp32"]),
        (10, 2.5, []),
        (8, 2.0, []),
        (10, 0.7, ["floor(10 * 0.7) of up is 6 in doubles, 7 in fp32"]),
    ],
)
def test_a_size_that_a_rounding_decides(size: int, scale: float, said: list[str], tmp_path: Path) -> None:
    text = f"g (float[N,1,{size},4] x) => (float[N,1,a,4] y) {{ [up] y = Resize(x, , scales) }}"
    weights = {"scales": np.array([1, 1, scale, 1], np.float32)}
    model = parse_onnx(text, weights)
    assert rounded_sizes(model, {"x": (1, 1, size, 4)}) == said
    if not said:
        return
    folder = tmp_path / "run"
    folder.mkdir()
    request = VerifyRequest(
        write_onnx(tmp_path / "m.onnx", text, weights), backend="faulty", quick=True, options={"fault": "one row less"}
    )
    assert said[0] in verify(request, folder).failures[0]
