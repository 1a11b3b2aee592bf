"""One name for one thing: public classes, and the entries of docs/reference/glossary.md."""

import ast
import re
from collections import Counter
from pathlib import Path

import trt_workbench

PACKAGE = Path(trt_workbench.__file__).parent
GLOSSARY = Path(__file__).parents[2] / "docs" / "reference" / "glossary.md"
MOST_WORDS = 40
_ENTRY = re.compile(r"^\| ([^|`]+) \| [^|]+ \| `([\w/]+\.py)`: `(\w+)` \|$", re.MULTILINE)


def classes(path: Path) -> list[str]:
    return [node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]


def test_no_two_public_classes_have_one_name() -> None:
    found = Counter(name for path in PACKAGE.rglob("*.py") for name in classes(path) if not name.startswith("_"))
    twice = {name for name, count in found.items() if count > 1}
    assert twice == set()


def test_every_entry_of_the_glossary_is_in_the_code() -> None:
    text = GLOSSARY.read_text("utf-8")
    entries = _ENTRY.findall(text)
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]  # after the head and its rule
    assert 0 < len(entries) == len(rows) <= MOST_WORDS
    assert len({word for word, _, _ in entries}) == len(entries)
    assert [(file, name) for _, file, name in entries if name not in classes(PACKAGE / file)] == []
