"""The real kind of a file that was taken for an ONNX model, by its first bytes."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import open_regular

PLAN_SUFFIXES = (".plan", ".engine")
"""Of files that are taken for TensorRT engines."""

# Offset, bytes, meaning with its fix. TensorRT's plan tag is not documented; these are the two seen in its releases.
_SIGNATURES = (
    (0, b"version https://git-lfs", "a Git-LFS pointer; run `git lfs pull` to get the model itself"),
    (0, b"PK\x03\x04", "a zip archive, such as a PyTorch checkpoint or a packed model; export or unpack it"),
    (0, b"\x80\x02", "a pickle, such as an old PyTorch checkpoint; export the model to ONNX"),
    (0, b"ftrt", "a TensorRT engine; pass the ONNX file that it was built from"),
    (0, b"ptrt", "a TensorRT engine; pass the ONNX file that it was built from"),
    (
        4,
        b'{"',
        "a TensorRT engine behind a JSON header, as Ultralytics writes it; pass the ONNX file that it was built from",
    ),
    (4, b"ORTM", "a model in ONNX Runtime's own format; use the ONNX file that it was made from"),
    (4, b"TFL3", "a TensorFlow Lite model; convert it to ONNX"),
    (8, b'{"', "a safetensors file, which holds only weights; export the model to ONNX"),
    (0, b"\x1f\x8b", "a gzip archive; unpack it"),
    (0, b"\x93NUMPY", "a NumPy array, which holds only data; pass the model"),
    (0, b"\x89HDF", "an HDF5 file, such as a Keras model; convert it to ONNX"),
    (0, b"\xff\xd8\xff", "a JPEG image; pass the model"),
    (0, b"\x89PNG", "a PNG image; pass the model"),
    (0, b"<", "an HTML or XML page, often the answer to a failed download; fetch the model again"),
    (0, b"{", "a JSON document; pass the ONNX file instead"),
)
_HEAD = 4096
_TAG = 8  # letters that may begin any format
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def refuse_other_than_engine(path: Path) -> None:
    """Raise UsageProblem for a file that is known, by its content, not to be a TensorRT engine.

    Raises:
        OSError: the file cannot be read.
    """
    found = describe_file(path)
    if "TensorRT engine" in found or "no known model format" in found:
        return
    if found.startswith("starts like one"):
        found = "begins like an ONNX model, whose name ends in .onnx"
    raise UsageProblem(f"The file is no TensorRT engine: it {found}. File: {path}")


def describe_file(path: Path) -> str:
    """Say what an existing file that cannot be parsed as ONNX seems to be, and the fix.

    Returns:
        The rest of a sentence that begins with "it", such as "is empty; fetch or export it again".

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        head = file.read(_HEAD)
    if not head:
        return "is empty; fetch or export it again"
    for offset, magic, meaning in _SIGNATURES:
        if head[offset:].startswith(magic):
            return f"is {meaning}"
    if _is_text(head):
        return "is a text file; pass the model"
    # The IR version is field 1, and exporters write fields in order.
    if head.startswith(b"\x08"):
        return "starts like one but is truncated or damaged; fetch or export it again"
    return f"begins with {head[:8].hex(' ')}, which is no known model format; fetch or export it again"


def _is_text(head: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)  # takes a letter that is cut at the end
    except UnicodeDecodeError:
        return False
    return len(head) > _TAG and not _CONTROL.search(text)
