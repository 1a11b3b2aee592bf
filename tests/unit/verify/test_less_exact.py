"""A runtime that is less exact from some size on is called that: no row, no earlier call and no scale is blamed."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.onnx_text import write_onnx

from trt_workbench.verify.diagnosis import diagnose
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range
from trt_workbench.verify.yardstick import Limit, limit

pytestmark = pytest.mark.usefixtures("known_limits")

NODES = """g (int64[N,T] ids) => (float[N,T,16] y) {
  x = Gather(table, ids) a = MatMul(x, w1) r = Relu(a) b = MatMul(r, w2) c = Add(x, b) d = MatMul(c, w1) e = Tanh(d)
  f = MatMul(e, w2) y = Add(c, f)
}"""


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """ids [N,T] to y [N,T,16]."""
    rng = np.random.default_rng(0)
    shapes = {"table": (50, 16), "w1": (16, 64), "w2": (64, 16)}
    weights = {name: (rng.standard_normal(shape) / 4).astype(np.float32) for name, shape in shapes.items()}
    return write_onnx(tmp_path / "tokens.onnx", NODES, weights)


def found(model: Path, folder: Path, fault: str, precision: str = "fp16") -> Verified:
    folder.mkdir()
    ranges = {"N": Range(1, 2, 3), "T": Range(1, 16, 64)}
    request = VerifyRequest(
        model, backend="faulty", precision=precision, options={"fault": fault}, ranges=ranges, seed=3
    )
    return verify(request, folder)


@pytest.mark.long
@pytest.mark.parametrize(("fault", "verdict"), [("less exact when long", None), ("far less exact when long", "wrong")])
def test_errors_that_cross_the_limit_here_and_there(
    fault: str, verdict: str | None, tokens: Path, tmp_path: Path
) -> None:
    result = found(tokens, tmp_path / "run", fault)
    assert verdict in (None, result.document["verdict"])
    sizes = sorted({case["values"]["T"] for case in result.document["cases"]})
    first = next(size for size in sizes if size > 16)
    (remark,) = result.document["remarks"]
    assert f"y: a less exact kernel from T={first} on: relative L2 0.0" in remark
    assert re.search(r"at most 0.000\d up to T=16; rounding to the precision alone gives 0.00", remark)
    for text in result.failures:
        assert not re.search("stale|mixed up|scaled|shifted|swapped|(is|are) wrong", text), text


@pytest.mark.long(but=1)
@pytest.mark.parametrize("fault", ["none", "scaled", "only batch 3"])
def test_other_engines_are_not_called_that(fault: str, tokens: Path, tmp_path: Path) -> None:
    document = found(tokens, tmp_path / "run", fault).document
    assert not any("less exact" in remark for remark in document["remarks"])
    for case in document["cases"] if fault == "none" else ():  # kinds of inputs that are equal count once
        assert [row["inputs"] for row in case["outputs"]] == ["random", "other random"]
        assert len({row["inputs_sha256"] for row in case["outputs"]}) == 2


rng = np.random.default_rng(1)
RIGHT = rng.standard_normal((4, 50)).astype(np.float32)
OTHER = rng.standard_normal((4, 50)).astype(np.float32)
NOISE = rng.standard_normal((4, 50)).astype(np.float32)
LIMIT = limit("fp16", [RIGHT + 1e-3 * OTHER], RIGHT, rows=True)  # allows 0.006
SHAPE = np.array([[0.0055], [0.0065], [0.0058], [0.0064]], np.float32)


@pytest.mark.parametrize(
    ("found", "earlier", "said"),
    [
        (RIGHT + SHAPE * NOISE, None, ""),
        (RIGHT + SHAPE * NOISE, RIGHT + SHAPE * NOISE, ""),
        (
            RIGHT + np.float32([[0.0005], [0.0065], [0.0005], [0.0064]]) * NOISE,
            None,
            "rows 1, 3 of 4 are wrong, the others right",
        ),
        (RIGHT[[0, 2, 1, 3]], None, "row 1 holds that of row 2"),
        (RIGHT + np.float32([[1], [1], [1], [2]]) * NOISE, None, ""),  # none is right
        (OTHER, OTHER, "stale"),
        (OTHER + 1e-3 * NOISE, OTHER, "stale"),
        (RIGHT * np.float32(1.008), None, "it is scaled by 1.008"),
        (np.roll(RIGHT, 1, axis=1), None, "shifted by one along dimension 1"),
    ],
)
def test_a_fault_is_named_where_it_explains_far_more_than_rounding(
    found: np.ndarray, earlier: np.ndarray | None, said: str
) -> None:
    """`earlier` is what the engine gave before, of the same reference where that is near the output."""
    wanted = RIGHT if earlier is not None and np.abs(earlier - RIGHT).max() < 0.1 else earlier
    before = {} if earlier is None else {"one before": (earlier, wanted)}
    text = diagnose(found, RIGHT, LIMIT, rows=True, earlier=before)
    assert said in text
    assert bool(said) is bool(text)


def test_rows_that_are_mixed_up_are_known_in_any_order_of_what_rounding_swaps() -> None:
    right = np.random.default_rng(0).standard_normal((4, 6, 5))
    found = np.stack([right[1, ::-1], right[0, ::-1], right[2], right[3]])
    text = diagnose(found, right, Limit("fp32", 1e-3, 1e-3, 0, 0, matched=True), rows=True)
    assert text.startswith("rows are mixed up: row 0 holds that of row 1, row 1 holds that of row 0")
