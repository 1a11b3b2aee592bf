"""Commands of other packages: found by their entry points, named by one sentence when their package is absent."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from tests.in_app import stderr_of, stdout_of, trtw
from tests.kept_reports import checked_target
from tests.texts import held

from trt_workbench import app
from trt_workbench.backends import registry
from trt_workbench.core import extensions
from trt_workbench.core.workspace import ENCODER, embedded_model

ROOT = Path(__file__).parents[2]
PLUG_INS = {path.name: path for path in (ROOT / "python" / "plugins").iterdir()}
COMMAND = '''"""A command."""
import typer
from trt_workbench.console.common import handled

@handled
def greet(name: str) -> None:
    """Greet somebody."""
    typer.echo(f"Hello, {name}.")
'''


def entry_points(plug_in: str, group: str) -> dict[str, str]:
    project = tomllib.loads((PLUG_INS[plug_in] / "pyproject.toml").read_text())["project"]
    found: dict[str, str] = project["entry-points"].get(group, {})
    return found


@pytest.mark.parametrize("plug_in", PLUG_INS)
def test_the_list_of_commands_has_those_of_a_plug_in(plug_in: str) -> None:
    listed = {name for name, place in app.COMMANDS.items() if place == plug_in}
    assert listed == entry_points(plug_in, extensions.COMMANDS).keys()
    assert not listed & {*app.OWN_COMMANDS}


def test_the_registry_knows_the_backends_of_plug_ins() -> None:
    points = {name: plug_in for plug_in in PLUG_INS for name in entry_points(plug_in, extensions.BACKENDS)}
    assert points == {name: place for name, place in registry._BACKENDS.items() if ":" not in place}


@pytest.mark.parametrize("plug_in", PLUG_INS)
def test_a_plug_in_says_what_it_is_and_has_its_tests(plug_in: str) -> None:
    assert f"tests/plugins/{plug_in}/" in (PLUG_INS[plug_in] / "README.md").read_text()
    assert list((ROOT / "tests" / "plugins" / plug_in).glob("test_*.py"))


@pytest.mark.parametrize("words", [("m.onnx", "-o", "models", "--what"), ("--help",), ()])
def test_an_absent_plug_in_is_named_with_the_command_that_installs_it(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extensions, "_entries", lambda *_: ())
    held(stderr_of("export-triton", *words, code=3))
    assert "export-triton" in stdout_of("--help")


@pytest.mark.parametrize("name", ["v2", "openai", "ort-rtx"])
def test_a_backend_of_an_absent_plug_in_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_entries", lambda *_: ())
    held(stderr_of("infer-engine", "shapes-yolov10", "--backend", name, code=3))
    assert "v2, openai: Its plug-in serving is not installed." in " ".join(stdout_of("backends").split())
    assert name not in registry.default_backends()


def test_a_comparison_that_names_no_backend_takes_those_of_plug_ins_for_gpus() -> None:
    assert registry.default_backends() == ("trt", "ort-trt", "ort-rtx", "ort-cuda", "ort-cpu")


def test_what_a_command_asks_of_an_absent_plug_in_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = checked_target(tmp_path / "run")
    monkeypatch.setattr(extensions, "_entries", lambda *_: ())
    held(stderr_of("report", page.parent, code=3))
    held(stderr_of("report", tmp_path, code=3))
    held(stderr_of("decide", embedded_model(ENCODER), code=3))
    held(stderr_of("decide", "m.onnx", "--score", "wer", code=3))
    words = ("quantize", embedded_model(ENCODER), "--to", "int8", "--calibration", "code")
    held(stderr_of(*words, code=3))


def test_a_command_of_another_package_is_one_of_ours(outside_package: Callable[..., None], tmp_path: Path) -> None:
    assert "No such command 'greet'" in stderr_of("greet", "Ada", code=2)
    (tmp_path / "greeter.py").write_text(COMMAND)
    outside_package({extensions.COMMANDS: {"greet": "greeter:greet", "doctor": "greeter:greet"}}, tmp_path)
    assert stdout_of("greet", "Ada") == "Hello, Ada.\n"
    assert {"greet", "export-triton"} < typer.main.get_command(app.app_for(["nothing"])).commands.keys()  # type: ignore[attr-defined]
    assert "driver" in stdout_of("doctor", "--help")  # ours stays


def test_a_broken_package_stops_its_command_alone(outside_package: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "greeter.py").write_text("import no_such_library")
    outside_package({extensions.COMMANDS: {"greet": "greeter:greet"}}, tmp_path)
    held(stderr_of("greet", "Ada", "--loud", code=3))
    assert trtw("no-such-command").exit_code == 2
    assert stdout_of("export-triton", "--help")
