"""What `--help` shows."""

import pytest
from typer.testing import CliRunner

from trt_workbench.cli import build_engine
from trt_workbench.cli.app import app
from trt_workbench.cli.common import single_command_app


def sections(text: str) -> list[str]:
    """The headings of a help text."""
    return [line.removesuffix(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]


def test_options_stand_under_their_panels() -> None:
    text = CliRunner().invoke(app, ["build-engine", "--help"]).stdout
    assert sections(text)[:3] == ["Arguments", "Options", "Precision"]
    part = text.split("\nTiming cache:\n")[1].split("\n\n")[0]
    assert part.count("  --") == 3
    assert "--timing-cache-strict" in part
    assert text.count("--precision ") == 1


def test_a_console_script_shows_the_same_panels() -> None:
    own = CliRunner().invoke(single_command_app(build_engine.build_engine), ["--help"]).stdout
    assert sections(own) == sections(CliRunner().invoke(app, ["build-engine", "--help"]).stdout)


@pytest.mark.parametrize("command", ["infer-engine", "profile", "inspect-engine"])
def test_loading_an_engine_has_one_panel_of_the_same_options(command: str) -> None:
    text = CliRunner().invoke(app, [command, "--help"]).stdout
    part = text.split("\nLoading an engine:\n")[1].split("\n\n")[0]
    assert {"--trust", "--allow-host-code", "--device"} <= set(part.split())
