"""The record of a run as the reference of another: what it holds counts, and what was changed is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import held, refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.reference import CallRecordIndex
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range

pytestmark = pytest.mark.usefixtures("known_limits")

RANGES = {"N": Range(1, 2, 3)}


def run(folder: Path, target: Path, backend: str = "ort-cpu", **more: Any) -> Verified:
    folder.mkdir()
    return verify(VerifyRequest(target=target, backend=backend, **more), folder)


@pytest.fixture
def record(masked_model: Path, tmp_path: Path) -> Path:
    assert run(tmp_path / "first", masked_model, record=True, ranges=RANGES).failures == ()
    return tmp_path / "first"


def test_a_record_stands_for_its_reference(record: Path, masked_model: Path, tmp_path: Path) -> None:
    result = run(tmp_path / "second", masked_model, reference=str(record))
    assert result.document["reference"] == "record of ort-cpu"
    assert result.document["verdict"] == "consistent"  # the same runtime made the record
    assert result.document["compared_with_itself"]
    assert [case["label"] for case in result.document["cases"]] == ["N=1", "N=2", "N=3"]
    first = result.document["cases"][0]["outputs"]
    assert {row["inputs"] for row in first} == {"random", "other random", "zeros", "large"}


def test_a_record_of_another_version_of_the_runtime_says_something(
    record: Path, masked_model: Path, tmp_path: Path
) -> None:
    index = record / "reference" / "record.json"
    kept = CallRecordIndex.model_validate_json(index.read_text())
    older = kept.model_copy(update={"provenance": {**kept.provenance, "onnxruntime": "1.2.3"}})
    index.write_text(older.model_copy(update={"sha256": older.hash()}).model_dump_json())
    result = run(tmp_path / "second", masked_model, reference=str(record))
    assert (result.document["verdict"], result.document["compared_with_itself"]) == ("right", False)


def test_a_fault_is_found_beside_a_record(record: Path, masked_model: Path, tmp_path: Path) -> None:
    options = {"fault": "padding leaks"}
    result = run(tmp_path / "second", masked_model, "faulty", reference=str(record), options=options)
    assert any("padding:" in one for one in result.failures), result.failures[:5]


def test_what_the_model_lacks_by_design_is_in_the_record(tmp_path: Path) -> None:
    over_the_batch = "rows (float[N,4] x) => (float[N,4] y) { y = Softmax<axis = 0>(x) }"
    path = write_onnx(tmp_path / "rows.onnx", over_the_batch)
    assert run(tmp_path / "first", path, record=True, ranges=RANGES).failures == ()
    assert run(tmp_path / "second", path, reference=str(tmp_path / "first")).failures == ()


def test_an_index_that_barely_depends_on_other_rows_lacks_the_property_too(tmp_path: Path) -> None:
    """Its own value changes only at a tie: that it did not beside the reference says nothing of another rounding."""
    nodes = "m = ReduceMean<axes = [0]>(x) s = Mul(m, small) y = Add(x, s) i = ArgMax<axis = 1, keepdims = 0>(y)"
    graph = f"rows (float[N,4] x) => (float[N,4] y, int64[N] i) {{ {nodes} }}"
    path = write_onnx(tmp_path / "rows.onnx", graph, {"small": np.float32(0.01)})
    assert run(tmp_path / "first", path, record=True, ranges=RANGES).failures == ()
    calls = json.loads((tmp_path / "first" / "reference" / "record.json").read_text())["calls"]
    lacking = [one["lacks"]["other_rows_do_not_matter"] for one in calls if "other_rows_do_not_matter" in one["lacks"]]
    assert lacking
    assert all(outputs == ["i", "y"] for outputs in lacking)


def test_a_shape_of_the_record_that_the_target_does_not_offer_is_named(
    record: Path, masked_model: Path, tmp_path: Path
) -> None:
    result = run(tmp_path / "second", masked_model, reference=str(record), ranges={"N": Range(1, 2, 2)})
    held(*result.unproven)


def change_an_array(folder: Path) -> None:
    arrays = dict(np.load(folder / "0001.npz", allow_pickle=False))
    np.savez(folder / "0001.npz", **{**arrays, "expected/y": arrays["expected/y"] + 1})


def change_the_index(folder: Path) -> None:
    document = json.loads((folder / "record.json").read_text())
    document["calls"][0]["lacks"] = {"calls_repeat": ["y"]}
    (folder / "record.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    "damage",
    [
        change_an_array,
        change_the_index,
        lambda folder: (folder / "0002.npz").unlink(),
    ],
)
def test_damage_is_named(damage: Callable[[Path], None], record: Path, masked_model: Path, tmp_path: Path) -> None:
    damage(record / "reference")
    with refused(UsageProblem):
        run(tmp_path / "second", masked_model, reference=str(record))


def test_a_record_of_another_model_is_refused(record: Path, index_model: Path, tmp_path: Path) -> None:
    with refused(UsageProblem):
        run(tmp_path / "second", index_model, reference=str(record))


def test_a_folder_without_a_record_says_how_to_make_one(masked_model: Path, tmp_path: Path) -> None:
    with refused(UsageProblem):
        run(tmp_path / "second", masked_model, reference=str(tmp_path))


def test_a_record_brings_its_own_inputs(record: Path, masked_model: Path, tmp_path: Path) -> None:
    with refused(UsageProblem):
        run(tmp_path / "second", masked_model, reference=str(record), inputs=("x.npy",))


def test_a_reference_without_an_output_of_the_target_is_refused(tmp_path: Path) -> None:
    one = write_onnx(tmp_path / "one.onnx", "g (float[N,4] x) => (float[N,4] y) { y = Neg(x) }")
    nodes = "y = Neg(x) z = Abs(x)"
    both = write_onnx(tmp_path / "both.onnx", f"g (float[N,4] x) => (float[N,4] y, float[N,4] z) {{ {nodes} }}")
    assert run(tmp_path / "first", one, record=True, ranges=RANGES).failures == ()
    for number, reference in enumerate(("ort-cpu", str(tmp_path / "first"))):
        with refused(UsageProblem):
            run(tmp_path / f"second{number}", both, model=one, reference=reference, ranges=RANGES)


def test_nothing_is_recorded_without_a_reference(masked_model: Path, tmp_path: Path) -> None:
    with refused(UsageProblem):
        run(tmp_path / "first", masked_model, reference="none", record=True)
