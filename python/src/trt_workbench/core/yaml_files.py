"""YAML files of `key: value` lines, and the line of each value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import read_text
from trt_workbench.core.yaml_settings import Location

# No file of settings comes near them; the parser takes a second for each megabyte.
_MOST_BYTES = 2**20
_MOST_VALUES = 100_000
_WHOLE, _MOST_DIGITS = "tag:yaml.org,2002:int", 300


def read_yaml(file: Path, noun: str) -> tuple[dict[str, Any], dict[Location, int]]:
    """Return what a YAML file holds, and the line of each of its values by the keys that lead there.

    Args:
        file: of `key: value` lines.
        noun: what it holds, for messages.

    Raises:
        UsageProblem: it is absent, no YAML mapping, has tags other than YAML's own, or a key twice.
    """
    try:
        text = read_text(file, limit=_MOST_BYTES)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _require_small(node)
        document = yaml.safe_load(text)
    except OSError as error:
        raise UsageProblem(f"The file of {noun} cannot be read ({error.strerror}): {file}") from error
    # ValueError: a date or a number that cannot be, or no UTF-8; AttributeError: a tag on what is no value of its type
    except (yaml.YAMLError, ValueError, OverflowError, AttributeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise UsageProblem(
            f"The file of {noun} is not YAML ({getattr(error, 'problem', None) or error}): {file}{where}"
        ) from error
    except RecursionError as error:
        raise UsageProblem(f"The file of {noun} is nested too deeply or contains itself: {file}") from error
    if document is None:
        return {}, {}
    if not isinstance(document, dict):
        raise UsageProblem(f"The file of {noun} must contain `key: value` lines: {file}")
    return document, _lines(node, file)


def _require_small(root: yaml.Node | None) -> None:
    """Raise ValueError if the aliases of a document multiply it: ten lists of ten of the list before are 10^10 values.

    Raises RecursionError for a part that holds itself.
    """
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            if node.tag == _WHOLE and len(node.value) > _MOST_DIGITS:  # of what has more, Python makes no text
                raise ValueError(f"a number has {len(node.value)} digits")
            inner = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
            sizes[id(node)] = 1 + (sum(map(size, inner)) if isinstance(inner, list) else 0)
        return sizes[id(node)]

    if root is not None and size(root) > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES} values after its aliases are expanded")


def _lines(node: yaml.Node | None, file: Path) -> dict[Location, int]:
    """Return the line of every setting. Raises UsageProblem for one that occurs twice."""
    lines: dict[Location, int] = {}
    for location, line in _walk(node, ()):
        if location in lines:
            raise UsageProblem(f"The setting {'.'.join(map(str, location))} occurs twice: {file}:{line}")
        lines[location] = line
    return lines


def _walk(node: yaml.Node | None, location: Location) -> Iterator[tuple[Location, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*location, str(key.value))
            yield below, key.start_mark.line + 1
            yield from _walk(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*location, index), value.start_mark.line + 1
            yield from _walk(value, (*location, index))
