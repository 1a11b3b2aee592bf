import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.texts import held, refused

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.setup.run import SetupRequest, setup_tensorrt, unpack_libraries
from trt_workbench.setup.tensorrt_headers import fetch_headers, fetch_parser_header


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
    notes: list[str] = []
    result = setup_tensorrt(request, notes.append)
    assert result.changed
    assert result.version == (10, 16, 1)
    current = tmp_path / "extern" / "current"
    assert current.readlink() == Path("10.16.1")
    assert [note.split()[0] for note in notes] == ["TensorRT", "Linked", "Checked"]
    held(notes[1])
    assert notes[2].endswith(f"{current} is now 10.16.1")
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


@pytest.mark.parametrize("text", ['{"schema_version": 1, "ver', "[]", "{}"])
def test_a_damaged_record_is_refused(tmp_path: Path, trees: SimpleNamespace, text: str) -> None:
    trees.make_libraries(tmp_path / "trt", (10, 16, 1))
    trees.write_headers(tmp_path / "trt" / "include", (10, 16, 1))
    request = SetupRequest(root=tmp_path / "extern", folder=tmp_path / "trt")
    setup_tensorrt(request)
    record = tmp_path / "extern" / "10.16.1" / "setup.json"
    before = record.read_text()
    assert json.loads(before)["files"].keys() == {path.name for path in (tmp_path / "trt").glob("lib*")}
    record.write_text(text)
    with refused(UsageProblem):
        setup_tensorrt(request)
    assert setup_tensorrt(dataclasses.replace(request, force=True)).changed
    assert record.read_text() == before


def test_headers_come_from_git_at_the_nearest_tag(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.make_libraries(tmp_path / "trt", (10, 16, 1))
    versions = {"v10.15": (10, 15, 1), "v10.16": (10, 16, 0), "v10.16.2": (10, 16, 2), "v11.1": (11, 1, 0)}
    repository = trees.headers_repository(tmp_path / "repository", versions)
    request = SetupRequest(root=tmp_path / "extern", folder=tmp_path / "trt", headers_git=str(repository))
    result = setup_tensorrt(request)
    assert result.tree.headers_version == (10, 16, 0)
    assert any("opens every release of TensorRT 10" in note for note in result.notes)
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
    with refused(UsageProblem):
        fetch_parser_header((9, 0, 0), str(parser), tmp_path / "none")


def test_two_versions_are_refused_and_nothing_changes(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.make_libraries(tmp_path / "trt" / "lib", (10, 16, 1))
    trees.write_headers(tmp_path / "trt" / "include", (11, 1, 0), parser=False)
    request = SetupRequest(root=tmp_path / "extern", folder=tmp_path / "trt", parser_headers_git="/nowhere")
    with refused(ComponentMissing):
        setup_tensorrt(request)
    assert [path.name for path in (tmp_path / "extern").iterdir()] in ([".lock"], [])


def test_a_repository_without_the_version(tmp_path: Path, trees: SimpleNamespace) -> None:
    repository = trees.headers_repository(tmp_path / "repository", {"v11.1": (11, 1, 0)})
    with refused(UsageProblem):
        fetch_headers((10, 16, 1), str(repository), tmp_path / "include")
    with refused(UsageProblem):
        fetch_headers((10, 16, 1), str(tmp_path / "nothing"), tmp_path / "include")
    with refused(UsageProblem):
        fetch_headers((10, 16, 1), "--upload-pack=touch /tmp/owned", tmp_path / "include")


def test_a_lying_tag_is_refused(tmp_path: Path, trees: SimpleNamespace) -> None:
    repository = trees.headers_repository(tmp_path / "repository", {"v10.16": (10, 15, 0)})
    with refused(UsageProblem):
        fetch_headers((10, 16, 1), str(repository), tmp_path / "include")


@pytest.mark.long
def test_the_pinned_wheel_is_downloaded_once(tmp_path: Path, trees: SimpleNamespace, index: SimpleNamespace) -> None:
    index.offer("tensorrt-cu13-libs", "10.16.1.11", (10, 16, 1))
    repository = trees.headers_repository(tmp_path / "repository", {"v10.16": (10, 16, 1)})
    request = SetupRequest(root=tmp_path / "extern", headers_git=str(repository), index=index.url)
    notes: list[str] = []
    result = setup_tensorrt(request, notes.append)
    assert result.changed
    assert (result.version, result.source) == ((10, 16, 1), "pinned")
    held(notes[0])
    assert not (tmp_path / "extern" / "current" / "lib" / "libnvinfer.so.10").is_symlink()
    assert not list((tmp_path / "extern").glob(".staging*"))
    assert not setup_tensorrt(request, notes.append).changed
    assert index.downloads == 1


@pytest.mark.long
@pytest.mark.usefixtures("own_processes")
@pytest.mark.parametrize("terminal", [False, True])
def test_a_download_is_pips_bar_in_a_terminal_and_lines_elsewhere(
    tmp_path: Path, trees: SimpleNamespace, index: SimpleNamespace, terminal: bool
) -> None:
    index.offer("tensorrt-cu13-libs", "10.16.1.11", (10, 16, 1), seconds=6)
    repository = trees.headers_repository(tmp_path / "repository", {"v10.16": (10, 16, 1)})
    words = ["setup-tensorrt", "--json", "--index-url", index.url, "--headers-git", str(repository)]
    reading, writing = os.openpty() if terminal else os.pipe()
    code = (
        "import pathlib, trt_workbench.core.workspace as workspace, trt_workbench.main as main;"
        f"workspace.tensorrt_root = lambda: pathlib.Path({str(tmp_path)!r}, 'extern'); main.main()"
    )
    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=writing) as running:
        os.close(writing)
        said = b""
        with contextlib.suppress(OSError):  # what a terminal says at its end
            while part := os.read(reading, 1 << 16):
                said += part
        document = json.loads(running.stdout.read())
    os.close(reading)
    assert document["source"] == "pinned"
    shown = said.decode()
    assert ("\u2501" in shown) == terminal  # the bar
    assert ("s] Setting up TensorRT" in shown) != terminal
    assert re.search(r"Downloading .*tensorrt_cu13_libs-10\.16\.1\.11-py3-none-any\.whl.* \(2\.0 MB\)", shown)


def test_what_the_environment_has_comes_before_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trees: SimpleNamespace
) -> None:
    trees.make_libraries(tmp_path / "site" / "tensorrt_libs", (11, 1, 0))
    monkeypatch.syspath_prepend(tmp_path / "site")
    repository = trees.headers_repository(tmp_path / "repository", {"v11.1": (11, 1, 0)})
    notes: list[str] = []
    request = SetupRequest(root=tmp_path / "extern", headers_git=str(repository), index="http://127.0.0.1:9/")
    assert setup_tensorrt(request, notes.append).source == "wheels"
    held(notes[1])


