import hashlib
import os
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.core import hashing
from trt_workbench.core.hashing import hash_file, hash_folder, hash_parts, read_hashed

TICK_S = 0.05


def settled(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    time.sleep(TICK_S)
    return path


def test_a_file_is_hashed_once_until_it_changes(tmp_path: Path) -> None:
    path = settled(tmp_path / "a", b"1")
    with patch.object(hashlib, "file_digest", side_effect=hashlib.file_digest) as worked:
        first = [hash_file(path) for _ in range(3)]
        assert first == [hashlib.sha256(b"1").hexdigest()] * 3
        assert worked.call_count == 1
        path.write_bytes(b"2")  # of the same size, in place
        assert hash_file(path) == hashlib.sha256(b"2").hexdigest()


def test_a_new_file_that_is_changed_within_a_tick_of_the_clock_is_hashed_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for number in range(50):
        content = b"%02d" % number
        path.write_bytes(content)
        assert hash_file(path) == hashlib.sha256(content).hexdigest()


def test_a_file_with_an_older_ones_date_has_its_own_hash(tmp_path: Path) -> None:
    path, date = settled(tmp_path / "a", b"1"), (tmp_path / "a").stat().st_mtime_ns
    assert hash_file(path) == hashlib.sha256(b"1").hexdigest()
    path.write_bytes(b"2")
    os.utime(path, ns=(date, date))
    time.sleep(TICK_S)
    assert hash_file(path) == hashlib.sha256(b"2").hexdigest()


def test_what_was_read_whole_is_not_read_again_for_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"plan")
    assert read_hashed(path) == (b"plan", hashlib.sha256(b"plan").hexdigest())
    with patch.object(hashlib, "file_digest") as worked:
        assert hash_file(path) == hashlib.sha256(b"plan").hexdigest()
        assert not worked.called


def test_more_than_the_limit_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="exceeds the limit of 3 bytes"):
        read_hashed(settled(tmp_path / "a", b"1234"), limit=3)


def test_hashes_of_the_oldest_files_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_known", {})
    monkeypatch.setattr(hashing, "_MOST_KNOWN", 2)
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(path.name.encode())
        read_hashed(path)
    assert list(hashing._known.values()) == [hashlib.sha256(name).hexdigest() for name in (b"b", b"c")]


def test_a_renamed_file_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = hash_folder(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert hash_folder(tmp_path) != before


PARTS = st.lists(st.tuples(st.text(max_size=4), st.text("0123456789abcdef", min_size=2, max_size=2)), max_size=4)


@given(PARTS, PARTS)
def test_different_parts_hash_differently(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> None:
    assert (hash_parts(first) == hash_parts(second)) == (first == second)
