"""The table of widths in the page is that of the records."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "docs" / "benchmarks" / "verify"


def test_the_page_shows_what_the_script_makes_of_the_records() -> None:
    command = [sys.executable, str(FOLDER / "width.py"), "table", str(FOLDER / "width.jsonl")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert found in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "of 30 models" in found