def test_an_index_that_cannot_be_had_never_ends_with_8_6(tmp_path: Path, index: SimpleNamespace) -> None:
    index.offer("tensorrt", "8.6.0", (8, 6, 0))
    notes: list[str] = []
    with refused(ComponentMissing):
        setup_tensorrt(SetupRequest(root=tmp_path / "extern", index=index.url), notes.append)
    assert index.downloads == 0
    assert [path.name for path in (tmp_path / "extern").iterdir()] in ([".lock"], [])


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with refused(ComponentMissing):
        setup_tensorrt(SetupRequest(root=tmp_path / "extern", source="conda-forge"))


@pytest.mark.parametrize("card", ["10.0", "12.0"])
def test_8_6_is_refused_for_a_card_that_it_does_not_know(
    tmp_path: Path, gpus: Callable[..., None], index: SimpleNamespace, card: str
) -> None:
    gpus(card)
    index.offer("tensorrt", "8.6.0", (8, 6, 0))
    request = SetupRequest(root=tmp_path / "extern", source="pypi-8.6.0", index=index.url)
    with refused(UsageProblem):
        setup_tensorrt(request)
    assert index.downloads == 0


@pytest.mark.long(but=1)
@pytest.mark.parametrize("card", ["9.0", None])
def test_8_6_is_downloaded_where_it_was_asked_for(
    tmp_path: Path, gpus: Callable[..., None], trees: SimpleNamespace, index: SimpleNamespace, card: str | None
) -> None:
    gpus(*([card] if card else []))
    index.offer("tensorrt", "8.6.0", (8, 6, 0), tags="cp310-none-manylinux_2_17_x86_64")
    repository = trees.headers_repository(tmp_path / "repository", {"v8.6.0": (8, 6, 0)})
    request = SetupRequest(root=tmp_path / "extern", source="pypi-8.6.0", headers_git=str(repository), index=index.url)
    notes: list[str] = []
    assert setup_tensorrt(request, notes.append).version == (8, 6, 0)
    assert "security fixes" in notes[0]


def test_only_the_libraries_leave_the_wheel(tmp_path: Path) -> None:
    libraries = ["libnvinfer.so.8", "libnvinfer_builder_resource.so.8.6.0", "libnvinfer_plugin.so.8"]
    libraries += ["libnvonnxparser.so.8"]
    wheel = tmp_path / "tensorrt-8.6.0.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in libraries:
            archive.writestr(f"tensorrt/{name}", name)
        archive.writestr("../escape.so", "bad")
        archive.writestr("tensorrt/tensorrt.so", "python module")
    unpack_libraries(wheel, tmp_path / "out" / "lib")
    assert sorted(path.name for path in (tmp_path / "out" / "lib").iterdir()) == libraries
    assert not (tmp_path / "out" / "escape.so").exists()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tensorrt/libnvinfer.so.8", "one")
    with refused(ComponentMissing):
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
