"""The one reader and writer of JSON: what any damaged document is refused for, and what comes back."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.texts import refused
from typing_extensions import TypedDict

from trt_workbench.core.documents import (
    Open,
    Strict,
    append_lines,
    having,
    read_document,
    read_lines,
    without,
    write_json,
)
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import anything


class Part(TypedDict):
    name: str


class Found(Strict):
    schema_version: Literal[1] = 1
    count: int
    share: float | None = None
    parts: list[Part] = []
    facts: Annotated[dict[str, Any], having("seed")] = {"seed": 0}


class Later(Found):
    _earlier = without("gone", "left")


class Loose(Open):
    count: int


DAMAGE = [
    (b"\xff\xfe", "is not UTF-8 text"),
    (b'{"count": 1', "is not JSON; it is damaged or truncated"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"count": ' + b"9" * 5000 + b"}", "no JSON .*digits"),
    (b'{"count": 1, "share": NaN}', "not finite: NaN"),
    (b'{"count": 1, "facts": {"seed": 1e999}}', "not finite: 1e999"),
    (b"[]", r"damaged \("),
    (b'{"schema_version": 2, "other": 1}', "has schema version 2, which this release does not read"),
    (b'{"schema_version": null, "count": 1}', "has schema version None"),
    (b"{}", r"damaged at count \(is missing\)"),
    (b'{"count": "many"}', r"damaged at count \(must be a whole number"),
    (b'{"count": 1e300}', "damaged at count"),
    (b'{"count": 1, "cuont": 1}', r"damaged at cuont \(extra inputs"),
    (b'{"count": 1, "parts": [{"name": "a"}, {}]}', r"damaged at parts\.1\.name \(is missing\)"),
    (b'{"count": 1, "facts": {}}', r"damaged at facts \(it lacks seed\)"),
]


@pytest.mark.parametrize("empty", ["null", "[]", "{}"])
def test_a_key_of_an_earlier_release_is_left_out_where_it_holds_nothing(tmp_path: Path, empty: str) -> None:
    path = tmp_path / "found.json"
    path.write_text(f'{{"count": 0, "gone": {empty}}}', encoding="utf-8")
    assert read_document(path, Later) == Later(count=0)
    path.write_text('{"count": 0, "gone": [1]}', encoding="utf-8")
    with pytest.raises(UsageProblem, match="damaged at gone"):
        read_document(path, Later)


@pytest.mark.parametrize(("content", "message"), DAMAGE, ids=[message for _, message in DAMAGE])
def test_damage_is_named_with_file_and_key(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "found.json"
    path.write_bytes(content)
    with refused(UsageProblem) as caught:
        read_document(path, Found, "make it again")
    assert ("; make it again" in str(caught.value)) == ("UTF-8" not in message)
    path.write_bytes(b'{"count": 1}\n\n' + content)
    with refused(UsageProblem):
        read_lines(path, Found)


def test_what_is_no_file_of_a_run_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "file").touch()
    for path in (
        tmp_path / "pipe.json",
        tmp_path / "none.json",
        tmp_path / "none" / "run.json",
        tmp_path / "file" / "run.json",
    ):
        with refused(UsageProblem):
            read_document(path, Found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*Found.model_fields, "x"]), inner),
)


@pytest.mark.long
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_whatever_json_holds_is_read_or_refused(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "found.json"
    path.write_text(json.dumps(document))
    try:
        found = read_document(path, Found)
    except UsageProblem as error:
        assert str(path) in str(error)  # noqa: PT017 - a document may be right
    else:
        write_json(path, found, over=anything)
        assert read_document(path, Found) == found


TEXT = st.text(st.characters(codec=None, exclude_categories=()))
WHOLE = st.integers(-(2**63), 2**64 - 1)  # readers refuse what 64 bits cannot hold


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.builds(Found, count=WHOLE, parts=st.lists(st.fixed_dictionaries({"name": TEXT})))))
def test_lines_come_back_whatever_text_they_hold(tmp_path: Path, written: list[Found]) -> None:
    path = tmp_path / "found.jsonl"
    path.unlink(missing_ok=True)
    append_lines(path, written[:1])
    append_lines(path, written[1:])
    assert read_lines(path, Found) == written


@dataclass(frozen=True)
class Size:
    bytes: int
    where: Path


def test_what_is_no_field_is_kept_and_dataclasses_are_written(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", Loose.model_validate({"count": 1, "more": [Size(2, Path("x"))]}))
    assert read_document(tmp_path / "a.json", Loose).model_dump() == {"count": 1, "more": [{"bytes": 2, "where": "x"}]}


@pytest.mark.parametrize("document", [{"a": math.nan}, Found.model_construct(count=1, share=math.inf)])
def test_what_json_cannot_carry_is_not_written(tmp_path: Path, document: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "file.json", document)
    assert list(tmp_path.iterdir()) == []
