"""What tests of several files on a GPU share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from trt_workbench.backends import tf32
from trt_workbench.backends.trt.backend import TrtBackend
from trt_workbench.engine.several_builds import several_builds


@pytest.fixture(scope="session")
def tensorrt() -> None:
    """Skip where TensorRT, the core or the GPU is absent."""
    found = TrtBackend().availability()
    if not found.ok:
        pytest.skip(f"{found.reason} {found.fix}")


@pytest.fixture(scope="package", autouse=True)
def _builder() -> Iterator[None]:
    """Keep TensorRT's builder: most tests build engines in this process. It reads NVIDIA's variable once.

    It ends with the last test of this folder: other tests of a process, where these are skipped, build by doubles.
    """
    with pytest.MonkeyPatch.context() as patch, several_builds():
        patch.setenv(tf32.VARIABLE, "0")
        yield


@pytest.fixture
def own_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put what commands make into the test's own folder."""
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
