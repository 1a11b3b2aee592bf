"""What a gate writes: gate.json, its report, Markdown for a step summary, and JUnit's XML for a table of tests."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Literal

from pydantic import NonNegativeFloat

from trt_workbench.core.counts import grouped
from trt_workbench.core.documents import Inside, Strict, reader
from trt_workbench.core.errors import CheckFailed
from trt_workbench.report import page
from trt_workbench.report.tables import Cell, Column, Table, verdict
from trt_workbench.report.verdict import Headline, Reach

CheckName = Literal["verify", "score", "latency"]


class GateCheck(Strict):
    """One check.

    Attributes:
        name: of the part of the file.
        passed: whether it did.
        judged: whether it could have failed: what is compared with itself cannot.
        certain: whether that it passed is certain.
        exit_code: that its failure has on its own; 0 where it passed.
        text: what was found, a sentence or two.
        report: its page, relative to the run directory; None where it has none.
        seconds: how long it took.
    """

    name: CheckName
    passed: bool
    judged: bool = True
    certain: bool = True
    exit_code: int
    text: str
    report: Inside | None
    seconds: NonNegativeFloat

    @property
    def word(self) -> str:
        """Its result in a word that has a colour."""
        return _reach([self]).word()


CHECKS = (
    Column("check", "name"),
    Column("result", verdict("word")),
    Column("what was found", "text", long=True),
    Column("seconds", "seconds", 1),
    Column("report", lambda one: one.report and Cell(one.report, link=one.report), places=("page",)),
)


class GateDocument(Strict):
    """gate.json.

    Attributes:
        model: path of the model file.
        passed: whether all checks did.
        checks: in the order of the run.
    """

    schema_version: Literal[1] = 1
    model: str
    passed: bool
    checks: list[GateCheck]

    @property
    def reach(self) -> Reach:
        """What of the checks ran and could have failed."""
        return _reach(self.checks)

    @property
    def table(self) -> Table:
        """The checks."""
        return Table(CHECKS, self.checks, "Checks")

    @property
    def headline(self) -> str:
        """The result in a sentence."""
        said = grouped(self.checks, lambda one: one.word.capitalize())
        if failed := said.get("Failed"):
            return f"Failed: {_names(failed)} ({len(failed)} of {len(self.checks)})."
        return "; ".join(f"{word}: {_names(checks)}" for word, checks in said.items()) + "."


def _names(checks: Sequence[GateCheck]) -> str:
    return ", ".join(one.name for one in checks)


def _reach(checks: Sequence[GateCheck]) -> Reach:
    passed = [one for one in checks if one.passed]
    count, judged = len(checks), sum(one.judged for one in checks)
    return Reach(count, count, judged, count - len(passed), doubts=sum(not one.certain for one in passed))


read = reader("gate.json", GateDocument)


def answer(found: GateDocument) -> Headline:
    """Return what the page of a run says first."""
    return Headline([found.headline], found.reach.word())


def markdown(found: GateDocument) -> str:
    """Return the result as Markdown, a row a check."""
    return page.render("gate/summary.md.j2", found=found, table=found.table)


def junit(found: GateDocument) -> str:
    """Return the result as JUnit's XML: a check that could not be made is an error, not a failure."""
    failed = [one for one in found.checks if one.exit_code == CheckFailed.exit_code]
    errors = [one for one in found.checks if one.exit_code not in (0, CheckFailed.exit_code)]
    suite = ET.Element("testsuite", name="trtw gate", tests=str(len(found.checks)))
    suite.set("failures", str(len(failed)))
    suite.set("errors", str(len(errors)))
    suite.set("time", f"{sum(one.seconds for one in found.checks):.3f}")
    for one in found.checks:
        case = ET.SubElement(suite, "testcase", classname="trtw.gate", name=one.name, time=f"{one.seconds:.3f}")
        if one in failed + errors:
            ET.SubElement(case, "failure" if one in failed else "error", message=one.text)
        else:
            ET.SubElement(case, "system-out").text = one.text
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
