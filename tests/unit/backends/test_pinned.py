"""Page-locked memory, on a stand-in for the CUDA runtime that counts what is allocated."""

import ctypes
import gc
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trt_workbench.backends.pinned import PageableHost, PinnedHost
from trt_workbench.errors import DeviceFailure

MAJOR = 977
SOURCE = """
#include <stdlib.h>
static int live = 0;
int cudaHostAlloc(void** p, size_t n, unsigned f) { if (n > (1ul << 33)) return 2; *p = malloc(n); live++; return 0; }
int cudaFreeHost(void* p) { free(p); live--; return 0; }
int live_blocks(void) { return live; }
"""


@pytest.fixture(scope="module")
def live_blocks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], int]:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc to make a library")
    folder: Path = tmp_path_factory.mktemp("cuda")
    (folder / "runtime.c").write_text(SOURCE)
    name = f"libcudart.so.{MAJOR}"
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", str(folder / "runtime.c"), "-o", str(folder / name)]
    subprocess.run(command, check=True)
    # once it is open, its name alone finds it, as with the runtime that a provider has opened
    counter: Callable[[], int] = ctypes.CDLL(str(folder / name)).live_blocks
    return counter


def test_memory_lives_as_long_as_any_view_of_it(live_blocks: Callable[[], int]) -> None:
    before = live_blocks()
    array = PinnedHost(MAJOR).array((3, 4), "float32")
    array[...] = np.arange(12).reshape(3, 4)
    view = array[1:]
    assert live_blocks() == before + 1
    del array
    gc.collect()
    assert live_blocks() == before + 1
    np.testing.assert_array_equal(view, np.arange(4, 12).reshape(2, 4))
    del view
    gc.collect()
    assert live_blocks() == before


def test_scalars_and_empty_arrays(live_blocks: Callable[[], int]) -> None:
    before = live_blocks()
    host = PinnedHost(MAJOR)
    assert host.array((), "int64").shape == ()
    assert host.array((0, 4), "float16").shape == (0, 4)
    gc.collect()
    assert live_blocks() == before


@pytest.mark.usefixtures("live_blocks")
def test_memory_that_cannot_be_had_is_a_failure_of_the_device() -> None:
    with pytest.raises(DeviceFailure, match=r"no 17179869184 bytes .*error 2"):
        PinnedHost(MAJOR).array((1 << 34,), "uint8")


def test_pageable_memory_is_said_to_be_so() -> None:
    assert (PageableHost.kind, PinnedHost.kind) == ("pageable", "pinned")
    assert PageableHost().array((2, 3), "float16").dtype == np.float16
