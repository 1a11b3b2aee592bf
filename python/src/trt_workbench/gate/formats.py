"""A gate's result for other programs: Markdown for a step summary, JUnit's XML for a table of tests."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from trt_workbench.core.errors import CheckFailed
from trt_workbench.gate.document import GateDocument
from trt_workbench.report.verdict import tone

_SIGNS = {"good": "✓", "doubt": "?", "bad": "✗", "plain": "="}


def markdown(found: GateDocument) -> str:
    """Return the result as Markdown, a row a check."""
    rows = [f"## Gate of {_cell(found.model)}: {found.headline}", "", "| check | result | what was found | time |"]
    rows.append("| --- | --- | --- | ---: |")
    for one in found.checks:
        result = f"{_SIGNS[tone(one.word)]} {one.word}"
        rows.append(f"| {one.name} | {result} | {_cell(one.text)} | {one.seconds:.0f} s |")
    return "\n".join(rows) + "\n"


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


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
