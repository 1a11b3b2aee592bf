"""Several files of one model are runtimes of the same work."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.bench.config import BenchConfig
from trt_workbench.bench.matrix import expand
from trt_workbench.bench.model_files import model_files
from trt_workbench.bench.run import BenchRun
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.records import by_work, read_records

TEXT = "g (float[batch,4] x) => (float[batch,4] y) { y = Mul(x, w) }"


def config(folder: Path, *runtimes: dict[str, object]) -> BenchConfig:
    for name, factor in (("m", 1.0), ("half", 0.5)):
        write_onnx(folder / f"{name}.onnx", TEXT, {"w": np.full(4, factor, np.float32)})
    return BenchConfig.model_validate(
        {
            "models": {"m": {"path": str(folder / "m.onnx"), "files": {"half": str(folder / "half.onnx")}}},
            "runtimes": list(runtimes) or [{"backend": "ort-cpu", "file": [None, "half"]}],
            "scenarios": {"s": {"kind": "arrays"}},
            "repetitions": 2,
            "measure": {"warmup_ms": 0, "duration_s": 0.001, "slices": 1},
        }
    )


def test_they_are_measured_together_each_against_its_own_reference(tmp_path: Path) -> None:
    asked = config(tmp_path)
    BenchRun(asked, expand(asked), tmp_path, {}).run()
    records = read_records(tmp_path / "records.jsonl")
    assert len(by_work(records)) == 1
    runtimes = {record.runtime: record for record in records}
    assert set(runtimes) == {"ort-cpu file=default", "ort-cpu file=half"}
    assert len({record.model_sha256 for record in records}) == 2
    assert {record.status for record in records} == {"ok"}
    # beside the other file's outputs, twice as large, they would be wrong
    assert all(record.outputs and record.outputs["state"] == "matched" for record in records)


def test_a_file_is_named_and_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="takes the file quarter, which model m lacks"):
        config(tmp_path, {"backend": "ort-cpu", "file": "quarter"})
    asked = config(tmp_path, {"backend": "ort-cpu", "file": "half"})
    assert [point.runtime for point in expand(asked)] == ["ort-cpu-half"]
    (tmp_path / "half.onnx").unlink()
    with refused(UsageProblem):
        model_files(asked)


def test_keys_of_points_without_a_file_are_those_of_before(tmp_path: Path) -> None:
    """Runs of releases without files go on, and are compared."""
    (point,) = expand(config(tmp_path, {"backend": "ort-cpu"}))
    assert point.key == "b5f50ffa8b39df05"
