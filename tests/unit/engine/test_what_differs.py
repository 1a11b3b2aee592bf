"""What distinguishes the layers of several builds, in few words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.core.builds import LayerChoice, LayerDifference, LayerVariant
from trt_workbench.engine.layer_choices import what_differs

LINEAR = "Row major linear FP32"
FOUR, EIGHT = (f"Channel major FP16 format where channel % {n} == 0" for n in (4, 8))
KERNEL = "sm80_xmma_fprop_implicit_gemm_{}f16f16_f16_nhwc_tilesize{}_stage{}_g1{}"


def words(*choices: tuple[str, tuple[str, ...]] | None) -> list[str]:
    variants = tuple(
        LayerVariant(builds=(number,), choice=one and LayerChoice(tactic=one[0], formats=one[1]))
        for number, one in enumerate(choices, start=1)
    )
    return what_differs(LayerDifference(layer="conv", differs="tactic", variants=variants))


def test_kernels_are_named_by_the_words_that_differ() -> None:
    same = (EIGHT, EIGHT)
    names = [KERNEL.format("", "64x32x64", 5, "_t1r3s3"), KERNEL.format("indexed_", "128x32x32", 4, "")]
    names.append(KERNEL.format("", "128x32x32", 4, "_t1r3s3"))
    assert words(*((name, same) for name in names)) == [
        "tilesize64x32x64 stage5 t1r3s3",
        "indexed tilesize128x32x32 stage4",
        "tilesize128x32x32 stage4 t1r3s3",
    ]
    assert words(("a_b", same), ("a_b_c", same)) == ["a_b", "a_b_c"]  # the first has no word of its own
    assert words(("a_b", same), ("b_a", same)) == ["a_b", "b_a"]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (LINEAR, "fp32:linear"),
        ("Row major Int8 format", "int8:linear"),
        (EIGHT, "fp16:hwc8"),
        ("Four wide channel vectorized row major Int8 format", "int8:chw4"),
        ("Thirty-two wide channel vectorized row major Int8 format", "int8:chw32"),
        ("Two wide channel vectorized row major FP16 format", "fp16:chw2"),
        ("Row major linear BOOL", "bool:linear"),
        ("Some other way", "Some other way"),
        ("Row major of a type not known", "Row major of a type not known"),
    ],
)
def test_formats_are_a_type_and_a_layout(text: str, short: str) -> None:
    assert words(("k", (text,)), None) == [short, "no such layer"]
    assert words(("k", (text, FOUR)), ("k", (text, EIGHT))) == [f"{short}, fp16:hwc4", f"{short}, fp16:hwc8"]


def test_what_is_equal_is_not_said() -> None:
    assert words(("0x0", (LINEAR, FOUR)), ("0x3e8", (LINEAR, FOUR)), None) == ["0x0", "0x3e8", "no such layer"]


choices = st.tuples(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=4).map("_".join),
    st.tuples(*[st.sampled_from([LINEAR, FOUR, EIGHT])] * 2),
)


@given(st.lists(st.one_of(st.none(), choices), min_size=2, max_size=5, unique=True))
def test_different_choices_have_different_words(found: list[tuple[str, tuple[str, ...]] | None]) -> None:
    said = words(*found)
    assert len(said) == len(found) == len(set(said))
    assert all(said)
