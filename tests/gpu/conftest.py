"""What tests of several files on a GPU share."""

from pathlib import Path

import pytest

from trt_workbench.backends.trt import TrtBackend


@pytest.fixture(scope="session")
def tensorrt() -> None:
    """Skip where TensorRT, the core or the GPU is absent."""
    found = TrtBackend().availability()
    if not found.ok:
        pytest.skip(f"{found.reason} {found.fix}")


@pytest.fixture
def own_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put what commands make into the test's own folder."""
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
