import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.manifest import manifest_path
from trt_workbench.engine.timing_cache import load_timing_cache, save_timing_cache, shared_timing_cache


def merge(first: bytes, second: bytes) -> bytes:
    return bytes(sorted(set(first) | set(second)))


def test_one_file_per_version_and_gpu() -> None:
    names = {
        shared_timing_cache(version, capability, gpu).name
        for version in ("8.6.0", "10.16.1")
        for capability, gpu in (("9.0", "NVIDIA H200"), ("12.0", "NVIDIA GeForce RTX 5090"))
    }
    assert "tensorrt-10.16.1-sm120-nvidia-geforce-rtx-5090.timing" in names
    assert len(names) == 4


def test_strict_needs_a_cache(tmp_path: Path) -> None:
    with refused(UsageProblem):
        load_timing_cache(tmp_path / "none", strict=True)


def test_a_cache_begins_as_an_engine_does(tmp_path: Path) -> None:
    """TensorRT 8.6 gives both one tag."""
    for name in ("sm90.timing", "cache", "net.plan", "net.engine"):
        (tmp_path / name).write_bytes(b"ptrt\0\0\0\0\xec\0")
    assert load_timing_cache(tmp_path / "sm90.timing", strict=True) == b"ptrt\0\0\0\0\xec\0"
    assert load_timing_cache(tmp_path / "cache", strict=True)
    manifest_path(tmp_path / "cache").write_text("{}")
    for name in ("net.plan", "net.engine", "cache"):
        with refused(UsageProblem):
            load_timing_cache(tmp_path / name, strict=False)


def test_a_folder_is_no_timing_cache(tmp_path: Path) -> None:
    with refused(UsageProblem):
        load_timing_cache(tmp_path, strict=False)


@pytest.mark.timeout(20)
def test_a_place_where_no_file_can_be_made_is_an_error() -> None:
    with pytest.raises(OSError, match="/proc/"):
        load_timing_cache(Path("/proc/x.timing"), strict=False)


def test_what_is_known_not_to_be_joined_is_said_once_in_a_line(tmp_path: Path) -> None:
    """The words are those of TensorRT 8.6.0 on an H100."""

    def reject(_: bytes, __: bytes) -> bytes:
        raise UsageProblem(
            "A timing cache could not be merged: 1: [myelinCache.h::deserializeFromBuffer::52] Error Code 1: Myelin "
            "(Myelin error from unknown graph); 4: The timing cache will not be used!"
        )

    notes = []
    for _ in range(3):
        (tmp_path / "t").write_bytes(b"ax")
        notes.append(save_timing_cache(tmp_path / "t", b"a", b"abc", reject))
    path = tmp_path / "t"
    assert notes == [
        f"TensorRT cannot merge this build's timings with another's; the larger set is kept: {path}",
        None,
        None,
    ]


def test_other_builds_load_and_save_during_a_merge(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"ax")
    merged = []

    def other_build() -> None:
        earlier = load_timing_cache(path, strict=True)
        assert save_timing_cache(path, earlier, merge(earlier, b"y"), merge) is None

    def slow(first: bytes, second: bytes) -> bytes:
        merged.append((first, second))
        if len(merged) == 1:
            other.submit(other_build).result(10)  # never ends while the lock is held
        return merge(first, second)

    with ThreadPoolExecutor(1) as other:
        assert save_timing_cache(path, b"a", b"ab", slow) is None
    assert path.read_bytes() == b"abxy"
    assert merged == [(b"ax", b"ab"), (b"axy", b"abx")]


def test_what_is_written_while_a_merge_is_refused_is_merged_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"x")

    def refuse_once(first: bytes, second: bytes) -> bytes:
        if first == b"x":
            path.write_bytes(b"y")
            raise UsageProblem("magic tag")
        return merge(first, second)

    note = save_timing_cache(path, b"a", b"ab", refuse_once)
    assert note is not None
    assert path.read_bytes() == b"aby"


def test_a_file_that_is_gone_after_a_merge_is_written(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"ax")

    def remove(first: bytes, second: bytes) -> bytes:
        path.unlink()
        return merge(first, second)

    assert save_timing_cache(path, b"a", b"ab", remove) is None
    assert path.read_bytes() == b"abx"


def test_a_file_that_nobody_changed_meanwhile_is_replaced_without_a_merge(tmp_path: Path) -> None:
    def unused(_: bytes, __: bytes) -> bytes:
        raise AssertionError

    path = tmp_path / "t"
    path.write_bytes(b"damaged, or of earlier builds")
    assert save_timing_cache(path, path.read_bytes(), b"ab", unused) is None
    assert path.read_bytes() == b"ab"


def _add(path: str, letter: str) -> None:
    file = Path(path)
    earlier = load_timing_cache(file, strict=False)
    save_timing_cache(file, earlier, merge(earlier, letter.encode()), merge)


def test_processes_at_once_lose_nothing(tmp_path: Path, processes: Any) -> None:
    path = tmp_path / "t"
    letters = "abcd" if (os.cpu_count() or 1) < 4 else "abcdefgh"
    workers = [processes.Process(target=_add, args=(str(path), letter)) for letter in letters]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert path.read_bytes() == letters.encode()
