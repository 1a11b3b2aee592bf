"""Arrays that one process writes and another reads."""

import copy
import io
import itertools
import signal
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.texts import refused

from trt_workbench.core.array_files import count_rows, load_arrays, numpy_dtype, save_arrays
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.records import write_samples


def test_arrays_come_back_and_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    outputs = {"a/b:0": np.random.default_rng(0).normal(0, 1, (4, 6)).astype(np.float32), "names": np.arange(3)}
    outputs |= {
        "file": np.array([], np.float16),
        "x.npy": np.array(True),
        "ends in fortran": np.ones((2, 3), order="F"),
    }
    save_arrays(path, outputs)
    found = load_arrays(path)
    assert list(found) == list(outputs)
    for name, array in outputs.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)
    path.write_bytes(path.read_bytes()[:100])
    with refused(UsageProblem):
        load_arrays(path)


@pytest.mark.parametrize("save", [save_arrays, write_samples])
def test_an_interrupt_at_any_line_of_the_archive_stays_an_interrupt(save: Callable[..., None], tmp_path: Path) -> None:
    left: Iterator[int] = iter(())

    def trace(frame: FrameType, event: str, _: object) -> Any:
        # Python drops what comes in a finalizer; the console sends it again
        final = "__del__" in (frame.f_code.co_name, frame.f_back and frame.f_back.f_code.co_name)
        if frame.f_code.co_filename == zipfile.__file__ and event == "line" and not final and not next(left, 1):
            signal.raise_signal(signal.SIGINT)
        return trace

    for line in itertools.count():
        left = iter(range(line, -1, -1))
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            save(tmp_path / "samples.npz", {"a": np.arange(900.0), "b": np.ones(1)})
            break
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(before)
    assert line > 50
    assert len(load_arrays(tmp_path / "samples.npz")) == 2


def claiming(shape: tuple[int, ...], content: int, dtype: str = "<f4") -> bytes:
    """Return a `.npy` with so many bytes behind its header."""
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(content)


def packed(content: bytes, kind: int, said: int | None, times: int = 1) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        archive.writestr("x.npy", content)
        member = archive.infolist()[0]
        archive.filelist += [copy.copy(member) for _ in range(times - 1)]
        if said is not None:
            member.file_size = said
    return file.getvalue()


@given(
    shape=st.lists(st.sampled_from([1, 3, 1000, 2**20, 2**31, 2**40, 2**62, -1]), min_size=1, max_size=3).map(tuple),
    content=st.integers(0, 400),
    dtype=st.sampled_from(["<f4", "|u1", ">i8", "|S0", "<U0", "|V0", "<c16"]),
    kind=st.sampled_from([None, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]),
    said=st.sampled_from([None, 2**20, 2**30, 2**40]),
)
def test_no_more_memory_than_there_is_content(
    tmp_path_factory: pytest.TempPathFactory,
    shape: tuple[int, ...],
    content: int,
    dtype: str,
    kind: int | None,
    said: int | None,
) -> None:
    data = claiming(shape, content, dtype)
    path = tmp_path_factory.getbasetemp() / f"claims.np{'y' if kind is None else 'z'}"
    path.write_bytes(data if kind is None else packed(data, kind, said))
    tracemalloc.start()
    try:
        found = next(iter(load_arrays(path).values()))
        assert found.nbytes <= len(data)
        assert found.shape == shape
    except UsageProblem:
        pass
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 40e6


@pytest.mark.parametrize("times", [2, 3000])
def test_members_that_share_their_bytes_are_refused(times: int, tmp_path: Path) -> None:
    data = claiming((3, 100), 1200)
    (tmp_path / "x.npz").write_bytes(packed(data, zipfile.ZIP_STORED, None, times))
    with pytest.raises(UsageProblem, match=r"it declares arrays|Overlapped"):
        load_arrays(tmp_path / "x.npz")


@pytest.mark.parametrize("content", [0, 1199])
def test_an_array_that_ends_early(content: int, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(claiming((3, 100), content))
    for read in (load_arrays, count_rows):
        with refused(UsageProblem):
            read(tmp_path / "x.npy")


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packings_that_a_few_bytes_of_stand_for_all_the_rest_are_refused(kind: int, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(packed(claiming((3, 100), 2**26), kind, 1328))
    tracemalloc.start()
    try:
        with refused(UsageProblem):
            load_arrays(tmp_path / "x.npz")
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((2**62,), "|S0"), ((2**62,), "<U0"), ((2**62,), "|V0"), ((2**62, 0), "<f4"), ((), "<f4"), ((True, 0), "<f4")],
)
def test_rows_without_content_are_not_counted(shape: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(claiming(shape, 64, dtype))
    with refused(UsageProblem):
        count_rows(tmp_path / "x.npy")


def test_a_type_without_arrays_is_refused() -> None:
    assert numpy_dtype("bfloat16").itemsize == 2
    with refused(UsageProblem):
        numpy_dtype("unknown")
