"""What is said of a path that is not there, or is something else."""

from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file


@pytest.mark.parametrize("name", ["absent.onnx", "folder", "model.onnx", "Folder/absent.onnx"])
def test_a_file_that_is_not_there_and_what_is(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "Model.onnx").touch()
    require_file("model file", tmp_path / "Model.onnx")
    with refused(UsageProblem):
        require_file("model file", tmp_path / name)
