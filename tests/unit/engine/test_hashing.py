import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.core.hashing import hash_file, hash_folder, hash_parts
from trt_workbench.model.opened import Model
from trt_workbench.onnxtools.identity import sha256_of


def test_a_plain_model_has_the_hash_that_sha256sum_prints(make_model: Callable[..., Path]) -> None:
    model = make_model()
    assert sha256_of(model) == hash_file(model) == hashlib.sha256(model.read_bytes()).hexdigest()


def test_every_external_byte_counts(make_model: Callable[..., Path]) -> None:
    model = make_model(external=True)
    locations = Model.open(model).facts.external_locations
    assert locations == ("model.onnx.data",)
    before = sha256_of(model)
    data = model.parent / locations[0]
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    assert sha256_of(model) != before
    assert sha256_of(model) != hash_file(model)


@pytest.mark.parametrize("name", ["m.onnx", "m.plan", "m.pt2"])
def test_a_file_that_is_no_onnx_model_has_the_hash_of_its_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"no model")
    assert sha256_of(path) == hash_file(path)


def test_a_renamed_file_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = hash_folder(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert hash_folder(tmp_path) != before


PARTS = st.lists(st.tuples(st.text(max_size=4), st.text("0123456789abcdef", min_size=2, max_size=2)), max_size=4)


@given(PARTS, PARTS)
def test_different_parts_hash_differently(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> None:
    assert (hash_parts(first) == hash_parts(second)) == (first == second)
