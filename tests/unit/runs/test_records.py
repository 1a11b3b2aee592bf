"""Records are read back with care: what is cut short, of another version or wrong is said with its line."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trt_workbench.errors import UsageProblem
from trt_workbench.runs.records import Record, RecordFile, by_work, read_records, read_samples, write_samples

Make = Callable[..., Record]


def test_records_come_back(tmp_path: Path, record: Make) -> None:
    file = RecordFile(tmp_path / "records.jsonl")
    written = [record("a", 0), record("b", 1, unstable=["hot"]), record("c", 0, work="detector b2", batch=2)]
    for one in written:
        file.append(one)
    assert read_records(tmp_path / "records.jsonl") == written
    assert [len(group) for group in by_work(written).values()] == [2, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: "", "no record in this file"),
        (lambda text: text[: len(text) // 2], "cut short or no JSON.*:1"),
        (lambda text: text + text[:20] + "\n", "cut short or no JSON.*:2"),
        (lambda text: text.replace('"schema_version":1', '"schema_version":2'), "schema version 2, this workbench"),
        (lambda _: "[]\n", "schema version None"),
        (lambda text: text.replace('"batch":1', '"batch":"many"'), "wrong at batch .*:1"),
        (lambda text: text.replace('"batch":1', '"batch":1,"bunch":2'), "wrong at bunch"),
        (lambda text: re.sub('"latency_ms":{.*?}', '"latency_ms":null', text), r"wrong \(.*latency_ms with p50.*:1"),
    ],
)
def test_damage_is_named(tmp_path: Path, record: Make, change: Callable[[str], str], message: str) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(change(record("a", 0).model_dump_json() + "\n"))
    with pytest.raises(UsageProblem, match=message):
        read_records(path)


def test_separators_of_lines_inside_a_text_are_no_ends(tmp_path: Path, record: Make) -> None:
    written = record("a", 0, status="failed", error="one\u2028two\u0085three\x0cfour")
    RecordFile(tmp_path / "records.jsonl").append(written)
    assert read_records(tmp_path / "records.jsonl") == [written]


def test_a_blank_line_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("\n\n")
    with pytest.raises(UsageProblem, match="no record in this file"):
        read_records(tmp_path / "records.jsonl")


def test_an_absent_file(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot be read"):
        read_records(tmp_path / "records.jsonl")


def test_samples_come_back_and_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    write_samples(path, {"latency_ms": np.array([1.0, 2.5])})
    assert read_samples(path) == {"latency_ms": [1.0, 2.5]}
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(UsageProblem, match="cannot be read as arrays"):
        read_samples(path)


def test_json_of_a_record_names_units(record: Make) -> None:
    document = json.loads(record("a", 0).model_dump_json())
    assert document["latency_ms"]["count"] == 1000
    assert document["schema_version"] == 1
