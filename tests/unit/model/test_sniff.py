import pickle
import struct
import zipfile
from pathlib import Path

import pytest

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.sniff import describe_file, refuse_other_than_engine


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"weights")


def wrapped_engine() -> bytes:
    header = b'{"names": ["a"], "imgsz": [640, 640]}'
    return struct.pack("<i", len(header)) + header + b"ftrt"


CASES = {
    "empty": (b"", "is empty"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull"),
    "pickle": (pickle.dumps({"a": 1}, protocol=2), "pickle"),
    "engine": (b"ftrt" + bytes(60), "TensorRT engine"),
    "wrapped": (wrapped_engine(), "JSON header"),
    "ort": (b"\x20\x00\x00\x00ORTM" + bytes(60), "ONNX Runtime's own format"),
    "safetensors": (struct.pack("<Q", 20) + b'{"a":{"dtype":"F32"}', "safetensors"),
    "html": (b"<!DOCTYPE html><html>", "failed download"),
    "json": (b'{"a": 1}', "JSON document"),
    "cut": (b"\x08\x08\x12\x07pytorch", "truncated or damaged"),
    "jpeg": (b"\xff\xd8\xff\xe0\x00\x10JFIF", "JPEG image"),
    "png": (b"\x89PNG\r\n\x1a\n", "PNG image"),
    "text": (b"import onnx\n", "text file"),
    "a letter cut at the end": (b"x" * 4095 + "é".encode(), "text file"),
    "marked text": ("\ufeffx = 1\n# one".encode(), "text file"),
    "latin": ("x = 1\n# Größe".encode("latin-1"), "no known model format"),
    "a tag": (b"tag", "no known model format"),
    "other": (b"\x00\x01\x02", "00 01 02"),
}


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES)
def test_files_are_told_apart(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert expected in describe_file(path)


def test_a_checkpoint_is_a_zip_archive(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    zipped(path)
    assert "PyTorch checkpoint" in describe_file(path)


@pytest.mark.parametrize("name", CASES)
def test_what_may_be_an_engine_is_not_refused_as_another_kind(tmp_path: Path, name: str) -> None:
    data, expected = CASES[name]
    (path := tmp_path / "model.plan").write_bytes(data)
    if name in ("engine", "wrapped", "latin", "a tag", "other"):
        refuse_other_than_engine(path)
        return
    with pytest.raises(UsageProblem, match="ONNX model, whose name" if name == "cut" else expected):
        refuse_other_than_engine(path)
