"""Every rewrite of attention by itself: the same function for any mask, and only where it fits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tests.in_onnxruntime import run
from tests.onnx_text import parse_onnx

from trt_workbench.model.attention_pattern import AttentionIndex
from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.attention import RULES, candidates, rewrite_attention
from trt_workbench.model.sanitize.sanitize import sanitize

ONE_QUERY = ("attention-query-doubled", "attention-sums")
EVERY_RULE = (
    "attention-mask-selected",
    "attention-mask-in-keys",
    "attention-query-doubled",
    "attention-sums",
    "attention-scores-copied",
    "attention-shares-copied",
    "attention-softmax-spelled",
)


def attention(
    queries: int = 1,
    heads: int = 2,
    *,
    mask_queries: int | None = None,
    scale: str = "Mul",
    batch: int | str = "N",
    opset: int = 17,
    where: bool = True,
    mask: bool = True,
) -> onnx.ModelProto:
    """q [N,H,Q,4], k [N,H,K,4], v [N,H,K,5] and allowed [N,1,Q or 1,K] to y [N,H,Q,5]."""
    scores = "scaled" if scale else "products"
    terms = "mask = Where(allowed, nothing, much)"
    if not where:
        terms = f"kept = Cast<to = {TensorProto.FLOAT}>(allowed) lost = Sub(kept, unit) mask = Mul(lost, large)"
    q, k, v = (f"float[{batch},{heads},{shape}]" for shape in (f"{queries},4", "K,4", "K,5"))
    text = f"""attention ({q} q, {k} k, {v} v, bool[{batch},1,{mask_queries or queries},K] allowed) =>
      (float[{batch},{heads},{queries},5] y)
      <float scale = {{0.5}}, float nothing = {{0}}, float much = {{-1e4}}, float unit = {{1}}, float large = {{1e4}}>
      {{
        kt = Transpose<perm = [0, 1, 3, 2]>(k) products = MatMul(q, kt)
        {f"scaled = {scale}(products, scale)" if scale else ""}
        {terms}
        {f"masked = Add({scores}, mask)" if mask else ""}
        [softmax] shares = Softmax<axis = -1>({"masked" if mask else scores})
        same = Cast<to = {TensorProto.FLOAT}>(shares) y = MatMul(same, v)
    }}"""
    model = parse_onnx(text, opset=opset)
    onnx.checker.check_model(model, full_check=True)
    return model


def inputs_of(
    rng: np.random.Generator, batch: int, heads: int, queries: int, keys: int, mask_queries: int
) -> dict[str, np.ndarray]:
    allowed = rng.random((batch, 1, mask_queries, keys)) < 0.6
    allowed[rng.random(batch) < 0.2] = False  # rows that are padded whole
    return {
        "q": rng.standard_normal((batch, heads, queries, 4)).astype(np.float32),
        "k": rng.standard_normal((batch, heads, keys, 4)).astype(np.float32),
        "v": rng.standard_normal((batch, heads, keys, 5)).astype(np.float32),
        "allowed": allowed,
    }


def applied(model: onnx.ModelProto, rule: str) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    assert rewrite_attention(copy, rule) == ["softmax"]
    onnx.checker.check_model(copy, full_check=True)
    return copy


def test_no_rule_is_left_out_here() -> None:
    assert tuple(RULES) == EVERY_RULE


@pytest.mark.parametrize("rule", EVERY_RULE)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_a_rule_keeps_the_function_for_any_mask_and_shape(rule: str, data: st.DataObject) -> None:
    queries = 1 if rule in ONE_QUERY else data.draw(st.sampled_from([1, 3]))
    mask_queries = 1 if rule == "attention-mask-in-keys" else data.draw(st.sampled_from([1, queries]))
    heads = data.draw(st.sampled_from([1, 3]))
    where = rule == "attention-mask-selected" or data.draw(st.booleans())
    scale, opset = data.draw(st.sampled_from(["Mul", "Div", ""])), data.draw(st.sampled_from([13, 17, 18]))
    model = attention(queries, heads, mask_queries=mask_queries, scale=scale, opset=opset, where=where)
    rewritten = applied(model, rule)
    batch, keys = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    inputs = inputs_of(rng, batch, heads, queries, keys, mask_queries)
    (want,), (got,) = run(model, inputs), run(rewritten, inputs)
    # scores that lie at -1e4 have an error of 1e-3 of their own
    padded = ~np.broadcast_to(inputs["allowed"].any(axis=-1), (batch, 1, queries))
    lost = np.broadcast_to(padded, want.shape[:3])
    np.testing.assert_allclose(got[~lost], want[~lost], atol=2e-5)
    np.testing.assert_allclose(got[lost], want[lost], atol=2e-2)


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_rule_is_applied_once_by_its_name(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(attention(), path)
    model, report = sanitize(Model.open(path), [rule])
    assert report.changes == {rule: ["softmax"]}
    inputs = inputs_of(np.random.default_rng(0), 3, 2, 1, 5, 1)
    np.testing.assert_allclose(run(model, inputs)[0], run(path, inputs)[0], atol=2e-2)


def names(model: onnx.ModelProto) -> Sequence[str]:
    return [name for name, _ in candidates(model)]


def test_candidates_are_the_rules_that_fit() -> None:
    assert names(attention()) == list(EVERY_RULE)
    several = [rule for rule in EVERY_RULE if rule not in (*ONE_QUERY, "attention-mask-in-keys")]
    assert names(attention(queries=3)) == several
    without = [rule for rule in several if "-mask-" not in rule]
    assert names(attention(queries=3, mask=False)) == without
    assert names(attention(opset=12)) == []


def test_a_graph_without_attention_has_no_candidate() -> None:
    model = parse_onnx("g (float[N,2,1,4] q) => (float[N,2,1,4] y) { y = Softmax<axis = -1>(q) }")
    assert AttentionIndex(model).found == []
    assert names(model) == []


def test_tensors_that_are_outputs_keep_their_names_and_values() -> None:
    model = attention()
    for name in ("masked", "shares", "same"):
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2, 1, "K"]))
    inputs = inputs_of(np.random.default_rng(0), 2, 2, 1, 5, 1)
    for rule, rewritten in candidates(model):
        assert rule != "attention-query-doubled"  # it changes the inner shapes
        assert [value.name for value in rewritten.graph.output] == ["y", "masked", "shares", "same"]
        for want, got in zip(run(model, inputs), run(rewritten, inputs), strict=True):
            np.testing.assert_allclose(got, want, atol=2e-2, err_msg=rule)
