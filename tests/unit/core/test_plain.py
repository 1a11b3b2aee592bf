"""Dataclasses are read as pydantic reads them, wherever they are read without it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import TypeAdapter

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.plain import Plain, plain, read_plain
from trt_workbench.core.settings import Setting


@dataclass(frozen=True, kw_only=True)
class Part(Plain):
    """A part."""

    number: int
    share: float | None = None
    many: Annotated[int, Setting(min=1)] = 1


@dataclass(frozen=True, kw_only=True)
class Whole(Plain):
    """A whole."""

    version: Literal[1, 2] = 2
    name: str
    anything: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    part: Part | None = None


_RIGHT = [
    {"name": "a"},
    {"name": "a", "version": 1, "anything": {"x": [1, None, {"y": 1.5}]}, "texts": {"k": "v"}},
    {"name": "a", "shapes": {"x": [1, 2], "y": []}, "part": None},
    {"name": "a", "parts": [{"number": 1}, {"number": 2, "share": 3}], "part": {"number": 0, "share": 0.5}},
]
_OTHER = [
    None,
    [],
    {},
    {"name": 1},
    {"name": None},
    {"name": "a", "version": 3},
    {"name": "a", "version": "1"},
    {"name": "a", "more": 1},
    {"name": "a", "__pydantic_config__": {}},
    {"name": "a", "texts": {"k": 1}},
    {"name": "a", "texts": []},
    {"name": "a", "shapes": {"x": 1}},
    {"name": "a", "shapes": {"x": ["1"]}},
    {"name": "a", "shapes": {"x": [1.0]}},
    {"name": "a", "parts": {"number": 1}},
    {"name": "a", "parts": [{"number": True}]},
    {"name": "a", "parts": [{"share": 1.0}]},
    {"name": "a", "part": {"number": 1, "share": float("inf")}},
    {"name": "a", "part": {"number": 1, "share": 10**400}},
    {"name": "a", "part": {"number": 1, "share": "0.5"}},
    {"name": "a", "part": {"number": 1, "many": 0}},
]


@pytest.mark.parametrize("document", _RIGHT, ids=json.dumps)
def test_what_is_right_is_read(document: Any) -> None:
    assert plain(Whole, document) == TypeAdapter(Whole).validate_python(document)


@pytest.mark.parametrize("document", _OTHER, ids=json.dumps)
def test_what_pydantic_refuses_or_converts_is_left_to_it(document: Any) -> None:
    with pytest.raises((LookupError, OverflowError, TypeError, ValueError)):
        plain(Whole, document)


@pytest.mark.parametrize("version", [True, 1.0], ids=str)
def test_a_literal_is_the_value_that_it_equals(version: object) -> None:
    found = plain(Whole, {"name": "a", "version": version})
    assert repr(found) == repr(TypeAdapter(Whole).validate_python({"name": "a", "version": 1}))


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400])
def test_a_file_with_a_number_beyond_all_is_refused(number: str, tmp_path: Path) -> None:
    file = tmp_path / "whole.json"
    file.write_text(f'{{"name": "a", "part": {{"number": 1, "share": {number}}}}}', encoding="utf-8")
    with pytest.raises(UsageProblem, match="share"):
        read_plain(file, Whole)
