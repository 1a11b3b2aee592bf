"""Limits follow what a precision and its functions may make of a model."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.verify.roundoff import INF, UNIT

from trt_workbench.backends.base import Session
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import get
from trt_workbench.model.opened import Model
from trt_workbench.model.precision import rounding_of
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings
from trt_workbench.verify import yardstick as yardsticks
from trt_workbench.verify.yardstick import Limit, Yardstick, typed_for

Open = Callable[..., Yardstick]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Make the yardstick of a model that is one operator after the other, x [N,K] to y [N,K]."""
    with contextlib.ExitStack() as stack:

        def make(*operators: str) -> Yardstick:
            names = ["x", *(f"t{number}" for number in range(1, len(operators))), "y"]
            nodes = " ".join(
                f"{after} = {operator}({before}{', step' if 'Linear' in operator else ''})"
                for operator, before, after in zip(operators, names, names[1:], strict=False)
            )
            graph = f"g (float[N,K] x) => (float[N,K] y) <float step = {{10}}> {{ {nodes} }}"
            model = write_onnx(tmp_path / "m.onnx", graph)
            yardstick = Yardstick(Model.open(model), tmp_path, seed=7)
            stack.callback(yardstick.close)
            return yardstick

        yield make


def limit_of(yardstick: Yardstick, precision: str, x: Any, y: Any = None, **how: Any) -> Limit:
    x = np.array(x, np.float32)
    return yardstick.limits(precision, {"x": x}, {"y": x if y is None else y}, {"y": True}, **how)["y"]


@pytest.mark.parametrize(
    ("function", "units", "allowed"),
    [
        # the largest error that TensorRT 8.6 was measured to make (tasks/benchmarks/verify/functions.py)
        ("Tanh", 130, True),
        ("Selu", 110, True),
        ("Sin", 28, True),
        ("Sigmoid", 16, True),
        # and far more than that, which is no approximation
        ("Tanh", 2000, False),
        ("Selu", 10000, False),
        ("Sin", 130, False),
        ("Sigmoid", 130, False),
    ],
)
def test_approximated_functions_may_be_as_inexact_as_measured(
    opened: Open, tmp_path: Path, function: str, units: int, allowed: bool
) -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(-4, 4, (3, 256)).astype(np.float32)
    yardstick = opened(function)
    with OrtCpuBackend().load(tmp_path / "m.onnx") as session:
        clean = session.run({"x": x})["y"]
    found = limit_of(yardstick, "fp32", x, clean, closely=True)
    error = units * UNIT * np.abs(clean).max() * generator.uniform(-1, 1, clean.shape)
    assert found.allows(found.apart((clean + error).astype(np.float32), clean, rows=True)) is allowed, found


@pytest.mark.parametrize(
    ("low", "high", "log_decides"), [(-4.0, 4.0, True), (-14.0, -12.0, True), (-30.0, -20.0, False)]
)
def test_a_logistic_function_has_an_error_whatever_its_value(
    opened: Open, tmp_path: Path, low: float, high: float, log_decides: bool
) -> None:
    """ONNX Runtime's is 0 from -18 on, and its logarithm infinite; an exact one is not wrong beside it."""
    x = np.random.default_rng(0).uniform(low, high, (3, 256)).astype(np.float32)
    exact = -np.logaddexp(0, -x.astype(np.float64))
    for operators, y, decides in (
        (("Sigmoid",), np.exp(exact), True),
        (("Sigmoid", "Log"), exact, log_decides),
    ):
        yardstick = opened(*operators)
        with OrtCpuBackend().load(tmp_path / "m.onnx") as session:
            clean = session.run({"x": x})["y"]
        found = limit_of(yardstick, "fp32", x, clean, closely=True)
        assert found.decides is decides, operators
        assert found.allows(found.apart(y.astype(np.float32), clean, rows=True)) or not decides
        scaled = found.apart(clean * np.float32(1.2), clean, rows=True)
        assert not found.allows(scaled) or not decides or not clean.any()


