"""`eval-stream` on engines, by the double of the core: a verdict `wrong`, and a profile for each chunk size."""

import json
from pathlib import Path

import pytest
from tests.in_app import stderr_of, stdout_of, trtw
from tests.streaming_models import attention, contract_of, degenerate, write_contract
from tests.texts import held

from trt_workbench.engine.verdicts import keep_verdict
from trt_workbench.verify.engine import PlanRequest, verify_plan

FEW = ("--chunks", 5, "--no-report", "--mode", "closed-loop", "--backend", "trt")


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    model, plan = attention(tmp_path), tmp_path / "attention.plan"
    ranges = "x:1x3x3/1x3x9/1x3x15,length:1/1/1,cache:1x6x4/1x6x4/1x6x4,cache_len:1/1/1"
    stdout_of("build-engine", model, "--profile", ranges, "-o", plan, "--verify", "off")
    found = verify_plan(PlanRequest(plan, model)).model_copy(update={"verdict": "wrong", "reason": "row 1 is wrong"})
    assert keep_verdict(plan, found)
    return plan


def test_an_engine_that_is_known_to_be_wrong_is_refused(engine: Path, tmp_path: Path) -> None:
    document = contract_of("attention")
    document["profiles"] = [{"name": "all", "symbols": {"B": [1, 1, 1], "T": [3, 9, 15]}}]
    words = (engine, "--contract", write_contract(tmp_path / "contract.json", document), *FEW)
    said = stderr_of("eval-stream", *words, "--output", tmp_path / "run", code=1)
    held(said)
    assert not (tmp_path / "run").exists()
    allowed = trtw("eval-stream", *words, "--allow-unverified", "--output", tmp_path / "run")
    assert allowed.exit_code == 0, allowed.stderr
    assert allowed.stderr.startswith("--allow-unverified: ")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert [(mark["verdict"], mark["allowed"]) for mark in metrics["verification"]] == [("wrong", True)]
    assert metrics["notes"][0].startswith("Not verified, accepted by --allow-unverified: attention.plan is wrong")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["allow_unverified"] is True


def test_a_model_is_built_for_a_profile_of_each_chunk_size(tmp_path: Path) -> None:
    """The checklist's stream has a profile for its first chunk and another for later ones, and none for both."""
    contract = write_contract(tmp_path / "contract.json", contract_of("degenerate"))
    stdout_of("eval-stream", degenerate(tmp_path), "--contract", contract, *FEW, "--output", tmp_path / "run")


def test_many_streams_keep_their_states_on_the_device(tmp_path: Path) -> None:
    """An engine for batches is built, the core's pool has the states, and its parts of a chunk are reported."""
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    words = (attention(tmp_path), "--contract", contract, *FEW, "--streams", "1,5", "--hop-ms", 20, "--seconds", 0.1)
    assert "on the device" in stdout_of("eval-stream", *words, "--output", tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    (paced,) = metrics["streams"]
    assert paced["on_device"]
    assert paced["cuda_graphs"] == "on: 1 graph captured"
    assert paced["check"]["rows"] == [1, 2, 3]
    assert paced["buckets"] == [1, 2, 3]
    assert paced["memory_bytes"]["arena"] == 6 * paced["memory_bytes"]["per_stream"]
    assert paced["levels"][1]["parts_ms"].keys() == {"wait", "host_to_device", "compute", "device_to_host", "host"}
    assert paced["levels"][1]["parts_ms"]["compute"]["p50"] == 1.0


def test_a_pool_whose_batches_are_wrong_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "3")  # rows after the first, from batches of three on
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    words = (attention(tmp_path), "--contract", contract, *FEW, "--streams", "4", "--hop-ms", 20, "--seconds", 0.1)
    said = stderr_of("eval-stream", *words, "--output", tmp_path / "run", code=1)
    held(said)
    (paced,) = json.loads((tmp_path / "run" / "metrics.json").read_text())["streams"]
    assert (paced["check"]["passed"], paced["levels"]) == (False, [])


def test_an_engine_that_is_right_in_small_batches_alone_keeps_to_them(tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    words = (attention(tmp_path), "--contract", contract, *FEW, "--streams", "3", "--hop-ms", 20, "--seconds", 0.1)
    stdout_of("eval-stream", *words, "--option", "rows=2", "--output", tmp_path / "run")
    (paced,) = json.loads((tmp_path / "run" / "metrics.json").read_text())["streams"]
    assert paced["on_device"]
    assert (paced["buckets"], paced["check"]["rows"]) == ([1, 2], [1, 2])
