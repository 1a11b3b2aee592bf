"""Reading JSON that comes from outside."""

import os
import tracemalloc
from pathlib import Path

import pytest

from trt_workbench.core import input_files
from trt_workbench.core.input_files import MOST_TEXT, parse_json, read_bytes, read_json, read_text


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1E+400", "1" + "0" * 400 + ".0"])
@pytest.mark.parametrize("encoded", [False, True])
def test_numbers_that_are_not_finite_are_refused(number: str, encoded: bool) -> None:
    text = f'{{"a": [1, {number}]}}'
    with pytest.raises(ValueError, match="not finite"):
        parse_json(text.encode() if encoded else text)
    assert abs(parse_json(text, finite=False)["a"][1]) != 1


@pytest.mark.parametrize("number", [10**30, 2**64, -(2**63) - 1, 10**4000])
def test_numbers_of_more_than_64_bits_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match="more than 64 bits"):
        parse_json(f'{{"a": [{number}]}}')
    assert parse_json(f"[{2**64 - 1}, {-(2**63)}, 0.{'1' * 30}]") == [2**64 - 1, -(2**63), float(f"0.{'1' * 30}")]


@pytest.mark.parametrize(("text", "value"), [("1e300", 1e300), ("-2.5e-400", -0.0), ("[1.5, 1e2]", [1.5, 100.0])])
def test_finite_numbers_are_read(text: str, value: object) -> None:
    assert parse_json(text) == value


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(b'\xef\xbb\xbf["a"]')
    assert (read_text(path), read_json(path), parse_json(read_bytes(path))) == ('["a"]', ["a"], ["a"])


@pytest.mark.parametrize("size", [2**20, 2**28, MOST_TEXT, MOST_TEXT + 1, 2**40])
@pytest.mark.parametrize("begin", [b"", b"{", b'{"a": [', b" " * 100])
def test_room_without_content_costs_nothing(size: int, begin: bytes, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(begin)
    os.truncate(path, size)
    tracemalloc.start()
    for read in (read_text, read_json, lambda file: read_bytes(file, text=True)):
        with pytest.raises(OSError, match=r"NUL bytes|exceeds the limit of"):
            read(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10e6


def test_a_root_where_nothing_is_mounted_at_sys_has_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "_MADE_UP", (Path("/proc"), tmp_path))
    monkeypatch.setattr(input_files, "_made_up", input_files._made_up.__wrapped__)
    (tmp_path / "file").write_bytes(b"x")
    assert read_bytes(tmp_path / "file") == b"x"
    with pytest.raises(OSError, match="of the operating system"):
        read_bytes(Path("/proc/self/status"))