@pytest.mark.parametrize(
    ("precision", "most"),
    # int8 has an error of its own in the inputs, which a root halves
    [
        *(("fp32", 2**-20), ("tf32", 2**-9), ("fp16", 2**-9), ("bf16", 2**-6), ("fp8", 2**-4), ("fp8-e5m2", 2**-3)),
        *(("int8", 1.25**0.5 * 2**-7), ("int4", 1.25**0.5 * 2**-4), ("int16", 1.25**0.5 * 2**-15), ("mxfp8", 2**-4)),
    ],
)
def test_a_copy_is_disturbed_by_some_units_of_roundoff(opened: Open, precision: str, most: float) -> None:
    found = limit_of(opened("Sqrt"), precision, np.ones((1, 100_000)))
    assert found.noise == pytest.approx(most / 3**0.5, rel=0.05)
    assert found.decides is (most < 2**-3)


def test_a_model_of_older_operators_has_a_yardstick_in_bf16(opened: Open, tmp_path: Path) -> None:
    opened("Sqrt")
    model = onnx.load(tmp_path / "m.onnx")
    model.opset_import[0].version = 11
    onnx.save(model, tmp_path / "old.onnx")
    with contextlib.closing(Yardstick(Model.open(tmp_path / "old.onnx"), tmp_path, seed=7)) as yardstick:
        found = limit_of(yardstick, "bf16", np.ones((1, 100_000)))
    assert found.noise == pytest.approx(2**-6 / 3**0.5, rel=0.05)


@pytest.mark.long(but=4)
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16", "int8", "fp8"])
@pytest.mark.parametrize("opset", [7, 8, 9, 13, 21, 22, 23])
def test_models_of_every_operator_set_have_a_yardstick(opset: int, precision: str, tmp_path: Path) -> None:
    """Sign came with 9, and of 22 ONNX Runtime has no RandomUniformLike."""
    weights = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    text = "g (float[N,4] x) => (float[N,4] y) { t = Transpose<perm = [0, 1]>(x) m = MatMul(t, w) y = Tanh(m) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": weights}, opset)
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    with contextlib.closing(Yardstick(Model.open(path), tmp_path, seed=7)) as yardstick:
        found = limit_of(yardstick, precision, x, np.tanh(x @ weights), closely=True)
    unit = get(precision).unit
    assert unit < found.noise < 200 * unit
    assert found.decides or unit > 2**-5


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
def test_a_loop_is_disturbed_and_its_counter_is_not(tmp_path: Path, precision: str) -> None:
    """One more round would be another result."""
    body = "(int64 i, bool c, float k, float[N,3] a) => (bool d, float l, float[N,3] b)"
    loop = f"Loop(most, yes, zero, x) <body = g2 {body} {{ l = Add(k, one) d = Less(l, ten) e = Exp(a) b = Log(e) }}>"
    graph = f"g (float[N,3] x) => (float[N,3] y, float n) {{ n, y = {loop} }}"
    constants = {
        "most": np.int64(99),
        "yes": np.bool_(True),
        "zero": np.float32(0),
        "one": np.float32(1),
        "ten": np.float32(10),
    }
    model, x = write_onnx(tmp_path / "m.onnx", graph, constants), {"x": np.ones((2, 3), np.float32)}
    with (
        OrtCpuBackend().load(model) as session,
        contextlib.closing(Yardstick(Model.open(model), tmp_path, seed=7)) as yardstick,
    ):
        found = yardstick.limits(precision, x, session.run(x), {"y": True, "n": False})
    assert found["n"].noise == 0
    assert 0 < found["y"].noise < 0.1


def test_what_fp16_cannot_hold_is_not_decided_by_it(opened: Open) -> None:
    yardstick, large = opened("Exp"), np.exp(np.float32([[12]]))  # 162,755
    decided = [limit_of(yardstick, precision, [[12]], large).decides for precision in ("tf32", "fp16", "bf16", "int8")]
    assert decided == [True, False, True, True]


def test_one_scale_for_a_tensor_costs_its_small_elements_unless_the_model_has_scales(opened: Open) -> None:
    x = np.float32([[1000] + [100] * 999])
    assert limit_of(opened("Identity"), "int8", x).noise > 0.03
    assert limit_of(opened("Identity"), "fp16", x).noise < 0.001
    quantized = np.minimum(x, 1270)
    assert limit_of(opened("QuantizeLinear", "DequantizeLinear"), "int8", x, quantized).noise < 0.01


