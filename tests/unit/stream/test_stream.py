"""eval-stream on small models: healthy streams pass, faults and other models fail with chunk, tensor and gate."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tests.streaming_models import (
    GROWING_CONTRACT,
    MODELS,
    attention,
    contract_of,
    counted,
    counted_contract,
    growing,
    write_contract,
)
from tests.texts import held, refused
from tests.unit.stream.evaluation import add, evaluated, failing, settings, spoiled

from trt_workbench.core.documents import read_lines
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.document import ChunkRecord
from trt_workbench.stream.lane_gates import CHECKLIST, judged_as
from trt_workbench.stream.settings import StreamSettings

BOTH = ("functional", "closed-loop")


def test_a_model_that_its_caller_counts_for(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    contract = write_contract(tmp_path / "c.json", counted_contract())
    asked = StreamSettings(
        target=counted(tmp_path), contract=contract, backend="torch", reference="ort-cpu", chunks=40, faults=True
    )
    found = evaluated(asked, tmp_path / "run")
    assert (found.passed, found.failures) == (True, [])


def test_a_model_that_ends_its_stream_is_an_error_with_the_chunk(tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "c.json", counted_contract())
    table = onnx.numpy_helper.from_array(np.arange(20, dtype=np.float32), "table")
    path = counted(tmp_path, ("place = Cast <to = 1> (offset)", "place = Gather(table, offset)"), name="ending")
    model = onnx.load(path)
    model.graph.initializer.append(table)
    onnx.save(model, path)
    with refused(UsageProblem):
        evaluated(StreamSettings(target=path, contract=contract, reference="ort-cpu", chunks=40), tmp_path / "run")


@pytest.mark.parametrize("name", MODELS)
def test_a_model_equals_itself_in_both_modes(name: str, tmp_path: Path) -> None:
    found = evaluated(settings(tmp_path, name), tmp_path / "run")
    assert (found.passed, found.failures, found.chunks) == (True, [], 40)
    assert [lane.mode for lane in found.lanes] == list(BOTH)
    assert all(tensor.abs_max == 0 for lane in found.lanes for tensor in lane.tensors.values())
    records = read_lines(tmp_path / "run" / "records.jsonl", ChunkRecord)
    assert [(one.chunk, one.lane) for one in records[:2]] == [(0, "fp32 functional"), (0, "fp32 closed-loop")]
    assert len(records) == 80


@pytest.mark.long
@pytest.mark.parametrize("name", ["convolution", "lstm", "attention"])
def test_every_fault_that_can_be_planted_is_caught(name: str, tmp_path: Path) -> None:
    found = evaluated(settings(tmp_path, name, faults=True), tmp_path / "run").faults
    assert found.healthy.passed
    assert found.missed == []
    planted = [one for one in found.planted if one.lane]
    assert len(planted) >= 5
    assert all(one.caught_by for one in planted)
    assert found.input["seed"] != 0


@pytest.mark.long
def test_a_fault_that_no_gate_catches_fails_the_self_test(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["gates"] = {"fp32": {"rel_l2_max": 1e9}, "integers": None, "finite": False, "head_agreement_min": None}
    document["gates"]["drift_exponent_lower_max"] = None
    found = evaluated(settings(tmp_path, document=document, faults=True), tmp_path / "run")
    assert "stale state" in found.faults.missed
    assert not found.passed
    said = "self-test: no gate catches the fault 'stale state', whose largest relative L2 is "
    assert any(text.startswith(said) and text.endswith("; try more --chunks") for text in found.failures)


def test_a_fault_without_effect_says_that_the_state_is_dead(tmp_path: Path) -> None:
    document = contract_of("degenerate")
    for pair in document["state"]:
        pair.pop("dead", None)
    found = evaluated(settings(tmp_path, "degenerate", document=document, faults=True, chunks=8), tmp_path / "run")
    assert found.faults.missed[:2] == ["lengths stuck", "length one short"]
    dead = "which changes nothing: a state is dead but not declared dead, or this stream does not change it"
    assert f"self-test: no gate catches the fault 'lengths stuck', {dead}" in found.failures


@pytest.mark.long
def test_a_length_one_short_is_no_fault_where_the_oldest_entry_is_never_read(tmp_path: Path) -> None:
    """As in attention over a window that counts the frame itself."""
    document = contract_of("attention")
    document["chunking"] = {kind: {"size": 13, "left_context": 1} for kind in ("first", "later")}
    window = ("low = Unsqueeze(first_valid, last)", "read = Max(first_valid, one) low = Unsqueeze(read, last)")
    model = attention(tmp_path, window)
    found = evaluated(settings(tmp_path, target=model, document=document, faults=True), tmp_path / "run")
    assert found.passed, found.failures
    (short,) = [one for one in found.faults.planted if one.fault == "length one short"]
    assert (short.lane, short.caught_by) == (None, [])
    held(short.reason)


def test_a_cache_that_does_not_keep_its_shape_is_refused(tmp_path: Path) -> None:
    asked = settings(tmp_path, "growing", target=growing(tmp_path), document=GROWING_CONTRACT)
    with refused(UsageProblem):
        evaluated(asked, tmp_path / "run")


def test_a_size_that_neither_stream_nor_chunk_decides_is_the_profiles(tmp_path: Path) -> None:
    document = contract_of("lstm")
    document["symbols"]["H"] = None
    document["profiles"][0]["symbols"]["H"] = [5, 5, 5]
    asked = settings(tmp_path, "lstm", document=document, faults=True, streams=(1, 2), hop_ms=1.0, seconds=0.1)
    found = evaluated(asked, tmp_path / "run")
    assert (found.passed, found.streams[0].check.passed) == (True, True)


def test_another_model_fails_with_chunk_tensor_and_gate(tmp_path: Path) -> None:
    wrong = attention(tmp_path, ("end = Add(encoded_len, capacity)", "end = Add(encoded_len, cache_len)"), name="wrong")
    asked = replace(settings(tmp_path), target=wrong, model=attention(tmp_path))
    found = evaluated(asked, tmp_path / "run")
    gate = failing(found.lanes[1])["rel_l2_max"]
    assert gate.chunk is not None
    assert gate.tensor in ("encoded", "cache_next")
    assert f"of chunk {gate.chunk}" in gate.text
    assert found.failures[0].startswith("fp32 functional: gate ")
    assert not found.passed


@pytest.mark.parametrize(
    ("tensor", "amount", "gate"),
    [("encoded_len", 1, "integers"), ("encoded", np.nan, "finite"), ("encoded", 0.1, "rel_l2_max")],
)
def test_each_gate_names_the_first_chunk_and_the_tensor(
    tensor: str, amount: float, gate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = spoiled(settings(tmp_path), tmp_path / "run", add(tensor, amount, 17), monkeypatch)
    found = failing(lane)[gate]
    assert (found.chunk, found.tensor) == (17, tensor)
    assert "17" in found.text
    assert not lane.passed


def test_between_half_a_limit_and_the_limit_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scale(_: int, outputs: dict[str, NDArray[Any]]) -> None:
        outputs["encoded"] *= np.float32(1 + 7e-6)

    lane = spoiled(settings(tmp_path), tmp_path / "run", scale, monkeypatch)
    verdicts = {gate.gate: gate.verdict for gate in lane.gates}
    assert verdicts["rel_l2_max"] == "warning"
    assert lane.passed


def test_an_error_that_grows_fails_by_its_exponent_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(chunk: int, outputs: dict[str, NDArray[Any]]) -> None:
        outputs["encoded"] = (outputs["encoded"].astype(np.float64) * (1 + 3e-7 * (1 + chunk) / 3)).astype(np.float32)

    lane = spoiled(settings(tmp_path, chunks=60), tmp_path / "run", grow, monkeypatch)
    assert lane.drift is not None
    assert failing(lane).keys() == {"drift"}
    assert "error ~ chunk^" in failing(lane)["drift"].text


def test_the_checklists_limits_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = settings(tmp_path, gates="checklist")
    lane = spoiled(asked, tmp_path / "run", add("encoded", 4e-4, 0), monkeypatch)
    assert failing(lane).keys() == {"abs_mean"}
    assert {gate.gate for gate in lane.gates} >= {"abs_max", "abs_p95", "abs_mean", "drift"}
    assert CHECKLIST.fp16.rel_l2_max is None


@pytest.mark.parametrize(
    ("shares", "asked", "kind"),
    [
        ({"fp32": 1.0}, "fp16", "fp32"),
        ({"fp16": 0.9, "fp32": 0.1}, "fp32", "fp16"),
        ({"tf32": 1.0}, "fp32", "tf32"),
        ({"bf16": 0.5, "fp16": 0.5}, "fp32", "bf16"),
        ({"int8": 0.5, "fp32": 0.5}, "int8", "int8"),
        ({"nvfp4": 0.5, "bf16": 0.5}, "nvfp4", "nvfp4"),
        ({"fp64": 1.0}, "fp32", "fp32"),
        ({}, "fp16", "fp16"),
        ({}, "int8", "int8"),
    ],
)
def test_limits_are_those_of_what_really_computes(shares: Mapping[str, float], asked: str, kind: str) -> None:
    assert judged_as({"shares": shares}, asked) == kind
    assert judged_as(None, "bf16") == "bf16"


def test_a_state_of_fewer_bits_is_rounded_however_the_model_computes() -> None:
    document = contract_of("lstm")
    document["inputs"]["h"]["dtype"] = document["outputs"]["hn"]["dtype"] = "float16"
    contract = Contract.model_validate(document)
    for shares, kind in (({"fp32": 1.0}, "fp16"), ({"bf16": 1.0}, "bf16"), ({"fp16": 0.5, "fp32": 0.5}, "fp16")):
        assert judged_as({"shares": shares}, "fp32", contract) == kind
    assert judged_as({"shares": {"fp32": 1.0}}, "fp32", Contract.model_validate(contract_of("lstm"))) == "fp32"


def test_a_reference_model_with_other_tensors_is_refused(tmp_path: Path) -> None:
    with refused(UsageProblem):
        evaluated(settings(tmp_path, model=MODELS["lstm"][0](tmp_path)), tmp_path / "run")


def test_limits_allow_what_an_engine_may_have_chosen() -> None:
    assert judged_as({"shares": {"fp32": 1.0}, "may_choose": ["fp16", "fp32"]}, "fp16") == "fp16"
    assert judged_as({"shares": {}, "may_choose": ["fp16", "fp32"]}, "fp16") == "fp16"
    assert judged_as({"shares": {}, "may_choose": ["int8", "fp32"]}, "int8") == "int8"


def test_a_recurrent_model_is_told_that_its_stream_is_short(tmp_path: Path) -> None:
    document = contract_of("lstm")
    document["chunking"]["memory"] = {"kind": "infinite"}
    found = evaluated(settings(tmp_path, "lstm", document=document), tmp_path / "run")
    assert any("10000" in note for note in found.notes)
    assert found.memory_chunks is None


@pytest.mark.long
def test_a_reference_is_recorded_once_and_gates_another_run(tmp_path: Path) -> None:
    asked = settings(tmp_path, record=True, seed=3, chunks=60)
    recorded = evaluated(asked, tmp_path / "one")
    again = replace(asked, record=False, reference=str(tmp_path / "one"), seed=0)
    found = evaluated(again, tmp_path / "two")
    assert found.passed
    assert found.reference["name"] == "record of ort-cpu"
    assert found.input["seed"] == 3
    assert [lane.rel_l2_max for lane in found.lanes] == [0.0, 0.0]
    assert recorded.reference["graph_sha256"] == found.reference["graph_sha256"]
    shorter = evaluated(replace(again, chunks=10), tmp_path / "three")
    longer = evaluated(replace(again, chunks=99), tmp_path / "four")
    assert (shorter.chunks, longer.chunks) == (10, 60)
    assert any("60 chunks" in note for note in longer.notes)


def _damage(folder: Path) -> None:
    path = next(folder.glob("reference/block-*.npz"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def _edit(folder: Path) -> None:
    path = folder / "reference" / "record.json"
    path.write_text(path.read_text().replace('"chunks": 40', '"chunks": 39'))


def _rename(folder: Path) -> None:
    path = folder / "reference" / "record.json"
    document = json.loads(path.read_text())
    document["stream"]["file"] = "../../x.npz"
    path.write_text(json.dumps(document))


@pytest.mark.long
@pytest.mark.parametrize("change", [_damage, _edit, _rename])
def test_a_changed_record_is_refused(change: Callable[[Path], None], tmp_path: Path) -> None:
    asked = settings(tmp_path, record=True)
    evaluated(asked, tmp_path / "one")
    change(tmp_path / "one")
    with refused(UsageProblem):
        evaluated(replace(asked, record=False, reference=str(tmp_path / "one")), tmp_path / "two")


def test_a_record_of_another_model_contract_or_chunk_is_refused(tmp_path: Path) -> None:
    asked = settings(tmp_path, record=True)
    evaluated(asked, tmp_path / "one")
    again = replace(asked, record=False, reference=str(tmp_path / "one"))
    edit = ("y = Conv <strides = [2]> (x, w)", "z = Conv <strides = [2]> (x, w)\n    y = Relu(z)")
    other = attention(tmp_path, edit, name="other")
    document = contract_of("attention")
    document["chunking"]["left_fill"] = 1.0
    filled = write_contract(tmp_path / "filled.json", document)
    for changed in (
        replace(again, target=other),
        replace(again, contract=filled),
        replace(again, chunk=11),
        replace(again, input="random"),
        replace(again, record=True),
        replace(again, reference=str(tmp_path)),
    ):
        with refused(UsageProblem):
            evaluated(changed, tmp_path / "two")


def test_what_cannot_be_run_is_refused(tmp_path: Path) -> None:
    asked = settings(tmp_path)
    for changed in (
        replace(asked, chunk=99),
        replace(asked, chunk=8),
        replace(asked, contract=None),
        replace(asked, mode=("device",)),
        replace(asked, precision=("fp16",)),
        replace(asked, backend="ort-gpu"),
        replace(asked, reference="ort-cup"),
        replace(asked, target=tmp_path / "none.onnx"),
    ):
        with refused(UsageProblem):
            evaluated(changed, tmp_path / "run")


def test_a_contract_that_contradicts_the_model_names_each_place(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["outputs"]["encoded"]["dtype"] = "float16"
    del document["outputs"]["encoded_len"]
    document["outputs"]["encoded"].pop("valid")
    document["invariants"] = []
    with refused(UsageProblem):
        evaluated(settings(tmp_path, document=document), tmp_path / "run")


def test_a_record_is_whole_when_its_last_block_is_short(tmp_path: Path) -> None:
    asked = settings(tmp_path, record=True, chunks=53)
    evaluated(asked, tmp_path / "one")
    names = sorted(path.name for path in (tmp_path / "one" / "reference").iterdir())
    assert names == ["block-0000.npz", "block-0001.npz", "record.json", "stream.npz"]
