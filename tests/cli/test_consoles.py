"""What people read on a narrow terminal."""

import ast
import random
import re
import time
from pathlib import Path

import pytest
from rich.table import Column, Table
from tests.in_app import next_lines
from tests.terminal import faults, shown

import trt_workbench
from trt_workbench.console.common import handled, print_table
from trt_workbench.console.progress import EVERY_S, progress_bar, waiting
from trt_workbench.report.tables import Table as Declared

SOURCE = Path(trt_workbench.__file__).parent


def test_a_figure_is_whole_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "16")
    print_table(Declared(("runtime", "milliseconds"), [("ort-cpu", "12345.6789")]))

    shown = capsys.readouterr().out
    assert "12345.6789" in shown


NAME = "/one_to_one/boxes.0/boxes.0.1/boxes.0.1.0/Conv"


OF_PAGES = ("TENSORS = ", "WORST = ")


def elsewhere(column: ast.Call) -> bool:
    """Whether a column is not for a terminal."""
    places = [ast.unparse(one.value) for one in column.keywords if one.arg == "places"]
    return "ROOMY" in places or "('page',)" in places or "('Markdown',)" in places


def headings() -> dict[str, list[str]]:
    """Return the headings of every table that a command prints, by the place in its source."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        of_pages = [ast.dump(one.value) for one in tree.body if ast.unparse(one).startswith(OF_PAGES)]  # type: ignore[attr-defined]
        for node in ast.walk(tree):
            if ast.dump(node) in of_pages:
                continue
            heads: list[ast.expr] = []
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Table":
                heads = getattr(node.args[0], "elts", [])
            elif isinstance(node, ast.Tuple | ast.List) and any("Column(" in ast.unparse(one) for one in node.elts):
                calls = [one for one in node.elts if isinstance(one, ast.Call) and ast.unparse(one.func) == "Column"]
                heads = [one.args[0] for one in calls if not elsewhere(one)]
            names = [one.value if isinstance(one, ast.Constant) else "figure" for one in heads]
            found[f"{path.relative_to(SOURCE)}:{node.lineno if heads else 0}"] = [str(name) for name in names]
    return found


@pytest.mark.long
def test_every_table_of_a_command_has_a_line_for_each_row_in_80_columns() -> None:
    """With a long name in front, and as many columns of figures as it has headings."""
    tables = {place: names for place, names in headings().items() if len(names) > 1}
    assert len(tables) > 30
    wrong = {}
    for place, names in tables.items():
        table = Table(Column(names[0], overflow="crop"), *names[1:], title="Of a model")
        for row in range(5):
            table.add_row(f"{NAME}.{row}", *[f"{row}.5678"] * (len(names) - 1))
        lines = shown(table)
        rows = [line for line in lines if ".5678" in line]
        cut = len(names) < 8 and not all("Conv." in row for row in rows)
        if faults(table) or len(rows) != 5 or max(map(len, lines)) > 80 or cut:
            wrong[place] = lines
    assert wrong == {}


def test_a_name_keeps_its_ends_and_a_sentence_goes_on_in_the_next_line() -> None:
    table = Table(Column("node", overflow="crop"), "why", "ms")
    table.add_row(NAME * 2, "it has no kernel for this type; keep it in fp32 and build the engine again", "1234.5678")
    lines = [line.rstrip() for line in shown(table)]
    row = next(line for line in lines if line.lstrip().startswith("/one"))
    assert "…" in row
    assert "Conv" in row
    assert row.endswith("1234.5678")
    said = " ".join("".join(line[len(row.split()[0]) :] for line in lines[lines.index(row) :]).split())
    assert "keep it in fp32" in said


@pytest.mark.long
def test_tables_of_any_cells_have_whole_words() -> None:
    draw = random.Random(0)
    words = [
        "fp16",
        "right",
        "a sentence of several words that says why",
        NAME,
        "+1.25e-07",
        "99.9 %",
        "1x3x640x640",
        "",
    ]
    for _ in range(200):
        count = draw.randint(1, 9)
        heads = (draw.choice(["ms", "name", "times as long"]) for _ in range(count))
        table = Table(*(Column(one, overflow=draw.choice(["fold", "crop"])) for one in heads))
        for _ in range(draw.randint(1, 6)):
            table.add_row(*(draw.choice(words) for _ in range(count)))
        assert faults(table) == []


def test_without_a_terminal_every_command_says_what_it_is_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The innermost thing that has something to say is what is said; nothing is, once the command ended."""
    monkeypatch.setattr("trt_workbench.console.progress.EVERY_S", 0.05)

    def said() -> str:
        return re.sub(r"^\[\d+ s\] ", "", next_lines(capsys)[-1])

    @handled
    def slow() -> None:
        assert said() == "Still running"
        with waiting("Opening") as update, progress_bar("images") as images, progress_bar("tokens") as tokens:
            advance, count = images("Evaluating"), tokens("Timing")
            assert said() == "Opening"
            update("Open")
            assert said() == "Open"
            advance(3, 40)  # what is there at the beginning took no time
            assert said() == "Evaluating: 3 of 40 images"
            began = time.perf_counter
            monkeypatch.setattr(time, "perf_counter", lambda: began() + 2)
            advance(3, 40)
            assert re.fullmatch(r"Evaluating: 3 of 40 images, [\d.]+ images/s", said())
            count(0, 2)
            assert said() == "Timing: 0 of 2 tokens"
            count(0, 2, "loading a model")
            assert said() == "Timing: 0 of 2 tokens; loading a model"
            count(2, 2)
            assert said().startswith("Evaluating: 3 of 40")
            advance(40, 40)
            assert said() == "Open"

    slow()
    capsys.readouterr()
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_a_silent_command_speaks_within_five_seconds() -> None:
    assert EVERY_S < 5
