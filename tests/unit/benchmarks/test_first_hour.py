"""The script that times the first hour runs what README shows, and notices silence."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.scripts import load_script

ROOT = Path(__file__).parents[3]
FILE = ROOT / "tasks" / "benchmarks" / "first-hour" / "measure.py"


@pytest.fixture
def script() -> Any:
    return load_script(FILE)


def test_the_commands_are_readmes(script: Any) -> None:
    readme, start = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/index.md"))
    assert f"`{script.FIRST}`" in readme
    own, judged = (f"{line.replace('tasks/run', 'trtw')}\n" for line in (script.OWN, script.JUDGED))
    assert judged in readme
    assert own + judged in start.replace("\\\n    ", "")


@pytest.mark.parametrize("terminal", [True, False])
def test_silence_and_exit_codes_are_recorded(script: Any, tmp_path: Path, *, terminal: bool) -> None:
    code = "import sys, time; print(sys.stdout.isatty(), flush=True); time.sleep(0.4); print('end'); sys.exit(3)"
    done = script.run([sys.executable, "-c", code], tmp_path, os.environ, terminal=terminal)
    assert done["exit_code"] == 3
    assert done["last_lines"] == [str(terminal), "end"]
    assert 0.3 < done["longest_stillness_s"] <= done["seconds"]
    assert done["stillness_after"] in (str(terminal), "the start")


def test_a_record_has_no_places_of_its_machine(script: Any) -> None:
    said = {"a": ["git clone /some/where x", "from https://host.example/simple"], "b": 1}
    assert script.without_places(said, {"/some/where": "IT"}) == {"a": ["git clone IT x", "from URL"], "b": 1}
