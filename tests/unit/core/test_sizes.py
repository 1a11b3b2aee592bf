"""Sizes in bytes: one unit, and one form that one place writes."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trt_workbench
from trt_workbench.core.counts import mebibytes, sized

PACKAGE = Path(trt_workbench.__file__).parent
WRITERS = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".j2") and path.name != "sizes.py")
# A unit behind a figure that is formatted there, or a heading in thousands. What pip downloads has its units, and the
# setting `free_gb` is in GB.
ELSEWHERE = re.compile(r'\} ?(?:[KMG]iB|[kM]B)\b|"MB"(?!:)|, MB\b|bytes(?:["\']\])? / |/ ?(?:1048576|_MIB)')


def test_sizes() -> None:
    figures = (0, 12, 1023, 1024, 59920, 64 << 20, 4_766_020, 5 << 30, 2**50)
    texts = ["0 B", "12 B", "1,023 B", "1 KiB", "58.5 KiB", "64 MiB", "4.5 MiB", "5 GiB", "1,048,576 GiB"]
    assert [sized(one) for one in figures] == texts
    assert [mebibytes(one) for one in (0, 1, 13_100, 4_766_020)] == ["0.0", "< 0.001", "0.012", "4.5"]
    assert [sized(one) for one in (2**20 - 1, 2**30 - 1, 1023 * 1024)] == ["1.0 MiB", "1.0 GiB", "1,023 KiB"]


@given(st.integers(1, 2**60))
def test_a_size_is_near_what_it_says(count: int) -> None:
    figure, unit = sized(count).replace(",", "").split()
    assert float(figure) * 1024 ** ("B", "KiB", "MiB", "GiB").index(unit) == pytest.approx(count, rel=0.05)


def test_no_other_place_writes_a_size() -> None:
    hits = {path.name: found for path in WRITERS if (found := ELSEWHERE.findall(path.read_text("utf-8")))}
    assert not hits
