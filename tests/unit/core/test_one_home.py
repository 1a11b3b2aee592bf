"""Arrays are compared in `core/` alone: no other module has a distance, a cosine or a share of changed elements."""

import ast
import re
from pathlib import Path

import pytest

import trt_workbench

PACKAGE = Path(trt_workbench.__file__).parent
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
NAMES = {"allclose", "isclose", "array_equal", "array_equiv", "norm", "cosine", "assert_allclose", "assert_array_equal"}
LENGTHS = {"abs", "absolute", "fabs", "square", "sum"}
_CALLED = re.compile(rf"\.\s*({'|'.join((*NAMES, *LENGTHS, 'mean'))})\b")
# What looks like it and compares no outputs.
ELSEWHERE = {
    "vision/scenes/render.py": ["np.linalg.norm(direction)"],  # of colours; the data set stays bit for bit
    "vision/rotated.py": [  # the area of polygons
        "(x * np.roll(y, -1, axis=1) - np.roll(x, -1, axis=1) * y).sum(axis=1)"
    ],
    "vision/families/yolox.py": ["np.abs(centres - origin[::_SAMPLE])"],  # whether boxes lie on a grid
}


def comparisons(text: str) -> list[str]:
    """Return the expressions of a module that compare arrays in their own way."""
    found: list[str] = []
    if not _CALLED.search(text):  # to parse the package takes seconds
        return found
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, of_library = node.func.attr, ast.unparse(node.func).startswith(("np.", "numpy.", "scipy."))
        given = node.args[0] if of_library and node.args else node.func.value
        less = isinstance(given, ast.BinOp) and isinstance(given.op, ast.Sub)
        unlike = isinstance(given, ast.Compare) and isinstance(given.ops[0], ast.Eq | ast.NotEq)
        if (of_library and name in NAMES) or (name in LENGTHS and less) or (name == "mean" and unlike):
            found.append(ast.unparse(node))
    return found


def test_no_other_module_compares_arrays() -> None:
    elsewhere = [one for one in MODULES if not one.startswith("core/")]
    found = {module: comparisons((PACKAGE / module).read_text(encoding="utf-8")) for module in elsewhere}
    assert {module: ones for module, ones in found.items() if ones} == ELSEWHERE


@pytest.mark.parametrize(
    "text",
    [
        "np.allclose(a, b)", "np.linalg.norm(a)", "np.abs(a - b).max()", "np.square(one - other).sum()",
        "(a != b).mean()", "np.mean(a == b)", "np.testing.assert_allclose(a, b)", "scipy.spatial.distance.cosine(a, b)",
        "(a - b).sum()",
    ],
)  # fmt: skip
def test_a_comparison_would_be_found(text: str) -> None:
    assert comparisons(text)


def own_hash_checks(text: str) -> list[str]:
    """Return the comparisons of a module with the hash of a file, which `core.hashing.has_hash` makes."""
    tree = ast.parse(text if "hash_file" in text else "")
    compared = (node for node in ast.walk(tree) if isinstance(node, ast.Compare))
    sides = [(node, side) for node in compared for side in (node.left, *node.comparators)]
    return [
        ast.unparse(node)
        for node, side in sides
        if isinstance(side, ast.Call) and ast.unparse(side.func) == "hash_file"
    ]


def test_whether_a_file_has_a_hash_is_asked_in_one_place() -> None:
    found = {module: own_hash_checks((PACKAGE / module).read_text(encoding="utf-8")) for module in MODULES}
    assert {module: ones for module, ones in found.items() if ones} == {
        "backends/kept_reference.py": ["hash_file(path) == one.sha256"],  # says why one cannot be read
        "core/hashing.py": ["hash_file(path) == sha256"],
    }
