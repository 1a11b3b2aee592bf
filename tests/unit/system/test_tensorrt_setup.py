import dataclasses
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from trt_workbench.errors import ComponentMissing, UsageProblem
from trt_workbench.system import tensorrt_wheel
from trt_workbench.system.tensorrt_headers import fetch_headers, fetch_parser_header
from trt_workbench.system.tensorrt_setup import SetupRequest, setup_tensorrt
from trt_workbench.system.tensorrt_sources import Source
from trt_workbench.system.tensorrt_wheel import unpack_libraries


@pytest.fixture(autouse=True)
def _no_conda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDA_PREFIX", raising=False)


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(root)): (path.lstat().st_mtime_ns, path.lstat().st_ino)
        for path in root.rglob("*")
        if not path.name.startswith(".") and path.name != "current"
    }


def test_an_unpacked_archive_is_linked(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.make_libraries(tmp_path / "trt" / "lib", (10, 16, 1))
    trees.write_headers(tmp_path / "trt" / "include", (10, 16, 1))
    request = SetupRequest(root=tmp_path / "extern", folder=tmp_path / "trt")
    result = setup_tensorrt(request)
    assert result.changed
    assert result.version == (10, 16, 1)
    current = tmp_path / "extern" / "current"
    assert current.readlink() == Path("10.16.1")
    assert (current / "lib" / "libnvinfer.so.10").resolve() == (tmp_path / "trt" / "lib" / "libnvinfer.so.10").resolve()
    before = snapshot(tmp_path / "extern")
    assert not setup_tensorrt(request).changed
    assert snapshot(tmp_path / "extern") == before
    assert not list((tmp_path / "extern").glob(".staging*"))


def test_copies_and_force(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.compile_library(tmp_path / "trt" / "lib" / "libnvinfer.so.10.16.1", (10, 16, 1))
    (tmp_path / "trt" / "lib" / "libnvinfer.so.10").symlink_to("libnvinfer.so.10.16.1")
    trees.compile_library(tmp_path / "trt" / "lib" / "libnvonnxparser.so.10.16.1", (10, 16, 1))
    trees.write_headers(tmp_path / "trt" / "include", (10, 16, 1))
    request = SetupRequest(root=tmp_path / "extern", folder=tmp_path / "trt", copy=True)
    setup_tensorrt(request)
    lib = tmp_path / "extern" / "10.16.1" / "lib"
    assert not (lib / "libnvinfer.so.10.16.1").is_symlink()
    assert (lib / "libnvinfer.so.10").readlink() == Path("libnvinfer.so.10.16.1")
    # the soname is made where the archive lacks it
    assert (lib / "libnvonnxparser.so.10").readlink() == Path("libnvonnxparser.so.10.16.1")
    assert setup_tensorrt(dataclasses.replace(request, force=True)).changed


def test_headers_come_from_git_at_the_nearest_tag(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.make_libraries(tmp_path / "trt", (10, 16, 1))
    versions = {"v10.15": (10, 15, 1), "v10.16": (10, 16, 0), "v10.16.2": (10, 16, 2), "v11.1": (11, 1, 0)}
    repository = trees.headers_repository(tmp_path / "repository", versions)
    request = SetupRequest(root=tmp_path / "extern", folder=tmp_path / "trt", headers_git=str(repository))
    result = setup_tensorrt(request)
    assert result.tree.headers_version == (10, 16, 0)
    assert any("patch releases" in note for note in result.notes)
    assert not (tmp_path / "extern" / "current" / "include" / "samples").exists()
    # once there, they are not fetched again
    (tmp_path / "trt" / "libnvinfer_lean.so.10").touch()
    assert setup_tensorrt(dataclasses.replace(request, headers_git="/nowhere")).changed


def test_the_parser_header_comes_from_its_own_repository(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.make_libraries(tmp_path / "trt", (8, 6, 0))
    headers = trees.headers_repository(tmp_path / "headers", {"v8.6.0": (8, 6, 0)}, parser=False)
    parser = tmp_path / "parser"
    parser.mkdir()
    trees.git(parser, "init", "-q")
    for tag in ("release/8.6-EA", "release/8.6-GA", "release/10.0-GA"):
        (parser / "NvOnnxParser.h").write_text(f"// {tag}\n")
        trees.git(parser, "add", ".")
        trees.git(parser, "commit", "-q", "-m", tag)
        trees.git(parser, "tag", tag)
    request = SetupRequest(
        root=tmp_path / "extern", folder=tmp_path / "trt", headers_git=str(headers), parser_headers_git=str(parser)
    )
    setup_tensorrt(request)
    header = tmp_path / "extern" / "current" / "include" / "NvOnnxParser.h"
    assert header.read_text() == "// release/8.6-EA\n"
    assert fetch_parser_header((8, 6, 1), str(parser), tmp_path / "ga") == "release/8.6-GA"
    with pytest.raises(UsageProblem, match="--parser-headers-git"):
        fetch_parser_header((9, 0, 0), str(parser), tmp_path / "none")


def test_two_versions_are_refused_and_nothing_changes(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.make_libraries(tmp_path / "trt" / "lib", (10, 16, 1))
    trees.write_headers(tmp_path / "trt" / "include", (11, 1, 0), parser=False)
    request = SetupRequest(root=tmp_path / "extern", folder=tmp_path / "trt", parser_headers_git="/nowhere")
    with pytest.raises(ComponentMissing, match=r"headers are TensorRT 11\.1\.0, the libraries 10\.16\.1"):
        setup_tensorrt(request)
    assert [path.name for path in (tmp_path / "extern").iterdir()] in ([".lock"], [])


def test_a_repository_without_the_version(tmp_path: Path, trees: SimpleNamespace) -> None:
    repository = trees.headers_repository(tmp_path / "repository", {"v11.1": (11, 1, 0)})
    with pytest.raises(UsageProblem, match=r"No tag of TensorRT 10\.16\.1"):
        fetch_headers((10, 16, 1), str(repository), tmp_path / "include")
    with pytest.raises(UsageProblem, match=r"cannot be read \('.*nothing' does not appear to be a git repository"):
        fetch_headers((10, 16, 1), str(tmp_path / "nothing"), tmp_path / "include")
    with pytest.raises(UsageProblem, match="cannot be read"):
        fetch_headers((10, 16, 1), "--upload-pack=touch /tmp/owned", tmp_path / "include")


def test_a_lying_tag_is_refused(tmp_path: Path, trees: SimpleNamespace) -> None:
    repository = trees.headers_repository(tmp_path / "repository", {"v10.16": (10, 15, 0)})
    with pytest.raises(UsageProblem, match=r"holds headers of 10\.15\.0"):
        fetch_headers((10, 16, 1), str(repository), tmp_path / "include")


def test_nothing_found(tmp_path: Path) -> None:
    with pytest.raises(ComponentMissing, match="--from DIR"):
        setup_tensorrt(SetupRequest(root=tmp_path / "extern", allow_8_6=False))


def test_the_last_resort_is_stated_and_downloaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trees: SimpleNamespace
) -> None:
    from trt_workbench.system import tensorrt_setup

    downloads = []

    def download(folder: Path) -> Source:
        downloads.append(folder)
        trees.make_libraries(folder / "lib", (8, 6, 0))
        return Source(tensorrt_wheel.WHEEL_KIND, folder / "lib", copy=True)

    monkeypatch.setattr(tensorrt_setup, "download_wheel", download)
    repository = trees.headers_repository(tmp_path / "repository", {"v8.6.0": (8, 6, 0)})
    request = SetupRequest(root=tmp_path / "extern", headers_git=str(repository))
    notes: list[str] = []
    assert setup_tensorrt(request, notes.append).changed
    assert "last resort" in notes[0]
    assert not (tmp_path / "extern" / "current" / "lib" / "libnvinfer.so.8").is_symlink()
    assert not setup_tensorrt(request, notes.append).changed
    assert len(downloads) == 1


def test_only_the_libraries_leave_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "tensorrt-8.6.0.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in tensorrt_wheel.LIBRARIES:
            archive.writestr(f"tensorrt/{name}", name)
        archive.writestr("../escape.so", "bad")
        archive.writestr("tensorrt/tensorrt.so", "python module")
    unpack_libraries(wheel, tmp_path / "out" / "lib")
    assert sorted(path.name for path in (tmp_path / "out" / "lib").iterdir()) == sorted(tensorrt_wheel.LIBRARIES)
    assert not (tmp_path / "out" / "escape.so").exists()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tensorrt/libnvinfer.so.8", "one")
    with pytest.raises(ComponentMissing, match="lacks"):
        unpack_libraries(wheel, tmp_path / "again")


def test_a_killed_run_leaves_no_tree(tmp_path: Path, trees: SimpleNamespace) -> None:
    left = tmp_path / "extern" / ".staging.dead"
    left.mkdir(parents=True)
    (left / "half").touch()
    trees.make_libraries(tmp_path / "trt" / "lib", (10, 16, 1))
    trees.write_headers(tmp_path / "trt" / "include", (10, 16, 1))
    setup_tensorrt(SetupRequest(root=tmp_path / "extern", folder=tmp_path / "trt"))
    assert not left.exists()


def test_git_is_never_asked_for_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []
    real = subprocess.run

    def spy(*args: object, **kwargs: object) -> object:
        seen.append(kwargs.get("env") or {})  # type: ignore[arg-type]
        return real(*args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", spy)
    with pytest.raises(UsageProblem):
        fetch_headers((10, 0, 0), str(tmp_path / "nothing"), tmp_path / "include")
    assert all(environment["GIT_TERMINAL_PROMPT"] == "0" for environment in seen)
