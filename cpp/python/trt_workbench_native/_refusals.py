"""The words of a wrong argument."""

from __future__ import annotations

import ast
import inspect
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

# pybind11's words for a parameter's type, and a program's
_WORDS = (
    (r"typing\.SupportsInt \| typing\.SupportsIndex", "int"),
    (r"typing\.SupportsFloat \| typing\.SupportsIndex", "float"),
    (r"Annotated\[(.*), .FixedSize\((\d+)\).\]", r"\1 of \2"),
    (r"\b(typing|collections\.abc|trt_workbench_native\._core|numpy)\.", ""),
)


def reworded(name: str, error: Exception, placed: tuple[Any, ...], named: dict[str, Any]) -> str | None:
    """Return what a call that pybind11 refused says instead; None for an error that is none of its refusals.

    Args:
        name: The function's, `Runner.measure`, or the property's.
        error: What pybind11 raised.
        placed: What was passed by place, `self` included.
        named: What was passed by name.
    """
    text = str(error)
    if unable := re.match(r"Unable to cast Python instance of type <class '(.+?)'>", text):
        return f"{name} does not take a value of type {unable[1]} there"
    if not (listed := re.search(r"incompatible (function|constructor) arguments.*?:\n    1\. (.*)\n", text)):
        return None
    is_property, signature = text.startswith("():"), listed[2]
    name = name.removesuffix(".__init__")
    if listed[1] == "constructor":
        signature = "(self, " + signature.partition("(")[2]
    call = _python_function(name, signature)
    try:
        call(*placed, **named)
    except TypeError as refusal:  # too many, too few, or of another name: in Python's own words
        return str(refusal)
    parameters = inspect.signature(call).parameters
    given = {
        key: (value, re.sub(r"^'|'$", "", parameters[key].annotation))
        for key, value in inspect.signature(call).bind(*placed, **named).arguments.items()
        if parameters[key].annotation is not inspect.Parameter.empty
    }
    for key, (value, annotation) in given.items():
        if not _fits(value, ast.parse(annotation, mode="eval").body):
            place = "" if is_property else f" for argument {key!r}"
            return f"{name}{'' if is_property else '()'} takes {_shown_type(annotation)}{place}, not {_shown(value)}"
    numbers = [f"{key}={_shown(value)}" for key, (value, kind) in given.items() if "Supports" in kind]
    return f"{name}{'' if is_property else '()'} got a number out of range: {', '.join(numbers)}"


def _python_function(name: str, signature: str) -> Callable[..., None]:
    """Return a function in Python with the parameters of a signature of pybind11, which does nothing."""
    space: dict[str, Any] = {}
    signature = re.sub(r"= <[^>]*>", "= ...", signature)
    exec(f"from __future__ import annotations\ndef call{signature}: ...", space)
    call: Callable[..., None] = space["call"]
    call.__qualname__ = name
    return call


def _fits(value: Any, kind: ast.expr) -> bool:
    """Return whether pybind11 could take a value for a type, the bounds of numbers aside."""
    if isinstance(kind, ast.BinOp):
        return _fits(value, kind.left) or _fits(value, kind.right)
    if isinstance(kind, ast.Constant):
        return value is None if kind.value is None else True
    outer, inner = (kind.value, kind.slice) if isinstance(kind, ast.Subscript) else (kind, None)
    word = ast.unparse(outer).rpartition(".")[2]
    parts = inner.elts if isinstance(inner, ast.Tuple) else [] if inner is None else [inner]
    if word == "Annotated":
        return _fits(value, parts[0]) and len(value) == int(re.sub(r"\D", "", ast.unparse(parts[1])))
    if word in {"Mapping", "dict"}:
        return isinstance(value, Mapping) and all(
            _fits(one, kind) for item in value.items() for one, kind in zip(item, parts, strict=False)
        )
    if word in {"Sequence", "list", "tuple"}:
        if isinstance(value, str | bytes) or not hasattr(type(value), "__getitem__") or not hasattr(value, "__len__"):
            return False
        kinds = parts if word == "tuple" else parts * len(value)
        return not parts or (len(kinds) == len(value) and all(map(_fits, value, kinds)))
    return _is_a(value, word)


def _is_a(value: Any, word: str) -> bool:
    from . import _core  # type: ignore[attr-defined]

    own = getattr(_core, word, None)
    if isinstance(own, type):
        return isinstance(value, own)
    return {
        "str": lambda: isinstance(value, str | bytes),
        "bytes": lambda: isinstance(value, bytes),
        "bool": lambda: hasattr(type(value), "__bool__"),
        "Callable": lambda: callable(value),
        "SupportsInt": lambda: hasattr(type(value), "__int__") and not isinstance(value, float),
        "SupportsFloat": lambda: hasattr(type(value), "__float__"),
        "SupportsIndex": lambda: hasattr(type(value), "__index__"),
        "ndarray": lambda: any(one.__name__ == "ndarray" for one in type(value).__mro__),
    }.get(word, lambda: True)()


def _shown_type(annotation: str) -> str:
    for pattern, words in _WORDS:
        annotation = re.sub(pattern, words, annotation)
    return annotation


def _shown(value: Any) -> str:
    plain = value is None or type(value) in (bool, int, float, str, list, tuple, dict)
    return " ".join(reprlib.repr(value).split()) if plain else type(value).__name__