@pytest.mark.parametrize("precision", ["int8", "fp8", "fp8-e5m2", "mxfp8", "nvfp4", "int4-weights"])
def test_a_quantised_model_has_limits_that_find_faults(precision: str, tmp_path: Path) -> None:
    """Its own nodes round in the copies: what is allowed is what a code next to the right one makes."""
    draw = np.random.default_rng(0)
    text = "g (float[N,64] x) => (float[N,32] y) { a = MatMul(x, v) r = Relu(a) b = MatMul(r, w) y = Tanh(b) }"
    sizes = {"v": (64, 64), "w": (64, 32)}
    weights = {name: draw.normal(0, 0.1, size).astype(np.float32) for name, size in sizes.items()}
    model = write_onnx(tmp_path / "m.onnx", text, weights)
    placement, random = PlacementSettings(keep_sensitive=False), CalibrationSettings(calibration="random", samples=8)
    made = make_candidate(
        Model.open(model), precision, tmp_path / "q.onnx", calibration=random, placement=placement
    ).path
    x = {"x": draw.normal(size=(16, 64)).astype(np.float32)}
    asked = rounding_of({}, "fp32" if precision == "int4-weights" else f"{precision}+fp16")
    with contextlib.closing(Yardstick(Model.open(made), tmp_path, seed=7)) as yardstick:
        exact = yardstick.exact(x)
        found = yardstick.limits(asked, x, exact, {"y": True}, closely=True)["y"]
    right = exact["y"]
    assert found.decides
    assert not found.left_out
    assert found.allows(found.apart(right.astype(np.float16).astype(np.float32), right, rows=True)) or "4" in precision
    for wrong in (np.roll(right, 1, 0), right * np.float32(1.3), np.where(right > 0.1, 0, right)):
        assert not found.allows(found.apart(wrong.astype(np.float32), right, rows=True))


MASKED = (-1e4, -1e9, float(np.finfo(np.float32).min), -INF)
ADDED, CHOSEN, SCALED = "b = Add(s, m)", "k = Equal(m, zero) b = Where(k, s, m)", "w = Mul(n, least) b = Add(s, w)"


@pytest.mark.parametrize(
    ("join", "masked"),
    [*((join, masked) for join in (ADDED, CHOSEN) for masked in MASKED), *((SCALED, masked) for masked in MASKED[:-1])],
)
def test_a_mask_takes_no_part_in_the_scale_of_the_scores(join: str, masked: float, tmp_path: Path) -> None:
    """No one chooses a scale of integers for what stands for infinity; with it, padding would decide nothing."""
    graph = f"""g (float[N,8,4] x, float[N,1,8] mask) => (float[N,8,4] y) {{
      t = Transpose<perm = [0, 2, 1]>(x) s = MatMul(x, t) n = Sub(one, mask) c = Cast<to = 9>(n)
      m = Where(c, least, zero) {join} p = Softmax<axis = -1>(b) y = MatMul(p, x) }}"""
    constants = {"one": np.float32(1), "zero": np.float32(0), "least": np.float32(masked)}
    path = write_onnx(tmp_path / "m.onnx", graph, constants)
    generator = np.random.default_rng(0)
    inputs = {"x": generator.standard_normal((2, 8, 4)).astype(np.float32), "mask": np.ones((2, 1, 8), np.float32)}
    inputs["mask"][1, 0, 5:] = 0
    with contextlib.closing(Yardstick(Model.open(path), tmp_path, seed=7)) as yardstick:
        limit = yardstick.limits("int8", inputs, yardstick.exact(inputs), {"y": True})["y"]
    assert 0.002 < limit.noise < 0.1
    assert not limit.left_out


def test_large_values_elsewhere_are_no_mask(tmp_path: Path) -> None:
    x = np.float32([[20000] + [1] * 99])
    path = write_onnx(tmp_path / "m.onnx", "g (float[N,K] x) => (float[N,K] y) { y = Identity(x) }")
    with contextlib.closing(Yardstick(Model.open(path), tmp_path, seed=7)) as yardstick:
        noisy = [session.run({"x": x})["y"] for session in yardstick.copies("int8")]
    assert all(np.abs(one[0, 1:] - 1).max() > 10 for one in noisy)


