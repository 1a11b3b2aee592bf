"""What a good report must not rest on: nothing compared, other shapes, unclear heads, alarms that health raises too."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.streaming_models import attention, contract_of, lstm
from tests.texts import held, refused
from tests.unit.stream.evaluation import evaluated, failing, settings, spoiled

from trt_workbench.core.errors import UsageProblem


def test_a_target_that_loses_frames_fails_by_the_shape(tmp_path: Path) -> None:
    lost = "narrow = Slice(both, low_end, first_end, middle)\n    encoded = Transpose <perm = [0, 2, 1]> (narrow)"
    ends = "low_end = Sub(middle, middle)\n    first_end = Add(middle, middle)\n    "
    edit = ("encoded = Transpose <perm = [0, 2, 1]> (both)", ends + lost)
    asked = replace(settings(tmp_path), target=attention(tmp_path, edit, name="baked"), model=attention(tmp_path))
    found = evaluated(asked, tmp_path / "run")
    assert not found.passed
    gate = failing(found.lanes[0])["compared"]
    assert (gate.chunk, gate.tensor) == (1, "encoded")
    held(gate.text)


def test_a_tensor_of_which_nothing_counts_is_no_pass(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["outputs"]["encoded"]["valid"]["by"] = "encoded_len - N"
    wrong = attention(tmp_path, ("both = Add(new, context)", "both = Sub(new, context)"), name="wrong")
    asked = replace(settings(tmp_path, document=document), target=wrong, model=attention(tmp_path))
    found = evaluated(asked, tmp_path / "run")
    assert not found.passed
    assert failing(found.lanes[0])["compared"].tensor == "encoded"
    assert evaluated(settings(tmp_path, "degenerate"), tmp_path / "two").passed  # a dead cache has no valid part


def test_the_valid_part_may_depend_on_the_state_before_the_chunk(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["outputs"]["encoded"]["valid"]["by"] = "min(encoded_len, cache_len + 1)"
    assert evaluated(settings(tmp_path, document=document), tmp_path / "run").passed


def test_nan_in_the_invalid_part_of_a_state_is_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(chunk: int, outputs: dict[str, NDArray[Any]]) -> None:
        if chunk == 0:
            outputs["cache_next"][0, 0, 0] = np.nan  # the oldest of 6 places, of which 2 are filled

    found = failing(spoiled(settings(tmp_path), tmp_path / "run", spoil, monkeypatch))["finite"]
    assert (found.chunk, found.tensor) == (0, "cache_next")


def test_a_head_without_a_clear_answer_is_said_to_be_none(tmp_path: Path) -> None:
    document = contract_of("lstm")
    document["outputs"]["y"]["head"] = "argmax"
    zero = "z = Sub(inner, inner)\n    y = Transpose <perm = [1, 0, 2]> (z)"
    flat = lstm(tmp_path, ("y = Transpose <perm = [1, 0, 2]> (inner)", zero))
    found = evaluated(settings(tmp_path, "lstm", target=flat, document=document), tmp_path / "run")
    (gate,) = [gate for gate in found.lanes[0].gates if gate.gate == "head"]
    assert (gate.verdict, gate.value) == ("warning", None)
    held(gate.text)


@pytest.mark.long
def test_a_gate_that_fails_without_a_fault_catches_none(tmp_path: Path) -> None:
    """The target is wrong by itself: what its faults show beyond that is all that counts."""
    document = contract_of("attention")
    document["gates"] = {"integers": None, "finite": False, "drift_exponent_lower_max": None}
    wrong = attention(tmp_path, ("both = Add(new, context)", "both = Sub(new, context)"), name="wrong")
    asked = replace(settings(tmp_path, document=document, faults=True), target=wrong, model=attention(tmp_path))
    result = evaluated(asked, tmp_path / "run")
    found = result.faults
    assert failing(found.healthy).keys() == {"rel_l2_max"}
    assert {one.fault for one in found.planted if one.lane} == set(found.missed)
    (said,) = [text for text in result.failures if "'stale state'" in text]
    assert said.endswith("; gates that fail without a fault do not count")


def test_faults_need_a_stream_that_shows_them(tmp_path: Path) -> None:
    with refused(UsageProblem):
        evaluated(settings(tmp_path, faults=True, chunks=3), tmp_path / "run")
    assert evaluated(settings(tmp_path, faults=True, chunks=4), tmp_path / "run").passed


def test_device_state_beside_no_closed_loop_is_said_to_be_unproven(
    tmp_path: Path, outside_backend: Callable[..., None]
) -> None:
    outside_backend("keeping", "tests.unit.stream.test_stream_device:KeepingBackend")
    for mode, said in ((("device",), True), (("closed-loop", "device"), False)):
        found = evaluated(settings(tmp_path, backend="keeping", mode=mode), tmp_path / mode[0])
        assert any("bit for bit" in note for note in found.notes) is said
