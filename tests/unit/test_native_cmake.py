"""CMake modules of the native core, run by CMake itself."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

MODULES = Path(__file__).parents[2] / "cpp" / "cmake"
CMAKE = shutil.which("cmake")
NVCC = shutil.which("nvcc") or Path("/usr/local/cuda/bin/nvcc").is_file()

pytestmark = pytest.mark.skipif(CMAKE is None, reason="cmake is not installed")


def default_architectures(known: str, folder: Path) -> list[str]:
    script = folder / "ask.cmake"
    script.write_text(
        f'include("{MODULES}/CudaArchitectures.cmake")\n'
        f'trtw_default_cuda_architectures("{known}" answer)\nmessage(STATUS "${{answer}}")\n',
        encoding="utf-8",
    )
    done = subprocess.run([str(CMAKE), "-P", script], capture_output=True, text=True, check=True)
    return done.stdout.strip().removeprefix("-- ").split(";")


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        # of CUDA 13.0, in its own order
        ("75 80 86 87 88 89 90 100 110 103 120 121", "75 80 86 87 88 89 90 100 103 110 120"),
        # of CUDA 12.4, which knows older and fewer GPUs
        ("50 52 53 60 61 62 70 72 75 80 86 87 89 90", "75 80 86 87 89 90"),
    ],
)
def test_kernels_are_compiled_for_every_gpu_from_turing_to_blackwell(
    tmp_path: Path, numbers: str, expected: str
) -> None:
    found = default_architectures("\n".join(f"compute_{number}" for number in numbers.split()), tmp_path)
    *real, newest = expected.split()
    assert found == [*(f"{number}-real" for number in real), newest]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None or not NVCC, reason="g++ or nvcc is not installed")
def test_an_archive_of_the_standard_library_beside_nvccs_compiler_is_noticed(tmp_path: Path) -> None:
    """The folders of CUDA's host compiler are searched when the core is linked, before those of its own compiler."""
    asked = ["g++", "-print-file-name=libstdc++.a"]
    archive = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    if not archive.is_file():
        pytest.skip("this g++ has no libstdc++.a")
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "libstdc++.a").symlink_to(archive)
    host = tmp_path / "hostg++"
    host.write_text(f'#!/bin/sh\nexec g++ -L{folder} "$@"\n', encoding="utf-8")
    host.chmod(0o755)
    options = {"TRTW_TENSORRT": "OFF", "CMAKE_CUDA_ARCHITECTURES": "90"}
    words = [str(CMAKE), "-S", str(MODULES.parent), "-B", str(tmp_path / "build")]
    words += [f"-D{name}={value}" for name, value in options.items()]
    environment = {**os.environ, "CUDAHOSTCXX": str(host), "CXX": "g++"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "kernels for 90" in done.stdout
    assert "libstdc++.so.6 is linked instead" in done.stdout


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_a_project_that_adds_the_core_gets_its_standard_and_neither_tests_nor_python_module(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text("#include <trtw/tensor.hpp>\nint main() {}\n", encoding="utf-8")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(somebodys LANGUAGES CXX)\n"
        f'add_subdirectory("{MODULES.parent}" core)\nadd_executable(somebodys main.cpp)\n'
        "target_link_libraries(somebodys PRIVATE trt_workbench::trtw)\n",
        encoding="utf-8",
    )
    build = tmp_path / "build"
    words = [str(CMAKE), "-S", str(tmp_path), "-B", str(build), "-DTRTW_CUDA=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "CXX": "g++"})
    assert done.returncode == 0, done.stderr
    commands = {Path(one["file"]): one["command"] for one in json.loads((build / "compile_commands.json").read_text())}
    assert "++20" in commands[tmp_path / "main.cpp"]
    core = {file.relative_to(MODULES.parent).parts[0] for file in commands if file != tmp_path / "main.cpp"}
    assert core == {"src"}
    assert not any("bindings" in file.parts for file in commands)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.parametrize("folder", ["guides", "reference/commands"])
def test_the_program_of_the_guide_compiles_without_headers_of_cuda_and_tensorrt(tmp_path: Path, folder: str) -> None:
    guide = MODULES.parents[1] / "docs" / folder / "cpp-core.md"
    shown = guide.read_text(encoding="utf-8").split("```cpp\n")[1].split("```")[0].splitlines()
    includes = [line for line in shown if line.startswith("#include")]
    body = [line for line in shown if not line.startswith("#include")]
    program = tmp_path / "main.cpp"
    lines = [
        *includes,
        "#include <span>",
        "#include <vector>",
        "int main() {",
        "std::vector<float> pixels;",
        "[[maybe_unused]] const std::vector<char> bytes;",
        *body,
        "return static_cast<int>(boxes.size());",
    ]
    program.write_text("\n".join([*lines, "}", ""]), encoding="utf-8")
    words = [
        "g++",
        "-std=c++20",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{MODULES.parent}/include",
        program,
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
