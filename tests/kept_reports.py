"""Reports of committed records, drawn again."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from tests.copies import copied

from trt_workbench.core.documents import write_json
from trt_workbench.report.reports import write_report

RECORDS = Path(__file__).parents[1] / "docs" / "benchmarks"


def kept(folder: Path, record: str) -> Path:
    """Draw the report of a committed run again."""
    return write_report(copied(RECORDS / record, folder / "kept" / record))


def checked_target(folder: Path) -> Path:
    """Draw the report of a committed check, which keeps neither the layers nor the environment."""
    folder.mkdir()
    shutil.copy(RECORDS / "check-target/records/vit_b_16.mxfp8.json", folder / "check-target.json")
    write_json(folder / "layers.json", {"schema_version": 1, "layers": {}})
    return _drawn(folder, "trtw check-target vit_b_16.mxfp8.onnx")


def decided_on_a_gpu(folder: Path) -> Path:
    """Draw the page of a committed decision, which keeps neither what was detected nor the environment but its GPU."""
    folder.mkdir()
    record = json.loads((RECORDS / "precision/h200/decision.json").read_text(encoding="utf-8"))
    for row in record["rows"]:
        row["directory"] = None
    write_json(folder / "decision.json", record)
    told = (RECORDS / "precision/README.md").read_text(encoding="utf-8").replace("\\\n", "")
    command = next(line for line in told.splitlines() if line.startswith("trtw decide "))
    return _drawn(folder, command, driver={"driver_version": "580.159.04", "gpus": [{"name": "NVIDIA H200"}]})


def _drawn(folder: Path, command: str, **environment: Any) -> Path:
    words = shlex.split(command)
    write_json(folder / "env.json", {"schema_version": 1, "command_line": words, **environment})
    run = {"command": words[1], "run_id": "r", "started_at": "2026-01-01T00:00:00+00:00", "status": "complete"}
    write_json(folder / "run.json", {"schema_version": 1, **run})
    return write_report(folder)
