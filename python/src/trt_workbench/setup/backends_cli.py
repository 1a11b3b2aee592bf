"""`trtw backends`: which runtimes can serve on this machine, and why the others cannot."""

from __future__ import annotations

from dataclasses import asdict

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    print_found,
)
from trt_workbench.core.counts import grouped
from trt_workbench.report.tables import Table


@handled
def backends(*, as_json: JsonOption = False, debug: DebugOption = False) -> None:  # noqa: ARG001 - read by `handled`
    """List every backend and whether it is available here.

    With its versions, or with the reason and the command that fixes it.
    """
    from trt_workbench.backends.registry import availabilities

    found = availabilities()
    lacking = [name for name, state in found.items() if not state.ok]
    alike = grouped(lacking, lambda name: f"{found[name].reason} {found[name].fix}".rstrip())
    rows = (
        (name, "yes" if state.ok else "no", ", ".join(" ".join(one) for one in state.versions.items()))
        for name, state in found.items()
    )
    table = Table(("backend", "available", "versions"), rows)
    reasons = [f"{', '.join(names)}: {reason}" for reason, names in alike.items()]
    document = {name: asdict(state) for name, state in found.items()}
    print_found(document, lambda _: [table, *reasons], as_json=as_json)
