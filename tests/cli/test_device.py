"""`--device`: an index that the runtime can do nothing with is refused by every command alike."""

from pathlib import Path

import pytest
from tests.in_app import stderr_of
from tests.streaming_models import attention, contract_of, write_contract
from tests.texts import held, refused

from trt_workbench.backends.registry import backend_names, get_backend
from trt_workbench.core.errors import UsageProblem


@pytest.mark.parametrize("command", ["verify", "profile", "infer-engine", "check-contract", "eval-stream"])
def test_a_runtime_without_gpus_has_no_device_but_the_default(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    model, contract = attention(tmp_path), write_contract(tmp_path / "contract.json", contract_of("attention"))
    words = {"check-contract": (contract, model), "eval-stream": (model, "--contract", contract)}.get(command, (model,))
    held(stderr_of(command, *words, "--backend", "ort-cpu", "--device", 3))
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").rglob("*.json"))


@pytest.mark.parametrize(
    ("backend", "option"),
    [("ort-cuda", "device_id=3"), ("ort-trt", "device_id=3"), ("ort-rtx", "device_id=3"), ("torch", "device=cuda:3")],
)
def test_a_runtime_with_an_option_of_its_own_names_it(backend: str, option: str) -> None:
    with refused(UsageProblem):
        get_backend(backend).device_option(3)
    serving = get_backend(backend)
    assert serving.gpu_option.format(3) == option


def test_engines_take_the_index_and_the_default_is_no_word() -> None:
    found = {name: get_backend(name).device_option(0) for name in backend_names()}
    assert found == {name: {"device": 0} if get_backend(name).plans else {} for name in found}
    assert get_backend("trt").device_option(3) == {"device": 3}
