"""Reports of committed records, drawn again."""

import shutil
from pathlib import Path

from trt_workbench.core.documents import write_json
from trt_workbench.report.reports import write_report

RECORDS = Path(__file__).parents[1] / "docs" / "benchmarks"


def kept(folder: Path, record: str) -> Path:
    """Draw the report of a committed run again."""
    return write_report(Path(shutil.copytree(RECORDS / record, folder / "kept" / record)))


def checked_target(folder: Path) -> Path:
    """Draw the report of a committed check, which keeps neither the layers nor the environment."""
    folder.mkdir()
    shutil.copy(RECORDS / "check-target/records/vit_b_16.mxfp8.json", folder / "check-target.json")
    write_json(folder / "layers.json", {"schema_version": 1, "layers": {}})
    words = ["trtw", "check-target", "vit_b_16.mxfp8.onnx"]
    write_json(folder / "env.json", {"schema_version": 1, "command_line": words})
    run = {"command": "check-target", "run_id": "r", "started_at": "2026-01-01T00:00:00+00:00", "status": "complete"}
    write_json(folder / "run.json", {"schema_version": 1, **run})
    return write_report(folder)
