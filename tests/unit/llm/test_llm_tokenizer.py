"""Bytes of a text by token: the same in all, however a tokenizer cuts it and whatever offsets it gives."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")

from trt_workbench.backends.torch.llm_tokenizer import byte_counts  # noqa: E402

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
