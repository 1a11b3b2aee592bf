"""Bytes of a text by token: the same in all, however a tokenizer cuts it and whatever offsets it gives."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.copies import copied

pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")

from trt_workbench.backends.torch.llm_tokenizer import byte_counts, load_tokenizer, other_tokens  # noqa: E402
from trt_workbench.core.errors import UsageProblem  # noqa: E402
from trt_workbench.core.workspace import models_dir  # noqa: E402
from trt_workbench.model.llm_directory import LlmDirectory, examine_llm_directory  # noqa: E402

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def of_bytes(*, trimmed: bool) -> "tokenizers.Tokenizer":
    """Return a tokenizer whose tokens are bytes."""
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=trimmed)
    return made


@given(TEXTS)
@example("a b  c\n\n")
@example("圆" * 3 + "é🙂")
def test_each_byte_is_counted_once(text: str) -> None:
    ends = [end for _, end in of_bytes(trimmed=False).encode(text).offsets]
    assert byte_counts(text, ends).tolist() == [1] * len(text.encode())


@given(TEXTS)
@example(" a b")
def test_blanks_that_a_tokenizer_leaves_out_are_counted(text: str) -> None:
    made = of_bytes(trimmed=True).encode(f"{text}.")
    counts = byte_counts(f"{text}.", [end for _, end in made.offsets])
    assert counts.sum() == len(text.encode()) + 1
    assert counts.min() >= 0


@given(TEXTS, st.data())
def test_all_are_counted_up_to_the_end_of_the_last_token(text: str, data: st.DataObject) -> None:
    ends = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    counts = byte_counts(text, ends)
    assert (len(counts), counts.sum()) == (len(ends), len(text[: max(ends, default=0)].encode()))


def with_parts(folder: Path, **parts: object) -> LlmDirectory:
    """Return the embedded model with other parts of its tokenizer."""
    model = copied(models_dir() / "tiny-lm", folder)
    file = model / "tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **parts}))
    return examine_llm_directory(model)


def test_a_tokenizer_at_which_the_library_panics_is_refused(tmp_path: Path) -> None:
    """By an exception that is no Exception."""
    normalizer = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    with pytest.raises(UsageProblem, match=r"The tokenizer cannot be loaded .*charsmap.*: /"):
        load_tokenizer(with_parts(tmp_path / "charsmap", normalizer=normalizer))


def test_a_text_at_which_the_library_panics_is_refused(tmp_path: Path) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    directory = with_parts(tmp_path / "backtrack", pre_tokenizer=split)
    tokenizer = load_tokenizer(directory)
    text = "a" * 40 + "b"
    with pytest.raises(UsageProblem, match="A library failed on what it was given"):
        other_tokens(directory, tokenizer, text, tokenizer.encode(text))
