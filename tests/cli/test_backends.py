"""`trtw backends` and `trtw doctor`: all six backends, each usable or with its reason."""

import json
import re

import pytest
from tests.in_app import stdout_of, trtw
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.backends.base import Availability
from trt_workbench.backends.registry import availabilities, backend_names


def test_backends_lists_all_six() -> None:
    printed = stdout_of("backends")
    for name, state in availabilities().items():
        assert name in printed
        if not state.ok:
            assert re.search(rf"(?m)^([\w-]+, )*{name}(, [\w-]+)*: {re.escape(state.reason)}", printed)


def test_one_reason_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Availability(ok=False, reason="No GPU.", fix="Install a driver.")
    found = {"trt": absent, "ort-cpu": Availability(ok=True), "ort-cuda": absent}
    monkeypatch.setattr("trt_workbench.backends.registry.availabilities", lambda: found)
    assert stdout_of("backends").endswith("\ntrt, ort-cuda: No GPU. Install a driver.\n")
    shown = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "400"}).stdout
    assert "backend trt, ort-cuda" in shown
    assert shown.count("Install a driver.") == 1


def test_backends_as_json() -> None:
    found = json.loads(trtw("backends", "--json").stdout)
    assert list(found) == list(backend_names())
    assert found["ort-cpu"]["ok"] is True
    assert found["ort-cpu"]["versions"]["onnxruntime"]
    assert all(state["ok"] or state["reason"] for state in found.values())


def test_doctor_names_every_backend() -> None:
    result = trtw("doctor", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == (0 if document["ok"] else 3)  # 3: something on this machine must be fixed
    found = {row["component"]: row for row in document["findings"]}
    assert found["backend ort-cpu"]["state"] == "ok"
    for name, state in availabilities().items():
        assert found[f"backend {name}"]["found"] == ("available" if state.ok else state.reason)
        assert found[f"backend {name}"]["fix"] == state.fix


def test_doctor_shows_a_table() -> None:
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "400"})
    assert result.exit_code in (0, 3)
    for name in backend_names():
        assert re.search(rf"backend ([\w-]+, )*{name}\b", result.stdout)
