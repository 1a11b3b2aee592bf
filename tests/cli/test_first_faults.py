"""What a newcomer does wrong first, with every command: one error that names what was typed, in plain English."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image
from tests.in_app import trtw

from trt_workbench.app import COMMANDS, app_for
from trt_workbench.core.workspace import embedded_model

# The arguments of a command that takes some, and the options that it requires.
ARGUMENTS = {
    **dict.fromkeys(COMMANDS, ("m.onnx",)),
    **dict.fromkeys(("setup-tensorrt", "build-ort", "backends", "doctor"), ()),
    **dict.fromkeys(("report", "merge"), ("run",)),
    "predict": ("m.onnx", "a.jpg"),
    "compare": ("run", "run"),
    "gate": ("gate.yaml",),
    "submit": ("run.yaml", "--to", "local"),
    "check-contract": ("contract.json", "m.onnx"),
    "refit-engine": ("m.plan", "m.onnx", "--plan", "new.plan"),
    "upgrade": ("m.onnx", "--to", "."),
    **dict.fromkeys(("quantize", "sensitivity"), ("m.onnx", "--to", "int8", "--calibration", "random")),
    **dict.fromkeys(("sanitize-onnx", "export-triton", "make-contract", "export-llm"), ("m.onnx", "--output", "made")),
}
TAKING = [name for name, words in ARGUMENTS.items() if words]
# Words of a library or of Python, which say nothing of what to do.
FOREIGN = re.compile(r"Input should|Field required|field required|unable to parse|Errno|Traceback|Exception|None\b")


def parameters(command: str) -> list[Any]:
    found: Any = typer.main.get_command(app_for([command]))
    return list(getattr(found, "commands", {command: found})[command].params)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    shutil.copy(embedded_model(), "m.onnx")
    Image.new("RGB", (64, 64)).save("a.jpg")
    Path("empty-folder").mkdir()


def refused(*words: str, typed: str) -> str:
    """Run a command, which refuses what was typed, and return its error."""
    result = trtw(*words)
    if result.exit_code == 3 and words[0] == "export-triton":
        pytest.skip("tritonclient is not installed")
    assert result.exit_code == 2, f"{words}: {result.output}"
    assert not result.stdout, f"{words}: {result.stdout}"
    errors = [line for line in result.stderr.splitlines() if line.lower().startswith("error: ")]
    assert len(errors) == 1, f"{words}: {result.stderr}"
    assert typed in errors[0], f"{words}: {errors[0]}"
    assert not FOREIGN.search(errors[0]), f"{words}: {errors[0]}"
    return errors[0]


@pytest.mark.parametrize("typed", ["absent.onnx", "empty-folder", "a.jpg"])
@pytest.mark.parametrize("command", TAKING)
def test_what_is_no_input_of_a_command_is_named(command: str, typed: str) -> None:
    error = refused(command, typed, *ARGUMENTS[command][1:], typed=Path(typed).suffix or typed)
    if typed == "absent.onnx":
        assert "trust" not in error
        assert re.search(r"does not exist|No such file", error), error
    if typed == "a.jpg":
        assert "GPU" not in error


@pytest.mark.parametrize("command", COMMANDS)
def test_a_number_that_is_none_is_named_with_what_it_must_be(command: str) -> None:
    for one in parameters(command):
        kind = one.type_descriptor.annotation
        if one.param_type_name == "option" and kind in (int, float) and not one.is_flag:
            flag, words = one.opts[0], ARGUMENTS[command]
            asked = words[: words.index(flag)] if flag in words else words
            said = refused(command, *asked, flag, "many", typed="'many'")
            assert ("must be a whole number" if kind is int else "must be a number") in said, said


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_without_a_value_is_an_unset_variable(command: str) -> None:
    for one in parameters(command):
        alone = (one.metavar or "").startswith("[")
        if one.param_type_name == "option" and not one.is_flag and not alone and one.default != "":
            refused(command, *ARGUMENTS[command], one.opts[0], "", typed=one.opts[0])
