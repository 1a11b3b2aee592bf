"""No module but the table lists formats: what another one needs, it derives from the rows."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import trt_workbench
from trt_workbench.core.precision import FORMATS, precisions

PACKAGE = Path(trt_workbench.__file__).parent
NAMES = {one.name for one in FORMATS} | set(precisions())
# Names of the same types in ONNX; FLOAT and DOUBLE are what most operators have, whatever is computed.
TYPES = {name for one in FORMATS if one.is_float for name in one.onnx} - {"FLOAT", "DOUBLE"}


def listed(source: str) -> Iterator[tuple[int, set[str]]]:
    """Yield line and names of every collection, type or mapping that names two formats or more."""
    said = sum(name in source for name in NAMES | TYPES)
    for node in ast.walk(ast.parse(source if said > 1 else "")):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = [*node.elts]
        elif isinstance(node, ast.Dict):
            parts = [*node.keys, *node.values]
        found = {name for part in parts for name in named(part)}
        if len(found) > 1:
            yield node.lineno, found


def named(part: ast.expr | None) -> Iterator[str]:
    if isinstance(part, ast.Constant) and part.value in NAMES:
        yield part.value
    if isinstance(part, ast.Attribute) and part.attr in TYPES:
        yield part.attr
    if isinstance(part, ast.Tuple | ast.List):
        for one in part.elts:
            yield from named(one)


def test_no_other_list_of_formats() -> None:
    lists = {str(path): list(listed(path.read_text(encoding="utf-8"))) for path in PACKAGE.rglob("*.py")}
    assert {path: found for path, found in lists.items() if found} == {}


def test_a_list_is_found() -> None:
    source = """
A = ("fp32", "fp16")
B = {"int8": 1, "other": 2, "fp8": 3}
C = Literal["bf16", "int4-weights"]
D = {TensorProto.FLOAT16, TensorProto.BFLOAT16}
E = (("fp8", r"e4m3"), ("fp4", r"e2m1"))
F = ("int8", "uint8", "float16"), {"fp32": "FLOAT"}
"""
    assert sorted(line for line, _ in listed(source)) == [2, 3, 4, 5, 6]


def test_the_core_has_the_flags_of_the_table() -> None:
    """The C++ core cannot read the table: `BuildOptions` has a flag for each that the table names, and no other."""
    options = (PACKAGE.parents[2] / "cpp/include/trtw/build_options.def").read_text(encoding="utf-8")
    flags = re.findall(r"(?m)^TRTW_OPTION\(((?:fp|bf|tf|int)\d+), .*\bbool\)", options)
    assert sorted(flags) == sorted({one.flag for one in FORMATS if one.flag})
