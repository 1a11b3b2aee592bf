"""What the page of the first engine shows is what the commands print, over the double of the core."""

import re
import shutil
from pathlib import Path

import pytest
from tests.guides import FENCE, ROOT
from tests.in_app import trtw

from trt_workbench.core.workspace import embedded_model

PAGE = (ROOT / "docs" / "guides" / "start.md").read_text(encoding="utf-8")
QUICK = {"build-engine": ("--verify", "off"), "infer-engine": ("--duration", "0.05", "--no-single-calls")}


def plain(text: str) -> str:
    """Return text without the lines of tables and with single blanks."""
    return " ".join(re.sub(r"[\u2500-\u257f]", " ", text).split())


def test_the_first_engine_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    place = tmp_path / "models" / "shapes-yolov10"
    place.mkdir(parents=True)
    shutil.copy(embedded_model(), place)
    section = PAGE.split("## 5. The first engine")[1].split("\n## ")[0]
    commands = [line.split()[4:] for line in section.splitlines() if line.startswith("pixi run -e gpu ")]
    blocks = [body for kind, _, body in FENCE.findall(section) if not kind]
    assert [one[0] for one in commands] == [*QUICK]
    for words, block in zip(commands, blocks, strict=True):
        done = trtw(*words, *QUICK[words[0]])
        assert done.exit_code == 0, done.output
        shown = [plain(part) for line in block.splitlines() for part in line.split("…")]
        assert [part for part in shown if part not in plain(done.output)] == []
