"""`check-contract` on TensorRT and on ONNX Runtime with CUDA: sound models keep their contracts, faults are found."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.in_app import trtw
from tests.streaming_models import MODELS, attention, contract_of, write_contract
from typer.testing import Result

from trt_workbench.backends.registry import availability
from trt_workbench.stream.contract.contract import Contract

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("own_output")]


def need(backend: str) -> None:
    found = availability(backend)
    if not found.ok:
        pytest.skip(f"{found.reason} {found.fix}")


def failures(result: Result) -> dict[str, Any]:
    checks = json.loads(result.stdout)["checks"]
    return {check["name"]: check["findings"][:3] for check in checks if check["verdict"] == "failed"}


@pytest.mark.parametrize("backend", ["trt", "ort-cuda"])
@pytest.mark.parametrize("name", MODELS)
def test_sound_models_keep_their_contracts(name: str, backend: str, tmp_path: Path) -> None:
    need(backend)
    contract = write_contract(tmp_path / "contract.json", contract_of(name))
    result = trtw("check-contract", contract, MODELS[name][0](tmp_path), "--backend", backend, "--json")
    assert result.exit_code in (0, 1), result.stderr
    assert failures(result) == {}


def test_an_engine_with_a_profile_for_each_chunk(tmp_path: Path) -> None:
    """The documents alone first: whole numbers have 32 bits in an engine of TensorRT before 10."""
    need("trt")
    contract, model = contract_of("attention"), attention(tmp_path)
    sound = Contract.model_validate(contract)
    profiles = [word for one in sound.profiles for word in ("--profile", str(sound.engine_profile(one)))]
    plan = tmp_path / "attention.plan"
    built = trtw("build-engine", model, *profiles, "-o", plan, "--verify", "off")
    assert built.exit_code == 0, built.stderr
    written = write_contract(tmp_path / "contract.json", contract)
    assert trtw("check-contract", written, plan, "--static").exit_code == 0
    result = trtw("check-contract", written, plan, "--backend", "trt", "--json")
    assert result.exit_code in (0, 1), result.stderr
    assert failures(result) == {}


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("cache_next = GatherElements <axis = 1> (keys, wide)", "cache_next = Identity(cache)", "live state"),
        ("cache_len_next = Min(longer, capacity)", "cache_len_next = Identity(cache_len)", "invariants"),
        ("before = Less(places, high)", "before = GreaterOrEqual(places, zero)", "padding"),
    ],
)
def test_faults_are_found_on_tensorrt(old: str, new: str, check: str, tmp_path: Path) -> None:
    need("trt")
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    result = trtw("check-contract", contract, attention(tmp_path, (old, new)), "--backend", "trt", "--json")
    assert result.exit_code == 1, result.stderr
    assert check in failures(result)
