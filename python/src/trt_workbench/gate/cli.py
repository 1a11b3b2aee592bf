"""`trtw gate`: correctness, score and latency of a model in one job."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
)
from trt_workbench.console.drawing import present
from trt_workbench.console.keywords import YAML, as_keywords
from trt_workbench.console.progress import waiting
from trt_workbench.core.errors import CheckFailed, ComponentMissing, DeviceFailure, UsageProblem

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.gate.document import GateDocument

_KINDS = {kind.exit_code: kind for kind in (CheckFailed, UsageProblem, ComponentMissing, DeviceFailure)}


@handled
def gate(
    config: Annotated[Path, typer.Argument(help="YAML file: a model, and what it has to pass.")],
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check a model's correctness, score and latency in one job.

    Runs verify, eval-coco and bench with the settings of the file, and compares score and latency with its limits and
    baselines. Writes gate.json, summary.md for a step summary, junit.xml and a page. Exit code 1 if a check failed; 2,
    3 or 4 if one could not be made.
    """
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.documents import write_json
    from trt_workbench.core.files import write_text
    from trt_workbench.gate.config import load_gate
    from trt_workbench.gate.document import junit, markdown
    from trt_workbench.gate.run import run_gate

    asked = load_gate(config)
    with run_directory("gate", output) as run:
        with waiting("Checking") as update, as_keywords(gate, YAML):
            found = run_gate(asked, run.path, run.destination, update)
        write_json(run.path / "gate.json", found)
        write_text(run.path / "summary.md", markdown(found))
        write_text(run.path / "junit.xml", junit(found))
        directory = run.commit("complete", passed=found.passed)
    drawing = present(directory, found, partial(_shown, found), as_json=as_json, debug=debug)
    if not found.passed:
        raise _KINDS[max(one.exit_code for one in found.checks)](found.headline)
    drawing.end()


def _shown(found: GateDocument, _directory: Path) -> Parts:
    lines = [f"{one.word if one.passed else 'FAILED'}  {one.name}: {one.text}" for one in found.checks]
    return [*lines, found.headline if found.passed else ""]  # else the error says it
