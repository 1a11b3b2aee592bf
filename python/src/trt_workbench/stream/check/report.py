"""The report of a check-contract run, made only from the files of its run directory."""

from __future__ import annotations

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import reader
from trt_workbench.report.tables import small
from trt_workbench.report.verdict import Headline
from trt_workbench.stream.check.document import ContractCheck, reach_of

read = reader("check.json", ContractCheck)


def answer(document: ContractCheck) -> Headline:
    """Return what the page of a run says first."""
    return Headline(_said(document), reach_of(document.checks).word())


def _said(document: ContractCheck) -> list[str]:
    """Say how many checks passed, then of each that failed or was not made the first reason."""
    passed = [check for check in document.checks if check.verdict == "passed"]
    failed = [check for check in document.checks if check.verdict == "failed"]
    others = [check.name for check in document.checks if check.verdict == "not checked"]
    made = len(passed) + len(failed)
    first = f"{len(failed)} of {counted(made, 'check')} failed" if failed else f"All {counted(made, 'check')} passed"
    worst = max((check.worst_rel_l2 or 0.0 for check in passed), default=0.0)
    sentences = [f"{check.name}: {check.findings[0]}" for check in failed]
    if document.tolerance_rel_l2 and any(check.worst_rel_l2 is not None for check in passed):
        apart = f"differ by a relative L2 of at most {small(worst)}" if worst else "are equal"
        limit = small(document.tolerance_rel_l2)
        sentences.append(f"Tensors that must be equal {apart} (limit {limit}).")
    if others:
        sentences.append(f"Not checked: {', '.join(others)}.")
    return [f"{first}.", *sentences]
