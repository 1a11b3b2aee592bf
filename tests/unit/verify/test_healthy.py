"""Healthy models are never called wrong: the record of 200 others is docs/benchmarks/verify/healthy.jsonl."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.healthy_models import WAYS, check
from tests.onnx_text import write_onnx

from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.settings import CalibrationSettings
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.run import verify

ROOT = Path(__file__).parents[3]


@pytest.mark.long(but=4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [1000, 1001])
def test_no_false_alarm(seed: int, way: str, tmp_path: Path) -> None:
    if way.startswith("torch"):
        pytest.importorskip("torch")
    found = check(seed, way, tmp_path)
    assert found.failures == ()
    assert found.document["cases_unverified"] == 0


def test_an_index_of_rows_that_depend_on_each_other_is_no_false_alarm(tmp_path: Path) -> None:
    """The places of the three largest, after a mean over the batch: in fp16 two change places with the other rows."""
    pytest.importorskip("torch")
    assert check(30016, "torch fp16", tmp_path).failures == ()


@pytest.mark.long
def test_a_step_that_only_a_row_alone_is_at_is_no_false_alarm(tmp_path: Path) -> None:
    """Rows depend on each other a little, and behind that is a cast: fp16 takes a step of a row that runs alone."""
    assert check(80032, "ort-cpu fp16", tmp_path).failures == ()


# Scores that fp16 does not hold: their softmax is NaN, which ONNX Runtime's ReduceMax and TopK pass over.
OVERFLOW = """g (float[N,8,8] x) => (float[N,8] m, int64[N,3] i, float[N,8,8] z) {
  s = Mul(x, big) p = Softmax<axis = -1>(s) q = MatMul(p, x) m = ReduceMax<axes = [1], keepdims = 0>(q)
  v, i = TopK<axis = -1>(m, three) z = Sin(x)
}"""


def overflow(backend: str, folder: Path, **more: Any) -> dict[str, set[str]]:
    """Return the verdicts by output."""
    constants = {"big": np.float32(5e4), "three": np.array([3])}
    path = write_onnx(folder / "m.onnx", OVERFLOW, constants)
    found = verify(VerifyRequest(target=path, backend=backend, precision="fp16", quick=True, **more), folder)
    rows = [row for case in found.document["cases"] for row in case["outputs"]]
    return {name: {row["verdict"] for row in rows if row["output"] == name} for name in ("m", "i", "z")}


def test_what_overflows_inside_is_undecided(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert overflow("torch", tmp_path) == {"m": {"undecided"}, "i": {"undecided"}, "z": {"right within fp16"}}


@pytest.mark.long
def test_a_nan_elsewhere_is_found_beside_an_overflow(tmp_path: Path) -> None:
    assert overflow("faulty", tmp_path, options={"fault": "one NaN"})["z"] == {"wrong"}


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("healthy", range(200, 400)),
        ("fresh", range(5000, 5100)),
        ("fresh-full", range(91000, 91120)),
    ],
)
def test_the_records_hold_every_model_in_every_way_without_a_false_alarm(name: str, seeds: range) -> None:
    lines = (ROOT / "docs" / "benchmarks" / "verify" / f"{name}.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert {(one["seed"], one["way"]) for one in records} == {(seed, way) for seed in seeds for way in WAYS}
    assert [one for one in records if one["verdict"] in ("wrong", "not run")] == []


WHOLE, HALVES = (
    "m = MatMul(x, w)",
    "x1, x2 = Split <axis=1> (x) m1 = MatMul(x1, w1) m2 = MatMul(x2, w2) m = Add(m1, m2)",
)
ROUND = tuple(one.replace("(x,", "(a,").replace("(x)", "(a)") for one in (WHOLE, HALVES))
GRAPHS = {
    "before a pole": "{0} y = Reciprocal(m)",
    "in a branch": "t = ReduceSum <keepdims=0> (x) c = Greater(t, zero) y = If(c) <then_branch = g1 () "
    "=> (float[N,16] p) {{ {0} r = Tanh(m) s = Reciprocal(r) p = Neg(s) }}, else_branch = g2 () => (float[N,16] q) "
    "{{ {0} r = Sin(m) q = Reciprocal(r) }}>",
    "in a loop": "y = Loop(four, yes, x) <body = b (int64 i, bool c, float[N,16] a) => (bool d, float[N,16] e) "
    "{{ d = Identity(c) {1} e = Tanh(m) }}>",
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("graph", GRAPHS)
def test_another_order_of_summation_is_right(graph: str, seed: int, tmp_path: Path) -> None:
    """Of terms that cancel, and within the subgraphs of If and Loop."""
    weights = np.random.default_rng(seed).normal(0, 0.4, (16, 16)).astype(np.float32)
    constants = {"zero": np.float32(0), "four": np.int64(4), "yes": np.bool_(True)}
    paths = []
    for place, own in enumerate(({"w": weights}, {"w1": weights[:8], "w2": weights[8:]})):
        nodes = GRAPHS[graph].format((WHOLE, HALVES)[place], ROUND[place])
        text = f"g (float[N,16] x) => (float[N,16] y) {{ {nodes} }}"
        paths.append(write_onnx(tmp_path / f"{place}.onnx", text, own | constants))
    request = VerifyRequest(target=paths[1], model=paths[0], backend="ort-cpu", quick=True, seed=seed)
    found = verify(request, tmp_path)
    assert found.failures == ()
    assert found.document["verdict"] == "right"


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_wrong_weight_is_found_there_all_the_same(graph: str, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(0, 0.4, (16, 16)).astype(np.float32)
    constants = {"zero": np.float32(0), "four": np.int64(4), "yes": np.bool_(True)}
    text = f"g (float[N,16] x) => (float[N,16] y) {{ {GRAPHS[graph].format(WHOLE, ROUND[0])} }}"
    right = write_onnx(tmp_path / "right.onnx", text, {"w": weights, **constants})
    weights[3, 5] *= 1.01
    wrong = write_onnx(tmp_path / "wrong.onnx", text, {"w": weights, **constants})
    found = verify(VerifyRequest(target=wrong, model=right, backend="ort-cpu", quick=True), tmp_path)
    assert found.document["verdict"] == "wrong"


def candidate_and_its_verdicts(tmp_path: Path, fault: str = "") -> tuple[str, str]:
    """Return the verdicts on an int8 candidate calibrated on values from 0 to 1: on random inputs, and on its data."""
    generator = np.random.default_rng(0)
    weights = {name: generator.standard_normal((16, 16)).astype(np.float32) for name in ("a", "b", "c")}
    nodes = "p = MatMul(x, a) q = Tanh(p) r = MatMul(q, b) s = Tanh(r) "
    text = f"g (float[N,16] x) => (float[N,16] y) {{ {nodes} y = MatMul(s, c) }}"
    model = write_onnx(tmp_path / "m.onnx", text, weights)
    if fault == "weight":
        weights["b"] = generator.standard_normal((16, 16)).astype(np.float32)
    if fault == "rows":
        text = text.replace("y = MatMul(s, c)", "u = MatMul(s, c) y = Slice(u, start, end, axis, step)")
        backwards = {"start": -1, "end": -(2**31), "axis": 0, "step": -1}
        weights |= {name: np.array([value], np.int64) for name, value in backwards.items()}
    other = write_onnx(tmp_path / "other.onnx", text, weights)
    data = tmp_path / "a.npy"
    np.save(data, generator.random((64, 16), np.float32))
    settings = CalibrationSettings(calibration=str(data))
    made = make_candidate(Model.open(other), "int8", tmp_path / "i.onnx", calibration=settings)
    found = []
    for name, inputs in (("random", ()), ("data", (str(data),))):
        request = VerifyRequest(target=made.path, model=model, backend="ort-cpu", quick=True, inputs=inputs)
        (tmp_path / name).mkdir()
        found.append(verify(request, tmp_path / name).document["verdict"])
    return found[0], found[1]


def test_a_candidate_is_not_wrong_where_random_inputs_leave_its_ranges(tmp_path: Path) -> None:
    """It clips what normal noise reaches; on its own data it is right."""
    assert candidate_and_its_verdicts(tmp_path) == ("undecided", "right within int8")


def test_a_wrong_candidate_is_found_all_the_same(tmp_path: Path) -> None:
    """Rows in another order by comparing calls, whatever the inputs are; a wrong weight on the data of its ranges."""
    for fault, on_random in (("rows", "wrong"), ("weight", "undecided")):
        (tmp_path / fault).mkdir()
        assert candidate_and_its_verdicts(tmp_path / fault, fault) == (on_random, "wrong")
