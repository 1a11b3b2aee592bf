from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.texts import held, refused

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.engine import tensorrt
from trt_workbench.setup.tensorrt_sources import installed_sources, require_source, source_in


@pytest.mark.parametrize(
    ("number", "version"), [(8600, (8, 6, 0)), (8601, (8, 6, 1)), (100000, (10, 0, 0)), (101601, (10, 16, 1))]
)
def test_version_numbers_of_both_schemes(number: int, version: tuple[int, int, int]) -> None:
    assert tensorrt.decode_version(number) == version


@given(st.integers(10, 99), st.integers(0, 99), st.integers(0, 99))
def test_every_version_number_is_decoded(major: int, minor: int, patch: int) -> None:
    assert tensorrt.decode_version(major * 10000 + minor * 100 + patch) == (major, minor, patch)


@pytest.mark.parametrize("version", [(8, 6, 0), (10, 16, 0), (11, 1, 0)])
def test_both_spellings_of_a_header_version(
    tmp_path: Path, version: tuple[int, int, int], trees: SimpleNamespace
) -> None:
    trees.write_headers(tmp_path, version)
    assert tensorrt.headers_version(tmp_path) == version


def test_a_whole_tree_has_no_problems(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.make_libraries(tmp_path / "lib", (10, 16, 1))
    trees.write_headers(tmp_path / "include", (10, 16, 0))
    tree = tensorrt.examine_tree(tmp_path)
    assert tree.library_version == (10, 16, 1)
    assert tree.problems() == []


def test_each_problem_is_named(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.make_libraries(tmp_path / "lib", (10, 16, 1))
    (tmp_path / "lib" / "libnvonnxparser.so.10").unlink()
    trees.write_headers(tmp_path / "include", (11, 1, 0), parser=False)
    problems = " ".join(tensorrt.examine_tree(tmp_path).problems())
    assert "headers are TensorRT 11.1.0, the libraries 10.16.1" in problems
    assert "libnvonnxparser" in problems
    assert "NvOnnxParser.h" in problems


def test_an_old_release_is_refused(tmp_path: Path, trees: SimpleNamespace) -> None:
    trees.make_libraries(tmp_path / "lib", (8, 5, 3))
    trees.write_headers(tmp_path / "include", (8, 5, 3))
    assert any("too old" in problem for problem in tensorrt.examine_tree(tmp_path).problems())


def test_a_broken_library_is_reported_with_the_loaders_words(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnvinfer.so.10").write_bytes(b"not an ELF file")
    tree = tensorrt.examine_tree(tmp_path)
    assert tree.library is not None
    assert tree.library_version is None
    assert any("cannot be opened" in problem for problem in tree.problems())
    with refused(ComponentMissing):
        tensorrt.library_version(tree.library)


def test_the_newest_library_is_found_by_its_soname(tmp_path: Path) -> None:
    for name in ("libnvinfer.so", "libnvinfer.so.8", "libnvinfer.so.10", "libnvinfer.so.10.16.1", "libnvinfer.so.old"):
        (tmp_path / name).touch()
    assert tensorrt.find_library(tmp_path, "libnvinfer") == tmp_path / "libnvinfer.so.10"


def test_doctor_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trees: SimpleNamespace) -> None:
    monkeypatch.delenv("TENSORRT_HOME", raising=False)
    monkeypatch.setenv("TRTW_ROOT", str(tmp_path))
    assert [row[1] for row in tensorrt.examine_tensorrt()] == ["absent"]
    assert tensorrt.library_dir() is None
    # as the activation of a GPU environment sets it before anything was set up
    monkeypatch.setenv("TENSORRT_HOME", str(tmp_path / "extern" / "tensorrt" / "current"))
    assert [row[1] for row in tensorrt.examine_tensorrt()] == ["absent"]
    home = tmp_path / "home"
    monkeypatch.setenv("TENSORRT_HOME", str(home))
    (row,) = tensorrt.examine_tensorrt()
    assert row[1] == "problem"
    held(row[2])
    trees.make_libraries(home / "lib", (10, 16, 1))
    trees.write_headers(home / "include", (11, 1, 0))
    rows = tensorrt.examine_tensorrt()
    assert {row[1] for row in rows} == {"ok", "absent", "problem"}
    # to set up another one would not help as long as the variable stays
    assert all("TENSORRT_HOME" in row[3] for row in rows if row[1] == "problem")
    assert tensorrt.library_dir() == home / "lib"


def test_a_gpu_that_is_too_new_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trees: SimpleNamespace
) -> None:
    monkeypatch.setenv("TENSORRT_HOME", str(tmp_path))
    trees.write_headers(tmp_path / "include", (8, 6, 0))
    trees.make_libraries(tmp_path / "lib", (8, 6, 0))
    assert "problem" not in [row[1] for row in tensorrt.examine_tensorrt(["9.0"])]
    (problem,) = [row for row in tensorrt.examine_tensorrt(["9.0", "12.0", "12.0"]) if row[1] == "problem"]
    held(problem[2])


@pytest.mark.parametrize(
    ("libraries", "headers", "tool"),
    [
        ("lib", "include", "bin"),
        ("targets/x86_64-linux-gnu/lib", "targets/x86_64-linux-gnu/include", "targets/x86_64-linux-gnu/bin"),
        ("lib/x86_64-linux-gnu", "include/x86_64-linux-gnu", "src/tensorrt/bin"),
        ("usr/lib/x86_64-linux-gnu", "usr/include/x86_64-linux-gnu", "usr/src/tensorrt/bin"),
        ("", "", ""),
    ],
)
def test_known_layouts(tmp_path: Path, libraries: str, headers: str, tool: str, trees: SimpleNamespace) -> None:
    trees.compile_library(tmp_path / libraries / "libnvinfer.so.10", (10, 16, 1))
    trees.write_headers(tmp_path / headers, (10, 16, 1))
    (tmp_path / tool).mkdir(parents=True, exist_ok=True)
    (tmp_path / tool / "trtexec").write_text("#!/bin/sh\n")
    (tmp_path / tool / "trtexec").chmod(0o755)
    found = source_in(tmp_path)
    assert found.libraries == tmp_path / libraries
    assert found.headers == tmp_path / headers
    assert found.trtexec == tmp_path / tool / "trtexec"


def test_a_folder_without_tensorrt_is_refused(tmp_path: Path) -> None:
    with refused(UsageProblem):
        require_source(tmp_path)
    with refused(UsageProblem):
        require_source(tmp_path / "absent")


def test_conda_comes_before_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conda" / "lib").mkdir(parents=True)
    (tmp_path / "conda" / "lib" / "libnvinfer.so.11").touch()
    (tmp_path / "site" / "tensorrt_libs").mkdir(parents=True)
    (tmp_path / "site" / "tensorrt_libs" / "libnvinfer.so.10").touch()
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert [source.kind for source in installed_sources()] == ["conda-forge", "wheels"]
