"""Records of a bench; what any document does is in tests/unit/engine/test_documents.py."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.records import record
from tests.texts import refused

from trt_workbench.core.array_files import load_arrays
from trt_workbench.core.documents import append_lines
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.records import by_work, read_records, write_samples


def test_records_come_back(tmp_path: Path) -> None:
    written = [record("a", 0), record("b", 1, unstable=["hot"]), record("c", 0, work="detector b2", batch=2)]
    append_lines(tmp_path / "records.jsonl", written)
    assert read_records(tmp_path / "records.jsonl") == written
    assert [len(group) for group in by_work(written).values()] == [2, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda _: "\n\n",
        lambda text: text + text[:20] + "\n",
        lambda text: text.replace('"batch":1', '"batch":1,"bunch":2'),
        lambda text: re.sub('"latency_ms":{.*?}', '"latency_ms":null', text),
        lambda text: re.sub('"p50":[^,]*', '"p50":0', text),
    ],
)
def test_damage_is_named(tmp_path: Path, change: Callable[[str], str]) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(change(record("a", 0).model_dump_json() + "\n"))
    with refused(UsageProblem):
        read_records(path)


def test_samples_come_back_and_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    write_samples(path, {"latency_ms": np.array([1.0, 2.5])})
    found = load_arrays(path)
    assert {name: array.tolist() for name, array in found.items()} == {"latency_ms": [1.0, 2.5]}
    path.write_bytes(path.read_bytes()[:50])
    with refused(UsageProblem):
        load_arrays(path)


def test_json_of_a_record_names_units() -> None:
    document = json.loads(record("a", 0).model_dump_json())
    assert document["latency_ms"]["count"] == 1000
    assert document["schema_version"] == 1
