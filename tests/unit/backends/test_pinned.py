"""Page-locked memory, on a stand-in for the CUDA runtime that counts what is allocated."""

import ctypes
import gc
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tests.texts import refused

from trt_workbench.backends import pinned
from trt_workbench.backends.pinned import PageableHost, PinnedHost
from trt_workbench.core.errors import DeviceFailure

NAME = "libcudart.so.977"
SOURCE = """
#include <stdlib.h>
#include <string.h>
static int live = 0;
int cudaHostAlloc(void** p, size_t n, unsigned f) { if (n > (1ul << 33)) return 2; *p = malloc(n); live++; return 0; }
int cudaFreeHost(void* p) { free(p); live--; return 0; }
static int copies = 0;
int copies_made(void) { return copies; }
int cudaMemcpy2D(char* to, size_t tp, const char* from, size_t fp, size_t w, size_t h, int kind) {
    if (kind != 2 || w > tp || w > fp || w == 3) return 1;
    for (copies++; h > 0; h--, to += tp, from += fp) memcpy(to, from, w);
    return 0;
}
int live_blocks(void) { return live; }
"""


# of the session: a second library of that name would count for itself, while the name finds the first one
@pytest.fixture(scope="session")
def live_blocks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], int]:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc to make a library")
    folder: Path = tmp_path_factory.mktemp("cuda")
    (folder / "runtime.c").write_text(SOURCE)
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{NAME}", str(folder / "runtime.c"), "-o", str(folder / NAME)]
    subprocess.run(command, check=True)
    # once it is open, its name alone finds it, as with the runtime that a provider has opened
    counter: Callable[[], int] = ctypes.CDLL(str(folder / NAME)).live_blocks
    return counter


@pytest.mark.long
def test_memory_lives_as_long_as_any_view_of_it(live_blocks: Callable[[], int]) -> None:
    before = live_blocks()
    array = PinnedHost(NAME).array((3, 4), "float32")
    array[...] = np.arange(12).reshape(3, 4)
    view = array[1:]
    assert live_blocks() == before + 1
    del array
    gc.collect(1)
    assert live_blocks() == before + 1
    np.testing.assert_array_equal(view, np.arange(4, 12).reshape(2, 4))
    del view
    gc.collect(1)
    assert live_blocks() == before


@pytest.mark.long
def test_scalars_and_empty_arrays(live_blocks: Callable[[], int]) -> None:
    before = live_blocks()
    host = PinnedHost(NAME)
    assert host.array((), "int64").shape == ()
    assert host.array((0, 4), "float16").shape == (0, 4)
    gc.collect(1)
    assert live_blocks() == before


@pytest.mark.usefixtures("live_blocks")
def test_memory_that_cannot_be_had_is_a_failure_of_the_device() -> None:
    with refused(DeviceFailure):
        PinnedHost(NAME).array((1 << 34,), "uint8")


def test_pageable_memory_is_said_to_be_so() -> None:
    assert (PageableHost.kind, PinnedHost.kind) == ("pageable", "pinned")
    assert PageableHost().array((2, 3), "float16").dtype == np.float16


@pytest.mark.usefixtures("live_blocks")
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 4, 5), (3, 2), (2, 1, 3, 2), (0, 2, 3), (2, 2, 0)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
@pytest.mark.parametrize("largest_pitch", [None, 1])  # at 1 every row is copied by itself
def test_one_index_is_fetched(
    shape: tuple[int, ...], dtype: str, largest_pitch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if largest_pitch:
        monkeypatch.setattr(pinned, "_MAX_PITCH", largest_pitch)
    whole = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(whole)
    copies = ctypes.CDLL(NAME).copies_made
    for host in (PinnedHost(NAME), PageableHost()):
        for index in range(-shape[1], shape[1]):
            before = copies()
            found = host.fetch_at(value, dtype, index)
            np.testing.assert_array_equal(found, whole[:, index], strict=True)
            assert found.base is None
            rows = 0 if isinstance(host, PageableHost) or not found.size else shape[0] if largest_pitch else 1
            assert copies() == before + rows


@pytest.mark.usefixtures("live_blocks")
def test_a_copy_that_fails_is_a_failure_of_the_device() -> None:
    value = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((2, 2, 3), np.uint8))
    with refused(DeviceFailure):
        PinnedHost(NAME).fetch_at(value, "uint8", 0)
