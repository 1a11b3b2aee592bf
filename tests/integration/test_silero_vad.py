"""A model from outside: silero-vad, an LSTM whose left context of 64 samples the caller keeps.

`pip download silero-vad --no-deps`, unpacked anywhere, with TRTW_SILERO naming its folder `silero_vad/data`.
"""

import json
import os
from pathlib import Path

import pytest
from tests.in_app import trtw
from tests.streaming_models import write_contract

MODEL = Path(os.environ.get("TRTW_SILERO", "absent")) / "silero_vad_16k_op15.onnx"
pytestmark = pytest.mark.skipif(not MODEL.is_file(), reason="needs silero_vad_16k_op15.onnx in the folder TRTW_SILERO")


def test_silero_keeps_the_contract_that_make_contract_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    contract = tmp_path / "contract.json"
    words = ["make-contract", str(MODEL), "-o", str(contract), "--first", "576", "--later", "576"]
    words += ["--left-context", "64", "--init", "0", "--batch", "4", "--json"]
    made = json.loads(trtw(*words).stdout)
    assert made["state"] == [{"output": "stateN", "input": "state", "init": 0.0}]
    assert list(made["undecided"]) == ["inputs.sr.role"]
    assert '"role": "constant", "value": 16000' in made["undecided"]["inputs.sr.role"]
    document = json.loads(contract.read_text())
    document["inputs"]["sr"] |= {"role": "constant", "value": 16000}
    write_contract(contract, document)
    result = trtw("check-contract", contract, MODEL, "--backend", "ort-cpu", "--json")
    assert result.exit_code == 0, result.stderr
    verdicts = {check["name"]: check["verdict"] for check in json.loads(result.stdout)["checks"]}
    assert {name for name, verdict in verdicts.items() if verdict == "passed"} == {
        "documents", "invariants", "chunk sizes", "reset", "live state", "batch"
    }  # fmt: skip
    document["state"][0]["dead"] = True
    write_contract(contract, document)
    result = trtw("check-contract", contract, MODEL, "--backend", "ort-cpu")
    assert (result.exit_code, "state: is declared dead but is live" in result.stderr) == (1, True)
