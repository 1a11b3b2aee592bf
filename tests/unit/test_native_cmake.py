"""CMake modules of the native core, run by CMake itself."""

import shutil
import subprocess
from pathlib import Path

import pytest

MODULES = Path(__file__).parents[2] / "cpp" / "cmake"
CMAKE = shutil.which("cmake")

pytestmark = pytest.mark.skipif(CMAKE is None, reason="cmake is not installed")


def default_architectures(known: str, folder: Path) -> list[str]:
    script = folder / "ask.cmake"
    script.write_text(
        f'include("{MODULES}/CudaArchitectures.cmake")\n'
        f'trtw_default_cuda_architectures("{known}" answer)\nmessage(STATUS "${{answer}}")\n',
        encoding="utf-8",
    )
    done = subprocess.run([str(CMAKE), "-P", script], capture_output=True, text=True, check=True, timeout=60)
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
