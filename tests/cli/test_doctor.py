"""doctor on a machine without TensorRT, with the double of the core, and with headers and libraries that do not fit."""

import json
from pathlib import Path

import pytest
from tests.in_app import trtw

VERSION = "#define NV_TENSORRT_MAJOR 10\n#define NV_TENSORRT_MINOR 16\n#define NV_TENSORRT_PATCH 1\n"


def findings(code: int) -> dict[str, dict[str, str]]:
    result = trtw("doctor", "--json")
    assert result.exit_code == code, result.stdout
    return {finding["component"]: finding for finding in json.loads(result.stdout)["findings"]}


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSORRT_HOME", raising=False)
    monkeypatch.setattr("trt_workbench.engine.tensorrt.tensorrt_root", lambda: Path("/nowhere"))


@pytest.mark.usefixtures("doubled_core")
def test_the_core_and_an_absent_tensorrt_are_shown() -> None:
    found = findings(0)
    assert found["C++ core"]["state"] == "ok"
    assert "TensorRT headers 10.16.1, opened TensorRT 10.16.1" in found["C++ core"]["found"]  # the double's own
    assert found["TensorRT"] == {
        "component": "TensorRT",
        "state": "absent",
        "found": "not set up",
        "fix": "Run `trtw setup-tensorrt`.",
    }


def test_a_tree_without_libraries_is_a_problem_with_its_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "NvInferVersion.h").write_text(VERSION)
    monkeypatch.setenv("TENSORRT_HOME", str(tmp_path))
    found = findings(3)
    assert found["TensorRT headers"]["found"].startswith("10.16.1")
    assert found["TensorRT"]["state"] == "problem"
    assert "setup-tensorrt" in found["TensorRT"]["fix"]
