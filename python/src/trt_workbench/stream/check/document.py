"""What `check-contract` finds out, as `check.json` holds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from trt_workbench.core.documents import Strict
from trt_workbench.report.tables import NONE, ROOMY, Column, Table, small, verdict
from trt_workbench.report.verdict import Reach

Verdict = Literal["passed", "failed", "not checked"]


class ContractViolation(Strict):
    """Something that does not hold.

    Attributes:
        what: in words.
        chunk: index of the chunk, from 0; None of a whole stream.
        tensor: name; None of an invariant over several.
        invariant: id; None of what every contract promises.
    """

    what: str
    chunk: int | None = None
    tensor: str | None = None
    invariant: str | None = None

    def __str__(self) -> str:
        """Return the sentence with its place."""
        parts = [f"chunk {self.chunk}" if self.chunk is not None else "", self.tensor or ""]
        parts += [f"invariant {self.invariant}" if self.invariant else ""]
        return f"{', '.join(filter(None, parts)) or 'the stream'}: {self.what}"


class Check(Strict):
    """One of the checks.

    Attributes:
        name: of the check.
        verdict: failed where there are findings.
        cases: things compared.
        worst_rel_l2: largest relative L2 distance of what should be equal; None where nothing is compared so.
        reason: why it was not checked, or what was left out.
        findings: the first of what does not hold.
        findings_left_out: how many more there are.
    """

    name: str
    verdict: Verdict
    cases: int = 0
    worst_rel_l2: float | None = None
    reason: str = ""
    findings: tuple[ContractViolation, ...] = ()
    findings_left_out: int = 0

    @property
    def details(self) -> str:
        """The reason and the findings, a line each."""
        more = [f"and {self.findings_left_out} more"] if self.findings_left_out else []
        return "\n".join(filter(None, [self.reason, *map(str, self.findings), *more]))


class StateFact(Strict):
    """Whether a state carries something from one chunk to later outputs.

    Attributes:
        input: the state's input.
        output: and output.
        live: whether it does.
        declared_dead: whether the contract says that it does not.
        reason: what was seen.
    """

    input: str
    output: str
    live: bool
    declared_dead: bool
    reason: str


CHECKS = (
    Column("check", "name"),
    Column("verdict", verdict("verdict")),
    Column("cases", "cases"),
    Column("worst relative L2", "worst_rel_l2", form=small),
    Column("details", "details", long=True),
)
STATES = (
    Column("input", "input"),
    Column("output", "output", places=ROOMY),
    Column("live", "live"),
    Column("declared dead", "declared_dead"),
    Column("observed", "reason", long=True),
)


class ContractCheck(Strict):
    """The document.

    Attributes:
        schema_version: of this document.
        contract: the contract as it was read.
        contract_sha256: of its file.
        target: file name and SHA-256 of model or engine.
        backend: that ran it; None for a static check only.
        session: what really executed it.
        precision: that was asked for.
        seed: of everything that was drawn.
        tolerance_rel_l2: up to which things count as equal; None where nothing was run.
        chunks: of the longest stream that was run.
        checks: in the order in which they were made.
        states: of every state pair.
        passed: whether all of it holds.
    """

    schema_version: Literal[1] = 1
    contract: dict[str, Any]
    contract_sha256: str
    target: dict[str, str]
    backend: str | None
    session: dict[str, Any] | None
    precision: str
    seed: int
    tolerance_rel_l2: float | None
    chunks: int
    checks: tuple[Check, ...]
    states: tuple[StateFact, ...]
    passed: bool

    @property
    def tables(self) -> tuple[Table, Table]:
        """The checks and the states."""
        limit = self.tolerance_rel_l2 or NONE
        note = f"Tensors count as equal up to a relative L2 of {limit}, the contract's gate for what it computes in."
        return Table(CHECKS, self.checks, "Checks", [note]), Table(STATES, self.states, "States")


def reach_of(checks: Iterable[Check]) -> Reach:
    """Return what of some checks was made, and could have failed."""
    made = [check.verdict for check in checks if check.verdict != "not checked"]
    return Reach(len(made), len(made), len(made), made.count("failed"))
