"""Reading `.npy` and `.npz` files, without pickle; the dtypes of arrays."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from trt_workbench.core.elements import Kind, kind
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import open_regular
from trt_workbench.core.interruptible import deferred_interrupts

T = TypeVar("T")
ARRAY_SUFFIXES = (".npy", ".npz")
_MOST_UNPACKED = 2**30
_CHUNK = 2**24
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# What numpy writes; Python's reader of the others unpacks all that a piece of them stands for at once.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def is_array(name: str) -> bool:
    """Whether a file holds arrays, by its name; hidden ones, as macOS leaves them, do not."""
    return not name.startswith(".") and Path(name).suffix in ARRAY_SUFFIXES


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of a tensor's type, which ml_dtypes has where numpy lacks it.

    Raises:
        UsageProblem: neither has it, as of an input whose model does not say its type.
    """
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found = getattr(ml_dtypes, name, None)
        if found is None:
            raise UsageProblem(f"A tensor has the type {name!r:.40}, which no array can hold.") from None
        made: np.dtype[Any] = np.dtype(found)
        return made


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays in a `.npz` file, or the one in a `.npy` file under the name "".

    Raises:
        UsageProblem: it is neither, is truncated, or holds Python objects, which are never loaded.
    """
    if path.suffix not in ARRAY_SUFFIXES:
        raise UsageProblem(
            f"Only .npy and .npz files are read as arrays. Raw bytes, as trtexec reads them, become one by "
            f"`np.save('{path.stem}.npy', np.fromfile('{path.name}', 'float32').reshape(1, 3, 640, 640))` with your "
            f"type and shape: {path}"
        )
    try:
        with open_regular(path) as file:
            if path.suffix == ".npy":
                return {"": _read_array(file, os.fstat(file.fileno()).st_size)}
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive, os.fstat(file.fileno()).st_size)
    except MemoryError:
        raise
    except Exception as error:  # zip, zlib, struct and numpy each have their own for a damaged file
        raise _unreadable(path, error) from error


def _read_archive(archive: zipfile.ZipFile, size: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a `.npz` of `size` bytes.

    Compressed ones are bounded, because a few bytes may stand for any number. What the archive claims about its members
    is ignored: it may claim more than it has, or name the same bytes again and again.
    """
    members = archive.infolist()
    if any(member.compress_type not in _PACKINGS for member in members):
        raise ValueError("it is compressed by a method that numpy does not use; use np.savez_compressed")
    stored = [member for member in members if member.compress_type == zipfile.ZIP_STORED]
    claimed = sum(max(member.file_size, member.compress_size) for member in stored)
    if claimed > size:
        raise ValueError(f"it declares arrays of {claimed} bytes, but the file has {size}")
    packed = sum(member.file_size for member in members if member.compress_type != zipfile.ZIP_STORED)
    if packed > _MOST_UNPACKED:
        raise ValueError(
            f"its compressed arrays unpack to {packed} bytes, more than the {_MOST_UNPACKED} allowed; use np.savez"
        )
    arrays = {}
    for member in members:
        with archive.open(member) as file:
            arrays[member.filename.removesuffix(".npy")] = _read_array(file, member.file_size)
    return arrays


def _read_array(file: IO[bytes], size: int) -> NDArray[Any]:
    """Return the array in an open `.npy` of `size` bytes, which has to hold what its header declares."""
    shape, fortran, dtype = _read_header(file, size)
    declared = math.prod(shape) * dtype.itemsize
    # memory as there is content: a member of an archive may end earlier than it says
    content = bytearray()
    while len(content) < declared and (more := file.read(min(_CHUNK, declared - len(content)))):
        content += more
    if len(content) < declared:
        raise ValueError(f"the header declares an array of {declared} bytes, but {len(content)} follow")
    values = np.frombuffer(content, dtype) if declared else np.zeros(math.prod(shape), dtype)
    return values.reshape(shape, order="F" if fortran else "C")


def _read_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of the array in an open `.npy` of `size` bytes. Raises ValueError."""
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format is unknown")
    shape, fortran, dtype = _HEADERS[version](file)
    if math.prod(shape) and not dtype.itemsize:  # numpy makes a byte or more of each
        raise ValueError(f"the header declares elements of 0 bytes ({dtype.str})")
    declared = math.prod(shape) * dtype.itemsize
    follow = size - file.tell()
    if min(shape, default=0) < 0 or dtype.hasobject or declared > follow:
        what = "Python objects, which are never loaded" if dtype.hasobject else f"an array of {declared} bytes"
        raise ValueError(f"the header declares {what}, but {follow} bytes follow")
    return shape, fortran, dtype


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array into a `.npy` file, without pickle, as `writable`. Raises OSError, which names the file."""
    try:
        with path.open("wb") as file:
            # given the file itself, numpy does not say why it could not be written
            npy.write_array(SimpleNamespace(write=file.write), writable(np.asarray(array)), allow_pickle=False)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def named_below(arrays: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the entries whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def save_arrays(path: Path | IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays of any names and types into a `.npz` file, without pickle; `load_arrays` reads them.

    An interrupt comes after it: within, `zipfile` raises ValueError in its place. Types that numpy's files lack are
    those of `writable`. Raises OSError.
    """
    with deferred_interrupts(), zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, writable(np.asarray(array)), allow_pickle=False)


def writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in a type that numpy's files have: those of ml_dtypes become float32 or int8, objects text."""
    if array.dtype.isbuiltin != 2 and array.dtype.kind != "O":  # 2: registered by another package
        return array
    types: dict[Kind, type] = {Kind.REAL: np.float32, Kind.WHOLE: np.int8}
    return array.astype(types.get(kind(array), str))


def count_rows(path: Path) -> int:
    """Return the length of the first axis of the array in a `.npy` file, or of the first one in a `.npz` file.

    Raises:
        UsageProblem: as `load_arrays`, or the array is a scalar.
    """
    if path.suffix == ".npy":
        try:
            with open_regular(path) as file:
                shape = _read_header(file, os.fstat(file.fileno()).st_size)[0]
        except Exception as error:
            raise _unreadable(path, error) from error
    else:
        shape = next((array.shape for array in load_arrays(path).values()), ())
    if not shape:
        raise UsageProblem(f"The file holds no array with samples along its first axis: {path}")
    if shape[0] and not math.prod(shape):  # of rows that hold nothing there may be any number
        raise UsageProblem(f"The samples of the array are empty (shape {list(shape)}): {path}")
    return shape[0]


def _unreadable(path: Path, error: Exception) -> UsageProblem:
    return UsageProblem(f"The file cannot be read as arrays ({getattr(error, 'strerror', None) or error}): {path}")
