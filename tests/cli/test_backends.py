"""`trtw backends` and `trtw doctor`: all six backends, each usable or with its reason."""

import json

import pytest
from typer.testing import CliRunner

from trt_workbench.backends.registry import availabilities, backend_names
from trt_workbench.cli.main import app


def test_backends_lists_all_six() -> None:
    result = CliRunner().invoke(app, ["backends"])
    assert result.exit_code == 0
    for name, state in availabilities().items():
        assert name in result.stdout
        if not state.ok:
            assert f"{name}: {state.reason}" in result.stdout


def test_backends_as_json() -> None:
    found = json.loads(CliRunner().invoke(app, ["backends", "--json"]).stdout)
    assert list(found) == list(backend_names())
    assert found["ort-cpu"]["ok"] is True
    assert found["ort-cpu"]["versions"]["onnxruntime"]
    assert all(state["ok"] or state["reason"] for state in found.values())


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_doctor_names_every_backend(form: list[str]) -> None:
    result = CliRunner().invoke(app, ["doctor", *form], env={"COLUMNS": "300"})
    assert result.exit_code in (0, 3)  # 3: something on this machine must be mended
    if form:
        document = json.loads(result.stdout)
        states = {row["component"]: row for row in document["findings"]}
        assert states["backend ort-cpu"]["state"] == "ok"
        assert document["ok"] is (result.exit_code == 0)
        assert {f"backend {name}" for name in backend_names()} <= states.keys()
    else:
        for name, state in availabilities().items():
            assert f"backend {name}" in result.stdout
            assert ("serves here" if state.ok else state.reason) in result.stdout
