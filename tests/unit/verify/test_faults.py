"""Every planted fault is found, and named."""

from pathlib import Path

import pytest
from tests.faulty_backend import FAULTS

from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified, failed_shapes
from trt_workbench.verify.run import verify

pytestmark = pytest.mark.usefixtures("known_limits")

# By fault: what the reasons say. First stand those that are found at once.
NAMED = {
    "wrong shape": "its shape is [1, 6, 5], not [1, 6, 6]",
    "all zeros": "it is all zeros",
    "scaled": "inputs: it is scaled by 1.002",
    "tf32": "inputs: TF32 explains it: ",
    "one infinite": "elements are infinite, the first at [0, 0, 0]",
    "columns shifted": "it is shifted by one along dimension 2",
    "one element": "1 of 36 elements is wrong, at [0, 5, 5]",
    "a row alone after a batch": "row = single run: row 1 of 2: it is scaled by 1.5",
    "padding leaks": "padding: other values where mask is 0",
    "stuck": "stale",
    "only the last row": "row 2 of 3 is wrong, the others right",
    "rows swapped": "rows are mixed up: row 0 holds that of row 1, row 1 holds that of row 0",
    "rows shifted": "row 0 holds that of row 2",
    "stale": "stale",
    "every second call": "repeated call: every second call",
    "only batch 3": "N=3, output y",
    "only the largest shape": "N=16, output y",
    "one NaN": "1 of 36 elements are NaN, the first at [0, 3, 3]",
    "dimensions transposed": "dimensions 1 and 2 are swapped",
    "second session": "a second session",
    "calls mixed up": "another in flight at the same time",
    "rows after the first": "rows 1 and 2 of 3 are wrong, the others right",
    "zeros only": "zeros inputs",
    "large only": "large inputs",
    "rows depend": "other rows: row 1 with other rows around it",
    "refuses batch 3": "N=3, output all, random inputs: it fails, but the model itself runs: no kernel for this shape",
}


def found(model: Path, folder: Path, fault: str, **more: object) -> Verified:
    request = VerifyRequest(target=model, backend="faulty", options={"fault": fault}, **more)  # type: ignore[arg-type]
    folder.mkdir(exist_ok=True)
    return verify(request, folder)


# Faults of some shapes or inputs alone: what the run says of all shapes together.
WHERE = {
    "only batch 3": "only at N=3, right at 11 others",
    "only the largest shape": "only at N=16 (the largest shape), right at 11 others",
    "refuses batch 3": "only at N=3, right at 11 others",
    "rows after the first": "from a batch of 2 on",
    "zeros only": "only with zeros inputs",
    "large only": "only with large inputs",
}

# Found, or told apart from others, by all that is tried, and not by the little that `quick` tries.
BY_ALL = {"second session", "calls mixed up", *WHERE} - {"rows after the first"}


@pytest.mark.long(but=11)
@pytest.mark.parametrize("fault", NAMED)
def test_a_planted_fault_is_found_and_named(fault: str, masked_model: Path, tmp_path: Path) -> None:
    result = found(masked_model, tmp_path / "run", fault, quick=fault not in BY_ALL)
    assert result.document["verdict"] == "wrong"
    assert any(NAMED[fault] in text for text in result.failures), "\n".join(result.failures[:12])
    assert WHERE.get(fault, "") in result.document["where"]
    assert (tmp_path / "run" / "failures" / "001" / "inputs" / "x.npy").is_file()


def test_integers_off_by_one(index_model: Path, tmp_path: Path) -> None:
    result = found(index_model, tmp_path / "run", "off by one", quick=True)
    assert "all elements are off by 1" in result.failures[0]


def test_every_fault_of_the_backend_is_asked_for() -> None:
    assert set(FAULTS) - set(NAMED) == {
        *("off by one", "out of memory", "less exact when long", "far less exact when long", "negative values"),
        *("the last channel", "only batch 11", "only batch 2 and height 6", "one row less"),
    }


@pytest.mark.parametrize(
    "fault", ["rows after the first", "stuck", "every second call", "rows shifted", "padding leaks"]
)
def test_some_are_found_without_a_reference(fault: str, masked_model: Path, tmp_path: Path) -> None:
    result = found(masked_model, tmp_path / "run", fault, reference="none", quick=True)
    assert result.document["verdict"] == "wrong"


@pytest.mark.long
@pytest.mark.parametrize("fault", ["padding leaks", "rows swapped", "rows depend"])
def test_coarse_faults_are_found_within_fp16_too(fault: str, masked_model: Path, tmp_path: Path) -> None:
    result = found(masked_model, tmp_path / "run", fault, precision="fp16", quick=True)
    assert any(NAMED[fault] in text for text in result.failures), "\n".join(result.failures[:12])


@pytest.mark.parametrize("reference", ["ort-cpu", "none"])
def test_a_healthy_one_is_right(reference: str, masked_model: Path, tmp_path: Path) -> None:
    result = found(masked_model, tmp_path / "run", "", reference=reference)
    assert result.failures == ()
    assert result.document["verdict"] == ("right" if reference == "ort-cpu" else "consistent")
    assert result.document["cases_unverified"] == 0


def test_want_of_memory_at_one_shape_leaves_the_others_verified(masked_model: Path, tmp_path: Path) -> None:
    result = found(masked_model, tmp_path / "run", "out of memory", quick=True)
    by_label = {case["label"]: case["verdict"] for case in result.document["cases"]}
    assert by_label == {"N=1": "right", "N=2": "right", "N=3": "right", "N=16": "unverified"}
    assert failed_shapes(result.document) == ("N=16: Out of memory on the device.",)
