"""docs/benchmarks stays small, links and named programs exist, and every record says what it was measured on."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "docs" / "benchmarks"
PAGES = sorted(BENCHMARKS.rglob("*.md"))
QUESTIONS = [page for page in PAGES if page.name not in ("note.md", "report.md")]  # without what belongs to a run
RECORDS = sorted(path for path in BENCHMARKS.rglob("*") if path.is_file() and path.suffix != ".md")
MOST_BYTES = 5_000_000


def measured_on() -> dict[str, str]:
    """The commits by the beginning of a record's path, as the page's table has them."""
    section = (BENCHMARKS / "README.md").read_text(encoding="utf-8").split("## Commits\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\S.*?) \| (.*?) \|$", section, re.MULTILINE)[2:]
    return {start: commits for starts, commits in rows for start in starts.split(", ")}


def test_pages_and_records_are_small() -> None:
    assert sum(path.stat().st_size for path in (*PAGES, *RECORDS)) <= MOST_BYTES


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_links_and_programs_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [page.parent / target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    targets += [ROOT / name for name in re.findall(r"\btasks/benchmarks/[\w./-]+\.(?:py|yaml)\b", text)]
    assert [str(target) for target in targets if not target.exists()] == []
    assert "docs/benchmarks/" not in "".join(re.findall(r"^(?:python|trtw) .*", text, re.MULTILINE))


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_a_page_says_what_it_was_measured_on(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.search(r"\b[0-9a-f]{8,12}\b|README.md#commits", text)


def test_every_record_has_its_commits_and_every_row_its_records() -> None:
    rows = measured_on()
    used = set()
    for path in RECORDS:
        name = str(path.relative_to(BENCHMARKS))
        starts = [start for start in rows if name.startswith(start)]
        assert len(starts) == 1, name
        used.update(starts)
        if path.name.startswith("env"):
            assert json.loads(path.read_bytes())["git"]["commit"][:8] in rows[starts[0]], name
    assert used == set(rows)


def test_records_name_no_folder_of_the_machine_that_made_them() -> None:
    named = {
        str(path.relative_to(BENCHMARKS))
        for path in RECORDS
        if re.search(rb'"/(?:home|root|tmp|work)/', path.read_bytes())
    }
    assert named == set()
