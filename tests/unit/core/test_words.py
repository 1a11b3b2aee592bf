from trt_workbench.core.words import counted


def test_nouns_follow_their_number() -> None:
    assert [counted(count, "shape") for count in (0, 1, 2)] == ["0 shapes", "1 shape", "2 shapes"]
    assert [counted(count, "box", "boxes") for count in (1, 3)] == ["1 box", "3 boxes"]
