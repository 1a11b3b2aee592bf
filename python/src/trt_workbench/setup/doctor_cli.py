"""`trtw doctor`: what this machine has, what is missing, and how to fix it."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

import typer

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_json, print_table
from trt_workbench.core.counts import grouped
from trt_workbench.core.errors import ComponentMissing
from trt_workbench.report.tables import Column, Table, verdict


@handled
def doctor(*, as_json: JsonOption = False, debug: DebugOption = False) -> None:  # noqa: ARG001 - read by `handled`
    """Check this machine: driver, GPU, libraries, backends. Exit code 3 if something does not match."""
    from trt_workbench.backends.registry import availabilities
    from trt_workbench.engine.native import examine_core
    from trt_workbench.setup.doctor import DoctorRow, State, examine

    findings = examine()
    state, text, fix = examine_core()
    findings.append(DoctorRow("C++ core", cast(State, state), text, fix))
    for name, found in availabilities().items():
        text = "available" if found.ok else found.reason
        findings.append(DoctorRow(f"backend {name}", "ok" if found.ok else "absent", text, found.fix))
    broken = any(finding.state == "problem" for finding in findings)
    if as_json:
        print_json({"ok": not broken, "findings": [asdict(finding) for finding in findings]})
    else:
        alike = grouped(findings, lambda finding: (finding.state, finding.found, finding.fix))
        rows = [  # "backend trt, ort-trt": all backends that lack the same
            (", ".join([first.component, *(row.component.removeprefix("backend ") for row in more)]), state, *texts)
            for (state, *texts), (first, *more) in alike.items()
        ]
        details = (Column("found", "2", long=True), Column("fix", "3", long=True))
        print_table(Table(("component", Column("state", verdict("1")), *details), rows))
    if broken:
        raise typer.Exit(ComponentMissing.exit_code)
