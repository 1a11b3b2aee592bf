"""Counts with their nouns."""

from trt_workbench.core.counts import counted


def test_the_noun_agrees_with_the_count() -> None:
    assert [counted(n, "shape") for n in (0, 1, 2, 1024)] == ["0 shapes", "1 shape", "2 shapes", "1,024 shapes"]
    assert counted(2, "entry", "entries") == "2 entries"
    assert [counted(n, "batch") for n in (1, 5)] == ["1 batch", "5 batches"]
