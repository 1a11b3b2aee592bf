"""What is told where a library that a real provider needs is not there: its name, never the hardware."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from trt_workbench.backends.ort import libraries
from trt_workbench.backends.registry import get_backend

CUDA = ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcurand.so.10", "libcudnn.so.9", "libcuda.so.1")
TENSORRT = ("libnvinfer.so.10", "libnvonnxparser.so.10", "libcudnn.so.9", "libcudart.so.13")


@pytest.mark.parametrize(
    ("backend", "name"), [*(("ort-cuda", name) for name in CUDA), *(("ort-trt", name) for name in TENSORRT)]
)
def test_a_library_that_is_not_there_is_named(
    backend: str, name: str, gpus: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if f"{name} " in subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout:
        pytest.skip(f"the loader of this machine finds {name} elsewhere")
    gpus("12.0")
    shutil.copytree(os.environ["LD_LIBRARY_PATH"], tmp_path / "lib", ignore=lambda *_: [name])
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))
    monkeypatch.delenv("LD_PRELOAD")
    libraries.probe_provider.cache_clear()
    found = get_backend(backend).availability()
    libraries.probe_provider.cache_clear()
    assert found.reason.startswith(f"{name} is missing, which {libraries.FILES[get_backend(backend).provider]} ")
