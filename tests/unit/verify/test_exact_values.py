"""What every runtime computes exactly is not disturbed: masks, counts and powers of two."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from tests.onnx_text import write_onnx

from trt_workbench.model.opened import Model
from trt_workbench.verify.yardstick import Limit, Yardstick

LOWEST = float(np.finfo(np.float32).min)
LENGTH = 9
SPREAD = "flat = Cast<to = 1>(mask) wide = Unsqueeze(flat, middle) n = Sub(unit, wide) bias = Mul(n, much) "
# By kind of mask: nodes that make `masked` [N,1,T,T] of `scores`, `mask` [N,T] and the number `much`.
MASKS = {
    "padding": SPREAD + "masked = Add(scores, bias)",
    "padding the other way": "f = Cast<to = 1>(mask) w = Unsqueeze(f, middle) n = Sub(w, unit) o = Neg(n) "
    "bias = Mul(much, o) masked = Add(bias, scores)",
    "booleans": "b = Cast<to = 9>(mask) n = Not(b) f = Cast<to = 1>(n) w = Unsqueeze(f, middle) bias = Mul(w, much) "
    "masked = Add(scores, bias)",
    "subtracted": "b = Equal(mask, none) f = Cast<to = 1>(b) w = Unsqueeze(f, middle) bias = Mul(w, much) "
    "o = Neg(bias) masked = Sub(scores, o)",
    "where": "b = Equal(mask, none) w = Unsqueeze(b, middle) masked = Where(w, much, scores)",
    "of pairs": "f = Cast<to = 1>(mask) down = Unsqueeze(f, two) across = Unsqueeze(f, one) p1 = MatMul(down, across) "
    "heads = Unsqueeze(p1, one) d = Mul(heads, diagonal) e = Max(d, eye) n = Sub(unit, e) bias = Mul(n, much) "
    "masked = Add(scores, bias)",
    "divided": SPREAD + "h = Div(n, half) b2 = Mul(h, much) b3 = Mul(b2, half) masked = Add(scores, b3)",
    "twice": SPREAD + "once = Add(scores, bias) masked = Add(once, bias)",
    "doubled": SPREAD + "bias2 = Add(bias, bias) masked = Add(scores, bias2)",
    "causal and padding": SPREAD + "both = Add(bias, triangle) most = Max(both, much) masked = Add(scores, most)",
    "causal": "unread = Identity(mask) masked = Add(scores, triangle)",
    "distances": SPREAD + "far = CumSum(mask, last) f = Cast<to = 1>(far) w = Unsqueeze(f, middle) "
    "slope = Mul(w, slopes) s = Add(scores, slope) masked = Add(s, bias)",
}
NODES = """g (int64[N,9] ids, int64[N,9] mask) => (float[N,9,7] y) {{
  x = Gather(table, ids) q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
  q4 = Unsqueeze(q, one) k4 = Unsqueeze(k, one) v4 = Unsqueeze(v, one) kt = Transpose<perm = [0, 1, 3, 2]>(k4)
  products = MatMul(q4, kt) scores = Mul(products, scale) {} p = Softmax<axis = -1>(masked) seen = MatMul(p, v4)
  o3 = Squeeze(seen, one) r = Add(x, o3) y = MatMul(r, wo)
}}"""
_rng = np.random.default_rng(3)
_shapes = {"table": (31, 12), "wq": (12, 12), "wk": (12, 12), "wv": (12, 12), "wo": (12, 7)}
CONSTANTS: dict[str, Any] = {
    **{name: (_rng.standard_normal(shape) / 2).astype(np.float32) for name, shape in _shapes.items()},
    **{"scale": np.float32(12**-0.5), "unit": np.float32(1), "half": np.float32(0.5), "slopes": np.float32(-0.3)},
    **{"one": np.array([1]), "two": np.array([2]), "middle": np.array([1, 2]), "none": np.int64(0)},
    **{"last": np.int64(1), "eye": np.eye(LENGTH, dtype=np.float32), "diagonal": np.float32(1)},
}
LEFT = np.array([[0, 0, 0, 1, 1, 1, 1, 1, 1], [1] * 9])
RIGHT = np.array([[1] * 9, [1, 1, 1, 1, 1, 1, 0, 0, 0]])


def limit_of(
    folder: Path, kind: str, much: float, mask: NDArray[Any], precision: str = "fp32", **how: Any
) -> tuple[Limit, NDArray[Any], NDArray[Any]]:
    """Return the limit, what ONNX Runtime gives, and what numpy gives in fp32."""
    with np.errstate(over="ignore"):
        triangle = np.triu(np.full((LENGTH, LENGTH), much, np.float32), 1)
    constants = {**CONSTANTS, "much": np.float32(much), "triangle": triangle}
    path = write_onnx(folder / "m.onnx", NODES.format(MASKS[kind]), constants)
    inputs = {"ids": np.random.default_rng(5).integers(0, 31, mask.shape), "mask": mask}
    yardstick = Yardstick(Model.open(path), folder, seed=1)
    try:
        right = yardstick.exact(inputs)
        with np.errstate(over="ignore"):
            other = ReferenceEvaluator(onnx.load(path)).run(None, inputs)[0]
        return yardstick.limits(precision, inputs, right, {"y": True}, **how)["y"], right["y"], other
    finally:
        yardstick.close()


PLAIN = 6e-6  # of this attention without a mask it is 4.3e-06


@pytest.mark.long(but=4)
@pytest.mark.parametrize(
    ("kind", "much"),
    [
        *((kind, LOWEST) for kind in MASKS),
        *(("padding", much) for much in (-0.7, -1e4, -65504.0)),
        *((kind, -np.inf) for kind in ("where", "causal")),
    ],
)
def test_a_mask_does_not_widen_the_limit(kind: str, much: float, tmp_path: Path) -> None:
    mask = LEFT if kind not in ("causal and padding", "twice") else RIGHT
    limit, right, other = limit_of(tmp_path, kind, much, mask, closely=True)
    assert limit.decides
    assert limit.rel_l2 < PLAIN
    assert limit.allows(limit.apart(other, right, rows=True))
    one = right.copy()
    one[1, 4, 3] += 1e-3 * np.abs(right).max()
    for wrong in (right * np.float32(1.001), right.astype(np.float16).astype(np.float32), one):
        assert not limit.allows(limit.apart(wrong, right, rows=True))


@pytest.mark.parametrize("much", [-1e4, -1e9, LOWEST])
@pytest.mark.parametrize("kind", ["causal and padding", "padding"])
def test_queries_that_see_nothing_have_the_limit_of_what_they_compute(kind: str, much: float, tmp_path: Path) -> None:
    """Of -1e4, fp32 leaves steps of 0.001 to their scores; -1e9 leaves nothing of them, alike in every runtime."""
    mask = LEFT if kind != "padding" else np.array([[0] * 9, [1] * 9])
    limit, right, other = limit_of(tmp_path, kind, much, mask, closely=True)
    assert limit.decides
    assert limit.rel_l2 < (2e-2 if much == -1e4 else PLAIN)
    assert limit.allows(limit.apart(other, right, rows=True))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("much", [-1e4, -65504.0])
def test_masks_in_a_format_of_few_bits(precision: str, much: float, tmp_path: Path) -> None:
    limit, *_ = limit_of(tmp_path, "padding", much, RIGHT, precision)
    without, *_ = limit_of(tmp_path, "padding", 0.0, RIGHT, precision)
    assert limit.rel_l2 < 1.5 * without.rel_l2


@pytest.mark.parametrize(
    ("nodes", "exact"),
    [
        ("c = Cast<to = 1>(i) y = Mul(c, half)", True),
        ("c = Cast<to = 1>(i) y = Mul(c, third)", False),
        ("c = Cast<to = 1>(i) s = ReduceSum<keepdims = 1>(c) y = Mul(s, half)", True),
        ("c = Cast<to = 1>(i) q = Mul(c, c) y = Sub(q, c)", True),
        ("c = Cast<to = 1>(i) q = MatMul(c, ones) y = Div(q, half)", True),
        ("g = Greater(x, half) c = Cast<to = 1>(g) y = Sub(half, c)", True),
        ("j = Gather<axis = 1>(i, none) y = OneHot<axis = -1>(j, depth, ends)", True),
        ("y = Mul(x, half)", True),
        ("y = Mul(x, third)", False),
        ("a = ArgMax<axis = 1>(x) c = Cast<to = 1>(a) y = Div(c, half)", True),
        ("e = Exp(x) y = Mul(e, half)", False),
        ("s = Sub(x, third) y = Mul(s, big)", False),
    ],
)
def test_what_is_exact(nodes: str, exact: bool, tmp_path: Path) -> None:
    constants = {
        **{"half": np.float32(0.5), "third": np.float32(1 / 3), "big": np.float32(1e6), "depth": np.int64(4)},
        **{"ones": np.ones((4, 4), np.float32), "ends": np.float32([0, 1]), "none": np.int64(0)},
    }
    path = write_onnx(tmp_path / "m.onnx", f"g (int64[N,4] i, float[N,4] x) => (float[A,B] y) {{ {nodes} }}", constants)
    inputs = {"i": np.array([[0, 1, 2, 3], [5, 7, 1, 0]]), "x": np.float32([[0.3, 1.7, -2.1, 0.9], [-1, 2, 0.1, 4]])}
    yardstick = Yardstick(Model.open(path), tmp_path, seed=1)
    try:
        noise = yardstick.limits("fp32", inputs, yardstick.exact(inputs), {"y": False})["y"].noise
    finally:
        yardstick.close()
    assert (noise == 0) is exact
