"""The table of widths in the page is that of the records."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPT, RECORDS = (ROOT / place / "benchmarks" / "verify" for place in ("tasks", "docs"))


def test_the_page_shows_what_the_script_makes_of_the_records() -> None:
    command = [sys.executable, str(SCRIPT / "width.py"), "table", str(RECORDS / "width.jsonl")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert found in (RECORDS / "README.md").read_text(encoding="utf-8")
    assert "of 30 models" in found
