"""A contract beside an engine: by its manifest alone, and run by the backend `trt`, on the double of the core."""

import json
from pathlib import Path

import pytest
from tests.in_app import json_of, stderr_of, stdout_of, trtw
from tests.streaming_models import attention, contract_of, write_contract
from tests.texts import held

from trt_workbench.engine.manifest import manifest_path
from trt_workbench.stream.contract.contract import Contract


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    contract, plan = Contract.model_validate(contract_of("attention")), tmp_path / "attention.plan"
    profiles = [word for one in contract.profiles for word in ("--profile", str(contract.engine_profile(one)))]
    stdout_of("build-engine", attention(tmp_path), *profiles, "-o", plan, "--verify", "off")
    return plan


def test_an_engine_keeps_its_contract(engine: Path, tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    stdout_of("check-contract", contract, engine, "--static")
    document = json_of("check-contract", contract, engine, "--backend", "trt", "--chunks", 5)
    assert document["session"]["plan"] == str(engine)
    assert {check["verdict"] for check in document["checks"]} == {"passed"}


def test_a_model_is_built_for_the_profiles_of_its_contract(tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    stdout_of("check-contract", contract, attention(tmp_path), "--backend", "trt", "--chunks", 5, "--json")


def test_an_engine_for_other_sizes_is_refused(engine: Path, tmp_path: Path) -> None:
    document = contract_of("attention")
    document["profiles"][1]["symbols"]["T"] = [3, 9, 21]
    said = stderr_of("check-contract", write_contract(tmp_path / "contract.json", document), engine, "--static")
    held(said)


def test_an_engine_of_tensorrt_8_takes_int32(engine: Path, tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    manifest = json.loads(manifest_path(engine).read_text())
    for tensor in (*manifest["inputs"], *manifest["outputs"]):
        tensor["dtype"] = tensor["dtype"].replace("int64", "int32")
    for version, code in (("8.6.0", 0), ("10.16.1", 2)):
        manifest_path(engine).write_text(json.dumps({**manifest, "tensorrt_version": version}))
        assert trtw("check-contract", contract, engine, "--static").exit_code == code


@pytest.mark.parametrize("option", ["device=1", "trust=true"])
@pytest.mark.parametrize("command", ["verify", "profile", "check-contract", "eval-stream"])
def test_what_has_a_flag_is_not_taken_as_an_option_of_the_backend(
    engine: Path, tmp_path: Path, command: str, option: str
) -> None:
    """Of --device 0 and --option device=1 either may be meant."""
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    words = {"check-contract": (contract, engine), "eval-stream": (engine, "--contract", contract)}.get(
        command, (engine,)
    )
    said = stderr_of(command, *words, "--backend", "trt", "--option", option)
    held(said)
