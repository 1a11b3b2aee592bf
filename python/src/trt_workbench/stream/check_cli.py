"""`trtw check-contract`: whether a streaming model does what its contract says."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    note,
    print_json,
)
from trt_workbench.console.drawing import present
from trt_workbench.console.progress import waiting
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed
from trt_workbench.stream.check.settings import ContractSettings

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.stream.check.document import ContractCheck


@handled
def check_contract(
    settings: ContractSettings,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check a streaming model against its contract.

    First compares the documents: names each contradiction within the contract or with the model, exit code 2. Then runs
    the model: invariants at every chunk size, live and dead states, reset, padding, batches; exit code 1 names chunk,
    tensor and invariant.
    """
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.documents import write_json
    from trt_workbench.stream.check.run import check_contract as run_checks
    from trt_workbench.stream.contract.reading import Contradictions

    with run_directory("check-contract", output) as run:
        with waiting("Checking") as update:
            try:
                found = run_checks(settings, lambda name: update(f"Checking: {name}"), note)
            except Contradictions as error:
                if as_json:
                    print_json({"schema_version": 1, "passed": False, "problems": error.problems})
                raise
        write_json(run.path / "check.json", found)
        directory = run.commit("complete", passed=found.passed)
    drawing = present(directory, found, partial(_shown, found), as_json=as_json, debug=debug)
    if not found.passed:
        failed = [check for check in found.checks if check.verdict == "failed"]
        more = sum(len(one.findings) + one.findings_left_out for one in failed) - 1
        tail = f" (and {more} more)" if more else ""
        raise CheckFailed(
            f"{settings.target.name} does not keep its contract: {failed[0].name}: {failed[0].findings[0]}"
            f"{tail}. Full report: {directory / 'report.html'}"
        )
    drawing.end()


def _shown(found: ContractCheck, _directory: Path) -> Parts:
    where = f"on {found.backend}, {counted(found.chunks, 'chunk')}" if found.backend else "documents only"
    dead = [state.input for state in found.states if not state.live]
    return [
        f"{found.target['file']}: {'KEEPS' if found.passed else 'DOES NOT KEEP'} its contract ({where})",
        f"Dead state: {', '.join(dead)}" if dead else None,
        *[table for table in found.tables if table.rows],
    ]
