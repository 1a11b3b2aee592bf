"""The generated attentions: every form is a valid model, and a healthy one is called right."""

from pathlib import Path

import pytest
from tests.random_attention import MASKS, SOURCES, Attention, drawn, write_attention
from tests.random_models import HEAD_DIMENSIONS

from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("mask", MASKS)
def test_every_form_is_right_where_its_runtime_is(source: str, mask: str, tmp_path: Path) -> None:
    form = Attention(source, mask, queries=1 if source == "slots" else 3, tail="dots", added=mask != "both")
    model = tmp_path / "model.onnx"
    write_attention(form, model)
    request = VerifyRequest(model, backend="ort-cpu", ranges={"N": Range(1, 2, 3)}, quick=True)
    found = verify(request, tmp_path)
    assert found.document["verdict"] == "consistent", found.failures


def test_a_hundred_seeds_draw_every_form() -> None:
    forms = [drawn(5000 + seed) for seed in range(1, 200, 2)]
    assert {(form.source, form.mask) for form in forms} == {(source, mask) for source in SOURCES for mask in MASKS}
    assert {form.size for form in forms} == set(HEAD_DIMENSIONS)
    assert {form.queries == 1 for form in forms} == {True, False}
    assert {form.tail for form in forms} == {"product", "heads", "dots"}
