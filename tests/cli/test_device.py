"""`--device`: an index that the runtime can do nothing with is refused by every command alike."""

from pathlib import Path

import pytest
from tests.in_app import trtw
from tests.streaming_models import attention, contract_of, write_contract

from trt_workbench.backends.registry import backend_names, get_backend


@pytest.mark.parametrize("command", ["verify", "profile", "infer-engine", "check-contract", "eval-stream"])
def test_a_runtime_without_gpus_has_no_device_but_the_default(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    model, contract = attention(tmp_path), write_contract(tmp_path / "contract.json", contract_of("attention"))
    words = {"check-contract": (contract, model), "eval-stream": (model, "--contract", contract)}.get(command, (model,))
    result = trtw(command, *words, "--backend", "ort-cpu", "--device", 3)
    assert result.exit_code == 2, result.output
    assert result.stderr == (
        "error: Backend ort-cpu computes on the processor alone and has no CUDA device 3; leave --device out.\n"
    )
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").rglob("*.json"))


def test_the_default_and_runtimes_with_gpus_are_left_alone() -> None:
    found = {name: get_backend(name) for name in backend_names()}
    assert found["ort-cpu"].device_option(0) == {}
    assert {name: backend.device_option(3) for name, backend in found.items() if name != "ort-cpu"} == {
        name: {"device": 3} if backend.plans else {} for name, backend in found.items() if name != "ort-cpu"
    }
