"""Formats against ml_dtypes, PyTorch and a search among all codes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trt_workbench.model.low_precision import formats

FLOATS = st.floats(width=32, allow_nan=False)
E4M3 = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
E2M1 = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def every(dtype):
    """All values of a type of 16 bits as float32."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)


def blocked_values(codes, scales):
    """Each code times its block's scale; blocks lie along the last axis."""
    blocks = codes.astype(np.float32).reshape(*scales.shape, -1)
    return (blocks * scales[..., None]).reshape(codes.shape)


def mxfp8_values(values):
    """What is left of values in MXFP8."""
    codes, scales = formats.mxfp8(values)
    return blocked_values(codes, formats.e8m0_values(scales))


def nvfp4_values(codes, scales, whole):
    """Each code times the product, rounded to fp32, of its two scales."""
    return blocked_values(codes, scales.astype(np.float32) * np.float32(whole))


def bits(array):
    return array.astype(np.float32).view(np.uint32)


def nearest(values, codes):
    """Round by search: the nearest of the codes of numbers from 0 up, the even code at a tie, the largest beyond."""
    codes = codes[: len(codes) // 2]
    codes = codes[~np.isnan(codes)].astype(np.float64)
    size = np.abs(values.astype(np.float64))
    above = np.clip(np.searchsorted(codes, size), 1, len(codes) - 1)
    low, high = codes[above - 1], codes[above]
    even_low = (above - 1) % 2 == 0
    down = (size - low < high - size) | ((size - low == high - size) & even_low)
    return np.copysign(np.where(down, low, high), values).astype(np.float32)


@settings(deadline=None, max_examples=200)
@given(values=arrays.arrays(np.float32, st.integers(1, 64), elements=FLOATS))
def test_any_float_becomes_the_nearest_code(values):
    assert np.array_equal(bits(formats.e4m3(values)), bits(nearest(values, E4M3)))
    assert np.array_equal(bits(formats.e2m1(values)), bits(nearest(values, E2M1)))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_e4m3_has_the_bits_that_pytorch_gives(dtype):
    torch = pytest.importorskip("torch")

    values = every(dtype)
    clipped = torch.from_numpy(values).clamp(-448, 448)  # older releases of PyTorch make NaN of what is beyond
    theirs = clipped.to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    ours = formats.e4m3(values).view(np.uint8)
    assert np.array_equal(ours[~np.isnan(values)], theirs[~np.isnan(values)])
    assert np.isnan(formats.e4m3(values).astype(np.float32)[np.isnan(values)]).all()


def test_fp4_has_no_nan():
    with pytest.raises(ValueError, match="NaN"):
        formats.e2m1(np.float32([1, np.nan]))


@settings(deadline=None, max_examples=300)
@given(largest=st.floats(width=32, min_value=0, allow_infinity=False))
def test_a_scale_of_mxfp8_is_the_smallest_power_of_two_that_holds_the_block(largest):
    code = int(formats.e8m0(np.float32([largest]))[0])
    fits = np.float64(largest) / 448
    assert code == 0 or fits > 2.0 ** (code - 1 - 127)
    assert fits <= 2.0 ** (code - 127)


def test_scales_of_mxfp8_are_powers_of_two():
    found = formats.e8m0_values(np.arange(256, dtype=np.uint8)).astype(np.float64)
    assert np.array_equal(found[:255], 2.0 ** (np.arange(255) - 127))
    assert np.isnan(found[255])
    assert formats.e8m0(np.float32([np.inf, np.nan])).tolist() == [254, 255]


@settings(deadline=None, max_examples=100)
@given(values=arrays.arrays(np.float32, (2, 64), elements=st.floats(-1e6, 1e6, width=32)))
@example(values=np.full((2, 64), 2.0**-145, np.float32))  # a seventh of it is no multiple of the least float32
def test_blocks_are_within_half_a_step_of_their_values(values):
    largest = np.abs(values.reshape(2, 2, 32)).max(-1).repeat(32, -1).reshape(values.shape)
    error = np.abs(mxfp8_values(values) - values)
    assert (error <= np.maximum(np.abs(values) / 16, largest * 2.0**-16 + 2.0**-130)).all()
    codes, scales = formats.int4(values, 64)
    assert (np.abs(blocked_values(codes, scales) - values) <= scales.repeat(64, -1) * 0.50001).all()


@settings(deadline=None, max_examples=100)
@given(values=arrays.arrays(np.float32, (2, 32), elements=st.floats(-1e6, 1e6, width=32)))
def test_nvfp4_holds_each_block_within_its_two_scales(values):
    codes, scales, whole = formats.nvfp4(values)
    assert (scales.astype(np.float32) > 0).all()
    steps = (scales.astype(np.float64) * whole).repeat(16, -1)
    # between 4 and 6 lies one step of 2; a scale rounded down by 1/16, or a subnormal one, clips what is beyond 6
    clipped = np.maximum(np.abs(values) - 6 * steps, 0)
    assert (np.abs(nvfp4_values(codes, scales, whole) - values) <= np.maximum(steps, clipped) * 1.0001).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_blocks_of_zeros_stay_zeros(dtype):
    zeros = np.zeros((3, 64), dtype)
    assert not mxfp8_values(zeros).any()
    assert not nvfp4_values(*formats.nvfp4(zeros)).any()
    assert not blocked_values(*formats.int4(zeros, 64)).any()
    assert formats.nvfp4(zeros)[2] == 1
    assert (formats.int4(zeros, 64)[1] == 1).all()


def test_a_block_beside_a_huge_one_becomes_zeros_and_keeps_a_scale():
    values = np.concatenate([np.full(16, 1e-6), np.full(16, 1e4)]).astype(np.float32)[None]
    codes, scales, whole = formats.nvfp4(values)
    assert scales.astype(np.float32)[0, 0] == 1
    found = nvfp4_values(codes, scales, whole)
    assert not found[0, :16].any()
    assert np.allclose(found[0, 16:], 1e4, rtol=1e-6)


def test_a_part_of_a_block_is_refused():
    with pytest.raises(ValueError, match="not a multiple of the block size 32"):
        formats.mxfp8(np.zeros((2, 40), np.float32))
