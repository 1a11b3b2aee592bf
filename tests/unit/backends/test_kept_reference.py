"""The one record of a reference: what is read back, records of before, and what is refused in a sentence."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.backends.kept_reference import KeptFile, KeptRecord, RecordIndex, ReferenceWriter, require_kept
from trt_workbench.core.array_files import load_arrays, save_arrays
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_document

FACTS: dict[str, Any] = {"model_sha256": "m" * 64, "reference": "ort-cpu", "provenance": {"backend": "ort-cpu"}}


class Index(RecordIndex):
    kind: str = "calls"
    call: KeptFile

    @property
    def files(self) -> Iterable[KeptFile]:
        return [self.call]


class OfStream(RecordIndex):
    kind: str = "stream"

    @property
    def files(self) -> Iterable[KeptFile]:
        return []


ARRAYS = {
    "y": np.arange(6, dtype=np.float32).reshape(2, 3),
    "file": np.array([], np.int64),
    "a/b": np.array(True),
    "half": np.array([1.5, -2], np.float16),
    "texts": np.array(["é", "long"], object),
}


@pytest.fixture
def record(tmp_path: Path) -> Path:
    writer = ReferenceWriter(tmp_path)
    call = writer.keep("0001.npz", {"inputs": {"x": np.zeros(2)}, "expected": ARRAYS})
    writer.write(Index(**FACTS, call=call))
    return tmp_path


def test_arrays_are_read_back_by_part_and_name(record: Path) -> None:
    for place in (record, record / "reference"):
        kept = KeptRecord(place, Index)
        assert kept.name == "record of ort-cpu"
        found = kept.arrays(kept.index.call, "expected", ["y"])
        assert list(found) == list(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].shape == array.shape
        assert list(kept.arrays(kept.index.call, "inputs")) == ["x"]
        with refused(UsageProblem):
            kept.arrays(kept.index.call, "expected", ["y", "z"])


def test_a_record_of_before_has_no_kind_and_is_read(record: Path) -> None:
    path = record / "reference" / "record.json"
    document = json.loads(path.read_text())
    assert document.pop("kind") == "calls"
    del document["sha256"]
    path.write_text(json.dumps({**document, "sha256": hash_document(document)}))
    assert KeptRecord(record, Index).index.reference == "ort-cpu"


def change(folder: Path, **values: Any) -> None:
    path = folder / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: change(folder, reference="torch"),
        lambda folder: change(folder, kind="stream"),
        lambda folder: change(folder, kind="other"),
        lambda folder: change(folder, schema_version=2),
        lambda folder: change(folder, more=1),
        lambda folder: change(folder, call={"file": "../x.npz", "sha256": ""}),
        lambda folder: (folder / "record.json").write_text("{"),
        lambda folder: (folder / "0001.npz").write_bytes(b"x"),
        lambda folder: (folder / "0001.npz").unlink(),
        lambda folder: (folder / "record.json").unlink(),
    ],
)
def test_what_is_no_sound_record_is_refused_in_a_sentence(damage: Callable[[Path], object], record: Path) -> None:
    damage(record / "reference")
    with refused(UsageProblem):
        KeptRecord(record, Index)


def test_a_record_of_calls_is_none_of_a_stream(record: Path) -> None:
    with refused(UsageProblem):
        KeptRecord(record, OfStream)


def test_the_target_has_to_be_made_from_the_records_model(record: Path) -> None:
    kept = KeptRecord(record, Index)
    kept.require_model("m" * 64, record)
    with refused(UsageProblem):
        kept.require_model("n" * 64, record)
    with refused(UsageProblem):
        kept.require_model(None, record)


def test_a_run_may_not_take_the_records_place(record: Path) -> None:
    require_kept(record, None)
    require_kept(record, record / "next")
    require_kept(Path("ort-cpu"), record)
    for output in (record, record.parent, record / "x" / ".."):
        with refused(UsageProblem):
            require_kept(record, output)


def test_types_that_numpy_lacks_become_float32(tmp_path: Path) -> None:
    values = np.array([1.5, -3, np.inf], np.float32)
    arrays = {kind: values.astype(kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2)}
    save_arrays(tmp_path / "a.npz", {str(kind): array for kind, array in arrays.items()})
    for array in load_arrays(tmp_path / "a.npz").values():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, values)
