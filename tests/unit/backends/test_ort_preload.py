import ctypes
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from trt_workbench.backends.ort.libraries import library_files, preload

CUDA_13 = SimpleNamespace(cuda_version="13.0")


def install(site: Path, package: str, version: str, *files: str) -> None:
    """Lay out a package as pip does, with empty files."""
    info = site / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).touch()


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two folders with packages, and no other."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.setattr(sys, "path", [str(first), str(second)])
    return first, second


def test_packages_are_found_in_any_folder_that_imports_look_at(sites: tuple[Path, Path]) -> None:
    first, second = sites
    install(second, "nvidia-cudnn-cu13", "9.19.0.56", "nvidia/cudnn/lib/libcudnn.so.9")
    install(first, "nvidia-cublas", "13.1", "nvidia/cu13/lib/libcublas.so.13", "nvidia/cu13/lib/libcublasLt.so.13")
    files = library_files(CUDA_13)
    assert str(second / "nvidia/cudnn/lib/libcudnn.so.9") in files
    places = [str(first / f"nvidia/cu13/lib/{name}") for name in ("libcublasLt.so.13", "libcublas.so.13")]
    assert [file for file in files if "cublas" in file] == places
    # what has no package is looked up by the loader
    assert {"libcudart.so.13", "libcufft.so.12", "libcurand.so.10"} <= set(files)


def test_the_package_that_an_import_would_find_comes_first(sites: tuple[Path, Path]) -> None:
    for site in sites:
        install(site, "nvidia-cudnn-cu13", "9.19", "nvidia/cudnn/lib/libcudnn.so.9")
    assert library_files(CUDA_13)[-1] == str(sites[0] / "nvidia/cudnn/lib/libcudnn.so.9")


def test_a_package_for_another_cuda_or_without_its_file_is_passed_over(sites: tuple[Path, Path]) -> None:
    first, second = sites
    install(first, "nvidia-cudnn-cu12", "9.1", "nvidia/cudnn/lib/libcudnn.so.9")
    assert library_files(CUDA_13)[-1] == "libcudnn.so.9"
    install(first, "nvidia-cudnn-cu13", "9.19")
    install(second, "nvidia-cudnn-cu13", "9.19", "nvidia/cudnn/lib/libcudnn.so.9")
    assert library_files(CUDA_13)[-1] == str(second / "nvidia/cudnn/lib/libcudnn.so.9")
    assert library_files(SimpleNamespace(cuda_version="12.8"))[-1] == str(first / "nvidia/cudnn/lib/libcudnn.so.9")


def test_a_wheel_without_cuda_opens_nothing() -> None:
    assert library_files(SimpleNamespace(cuda_version="")) == []
    assert library_files(SimpleNamespace()) == []


def test_what_is_open_is_not_opened_again(sites: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    install(sites[1], "nvidia-cudnn-cu13", "9.19", "nvidia/cudnn/lib/libcudnn.so.9")
    install(sites[1], "nvidia-cublas", "13.1", "nvidia/cu13/lib/libcublas.so.13")
    opened: list[str] = []

    def library(name: str, mode: int = 0) -> None:
        if mode & os.RTLD_NOLOAD:
            if name != "libcublas.so.13":
                raise OSError(name)
            return
        opened.append(name)
        if not Path(name).is_absolute():
            raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", library)
    preload(CUDA_13)
    assert str(sites[1] / "nvidia/cudnn/lib/libcudnn.so.9") in opened
    assert not [name for name in opened if "libcublas.so" in name]


def test_the_loader_tells_what_is_open() -> None:
    ctypes.CDLL("libc.so.6", mode=os.RTLD_NOLOAD)
    with pytest.raises(OSError, match=r"."):  # the loader has no words for it
        ctypes.CDLL("libnothing-of-the-kind.so.1", mode=os.RTLD_NOLOAD)
