"""Records on disk; what any document does is in tests/unit/engine/test_documents.py."""

from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.backends.profiling import Operation
from trt_workbench.core.documents import append_lines
from trt_workbench.core.errors import UsageProblem
from trt_workbench.profile.document import Kernel, read_records


def test_records_come_back_as_they_were_written(fp16: list[Operation], tmp_path: Path) -> None:
    kernel = Kernel(tool="ncu", name="k\u2028<1>", launches=2, total_ms=1.0, mean_ms=0.5, metrics={"m": 1.5})
    append_lines(tmp_path / "r.jsonl", [*fp16, kernel])
    assert read_records(tmp_path / "r.jsonl") == [*fp16, kernel]


@pytest.mark.parametrize("line", ['{"kind": "layer", "index": 0}', '{"kind": "other"}'])
def test_damaged_lines_are_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"kind": "node", "index": 0, "name": "x"}\n' + line + "\n")
    with refused(UsageProblem):
        read_records(path)
