"""The size of the code is a budget that only falls: statements, modules, settings and commands, by package.

`budget.json` has each package's number. What a change adds is paid for by what it deletes, so the sums of the file
never rise from one commit of it to the next. After a change that makes the code smaller, write today's numbers:

    python tests/unit/test_budget.py

Statements of the syntax tree are counted, not lines: no layout buys room. Docstrings, imports and tests do not count.
"""

import ast
import itertools
import json
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from trt_workbench.app import OWN_COMMANDS

ROOT = Path(__file__).parents[2]
BUDGET = Path(__file__).with_name("budget.json")
KINDS = ("statements", "modules", "settings", "commands")

Sizes = dict[str, dict[str, int]]


def package_of(path: Path) -> str:
    """The package of a module below `python/`: a folder of the core, or a plug-in."""
    if path.parts[0] == "plugins":
        return "/".join(path.parts[:2])
    return path.parts[2] if len(path.parts) > 3 else "(top)"


def counted(source: str) -> Counter[str]:
    """The statements and settings of a module, which is one module."""
    found = Counter(modules=1)
    for node in ast.walk(ast.parse(source)):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        found["statements"] += (
            isinstance(node, ast.stmt) and not docstring and not isinstance(node, ast.Import | ast.ImportFrom)
        )
        found["settings"] += isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Setting"
    return found


def today(root: Path) -> Sizes:
    """The size of each package below the folder `python/` of a checkout."""
    sizes: dict[str, Counter[str]] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root)
        if "tests" not in parts.parts:
            sizes.setdefault(package_of(parts), Counter()).update(counted(path.read_text(encoding="utf-8")))
    sizes.setdefault("(top)", Counter())["commands"] = len(OWN_COMMANDS)
    for path in sorted(root.glob("plugins/*/pyproject.toml")):
        points = tomllib.loads(path.read_text(encoding="utf-8"))["project"].get("entry-points", {})
        sizes[f"plugins/{path.parent.name}"]["commands"] = len(points.get("trt_workbench.commands", ()))
    return {package: {kind: size[kind] for kind in KINDS if size[kind]} for package, size in sorted(sizes.items())}


def sums(sizes: Sizes) -> dict[str, int]:
    return {kind: sum(size.get(kind, 0) for size in sizes.values()) for kind in KINDS}


def above(sizes: Sizes, budget: Sizes) -> list[str]:
    """Every number that is above its budget, in words."""
    return [
        f"{package}: {number} {kind}, where the budget allows {budget.get(package, {}).get(kind, 0)}"
        for package, size in sizes.items()
        for kind, number in size.items()
        if number > budget.get(package, {}).get(kind, 0)
    ]


def risen(versions: list[Sizes]) -> list[str]:
    """Every kind whose sum rises from one version to the next, oldest first."""
    return [
        f"{kind} rose from {sums(before)[kind]} to {sums(after)[kind]}"
        for before, after in itertools.pairwise(versions)
        for kind in KINDS
        if sums(after)[kind] > sums(before)[kind]
    ]


def committed(repository: Path, file: str) -> list[Sizes]:
    """The versions of a file in the history of the commit that is checked out, oldest first."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=True).stdout

    commits = git("log", "--reverse", "--topo-order", "--first-parent", "--format=%H", "--", file).split()
    return [json.loads(git("show", f"{commit}:{file}")) for commit in commits]


def test_no_package_is_above_its_budget() -> None:
    assert above(today(ROOT / "python"), json.loads(BUDGET.read_text())) == []


def test_the_budget_never_rises() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git history here")
    versions = committed(ROOT, BUDGET.relative_to(ROOT).as_posix())
    assert risen([*versions, json.loads(BUDGET.read_text())]) == []


def test_what_is_counted() -> None:
    source = (
        '"""A."""\nimport os\nfrom a import b\ndef f(x: Annotated[int, Setting("x")]):\n """B."""\n if x:\n  return 1'
    )
    assert counted(source) == {"modules": 1, "statements": 3, "settings": 1}


def test_packages_are_folders_of_the_core_and_plug_ins(tmp_path: Path) -> None:
    for name in ("src/trt_workbench/app.py", "src/trt_workbench/vision/families/a.py", "plugins/x/src/x/b.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("x = 1\n")
    points = '[project.entry-points."trt_workbench.commands"]\na = "x.b:a"\nb = "x.b:b"\n'
    (tmp_path / "plugins/x/pyproject.toml").write_text(points)
    hidden = tmp_path / "plugins/x/tests/test_b.py"
    hidden.parent.mkdir()
    hidden.write_text("y = 1\n" * 9)
    found = today(tmp_path)
    assert {package: size["statements"] for package, size in found.items()} == {"(top)": 1, "vision": 1, "plugins/x": 1}
    assert found["plugins/x"]["commands"] == 2


def test_a_package_above_its_number_and_one_without_a_number_are_named() -> None:
    budget = {"core": {"statements": 10, "modules": 1}}
    assert above({"core": {"statements": 10, "modules": 1}}, budget) == []
    assert above({"core": {"statements": 11, "modules": 1}, "new": {"modules": 1}}, budget) == [
        "core: 11 statements, where the budget allows 10",
        "new: 1 modules, where the budget allows 0",
    ]


def test_numbers_may_move_but_not_their_sum(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        person = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *person, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for statements in ((7, 3), (2, 8), (2, 7), (3, 7)):
        sizes = {name: {"statements": number} for name, number in zip("ab", statements, strict=True)}
        (tmp_path / "budget.json").write_text(json.dumps(sizes))
        git("add", ".")
        git("commit", "-m", "x")
    versions = committed(tmp_path, "budget.json")
    assert risen(versions[:3]) == []
    assert risen(versions) == ["statements rose from 9 to 10"]


if __name__ == "__main__":
    BUDGET.write_text(json.dumps(today(ROOT / "python"), indent=1, sort_keys=True) + "\n")