def test_before_an_output_is_called_wrong_the_copies_and_weaker_ones_run_again_and_again(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Path] = []
    sessions: list[Session] = []
    load = OrtCpuBackend.load

    def counted(self: OrtCpuBackend, model: Path, *more: Any) -> Session:
        session = load(self, model, *more)
        run = session.run
        monkeypatch.setattr(session, "run", lambda inputs: (runs.append(model), run(inputs))[1])
        sessions.append(session)
        return session

    monkeypatch.setattr(OrtCpuBackend, "load", counted)
    yardstick = opened("Sqrt")
    yardstick.prepare("fp32")
    prepared = len(sessions)
    limit_of(yardstick, "fp32", [[1]])
    assert len(runs) == len(set(runs)) == prepared == len(sessions) > 1
    runs.clear()
    limit_of(yardstick, "fp32", [[1]], closely=True)
    assert len(set(runs)) == 2 * prepared
    assert len(runs) >= 10 * len(set(runs))
    strong, weak = (
        max(1 - float(one.run({"x": np.ones((1, 5000), np.float32)})["y"].min()) for one in several)
        for several in (sessions[:prepared], sessions[prepared:])
    )
    assert (strong, weak) == (pytest.approx(16 * UNIT, rel=0.07), UNIT)
    yardstick.close()
    for session in sessions:
        with refused(UsageProblem):
            session.run({"x": np.ones((1, 1), np.float32)})
    assert limit_of(yardstick, "fp32", [[1]]).decides


def test_inputs_are_given_in_the_types_of_the_session() -> None:
    wanted: Any = SimpleNamespace(
        inputs=[SimpleNamespace(name=name, dtype=dtype) for name, dtype in (("ids", np.int32), ("x", np.float32))]
    )
    inputs = {"ids": np.arange(3), "x": np.ones(2, np.float32), "other": np.ones(1)}
    typed = typed_for(wanted, inputs)
    assert {name: array.dtype for name, array in typed.items()} == {"ids": np.int32, "x": np.float32}
    assert typed["x"] is inputs["x"]


LAYERS = (
    "g (float[N,128,128] x) => (float[N,128,128] y) { a = MatMul(x, v) b = Add(a, d) c = Relu(b) y = MatMul(c, w) }"
)


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    drawn = np.random.default_rng(0).standard_normal((3, 128, 128), np.float32)
    # a constant that is added may be a mask, so that its values are looked at
    return write_onnx(tmp_path / "m.onnx", LAYERS, {"v": drawn[0], "w": drawn[1], "d": drawn[2]})


def test_the_copies_share_one_file_of_weights(layers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was a whole model, made of one that was whole in memory."""
    x = np.random.default_rng(1).standard_normal((2, 128, 128), np.float32)
    with OrtCpuBackend().load(layers) as session:
        expected = dict(session.run({"x": x}))
    monkeypatch.setattr(Model, "load", lambda _: pytest.fail("all weights were loaded"))
    folder = tmp_path / "copies"
    folder.mkdir()
    with contextlib.closing(Yardstick(Model.open(layers), folder, seed=7)) as yardstick:
        found = yardstick.limits("fp32", {"x": x}, expected, {"y": True}, closely=True)["y"]
    assert 0 < found.noise < 1e-5
    copies = list(folder.glob("*.onnx"))
    assert len(copies) == 4
    assert max(path.stat().st_size for path in copies) < 128 * 128 * 4
    assert [path.name for path in folder.iterdir() if path.stat().st_size >= 2 * 128 * 128 * 4] == ["weights.data"]


def test_of_a_large_model_one_copy_is_open_at_a_time(
    layers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_open, most = 0, list[int]()
    load = yardsticks.load_reference

    def counted(path: Path) -> Session:
        nonlocal is_open
        session = load(path)
        is_open += 1
        most.append(is_open)
        close = session.close

        def closed() -> None:
            nonlocal is_open
            is_open -= 1
            close()

        monkeypatch.setattr(session, "close", closed)
        return session

    monkeypatch.setattr(yardsticks, "load_reference", counted)
    monkeypatch.setattr(yardsticks, "LARGE_BYTES", 2 * 128 * 128 * 4)
    x = {"x": np.random.default_rng(1).standard_normal((2, 128, 128), np.float32)}
    with OrtCpuBackend().load(layers) as session:
        expected = dict(session.run(x))
    with contextlib.closing(Yardstick(Model.open(layers), tmp_path, seed=7)) as yardstick:
        first, second = (yardstick.limits("fp32", x, expected, {"y": True}) for _ in range(2))
    assert first == second  # disturbed as at first
    assert (most, is_open) == ([1, 1, 1, 1], 0)
