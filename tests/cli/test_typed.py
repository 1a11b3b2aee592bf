"""Values are read as typer reads them, and without pydantic."""

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from tests.texts import held
from typer.core import TyperCommand
from typer.testing import CliRunner

from trt_workbench.app import COMMANDS, app_of
from trt_workbench.console.common import PanelCommand


class _Colour(Enum):
    red = "red"


def _taken(words: list[str], kind: type[TyperCommand]) -> Any:
    """What a command gets of `words`, or what typer says against them."""
    found: dict[str, Any] = {}
    app = typer.Typer(rich_markup_mode=None)

    @app.command(cls=kind)
    def command(
        file: Path,
        *,
        text: str = "a",
        count: Annotated[int, typer.Option(min=1, max=100)] = 3,
        share: float = 0.5,
        kind: Literal["full", "quick"] = "full",
        colour: _Colour = _Colour.red,
        name: list[str] | None = None,
        number: list[int] | None = None,
        spin: bool | None = None,
        loud: bool = True,
    ) -> None:
        found.update(locals())

    try:
        app(words, standalone_mode=False)
    except Exception as error:  # of the click that typer has of its own
        return type(error), str(error)
    return {name: (type(value), value) for name, value in found.items() if name != "found"}


_COUNTS = ("1", "007", "+7", " 7", "7.0", "7_0", "²", "٣", "0", "101", "9" * 30, "x", "")
_SHARES = ("1", "1.", ".5", "0.25", "1e3", "-1", "1.2.3", ".", "0.1" + "3" * 30)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["a b/ü.plan"],
        ["\udcff"],
        ["m", "--text", "\udcff"],
        ["m", "--text", "a\tb"],
        *(["m", "--count", text] for text in _COUNTS),
        *(["m", "--share", text] for text in _SHARES),
        *(["m", "--kind", text] for text in ("quick", "QUICK", "none")),
        ["m", "--colour", "red"],
        ["m", "--colour", "blue"],
        ["m", "--name", "a", "--name", "b"],
        ["m", "--number", "1", "--number", "2"],
        ["m", "--number", "1", "--number", "x"],
        ["m", "--spin", "--no-loud"],
    ],
)
def test_a_value_is_read_as_typer_reads_it(words: list[str]) -> None:
    ours, typers = _taken(words, PanelCommand), _taken(words, TyperCommand)
    if isinstance(ours, tuple) and ours[0].__name__ == "BadParameter":  # `PanelCommand` has words of its own
        held(ours[1])
        ours = ours[0], typers[1]
    assert ours == typers


@pytest.mark.parametrize("words", [[""], ["m", "-o", ""], ["m", "--output="], ["m", "a.png", ""]], ids=" ".join)
def test_an_empty_path_is_not_the_current_folder(words: list[str]) -> None:
    app = typer.Typer()

    @app.command(cls=PanelCommand)
    def command(
        file: Path,
        images: Annotated[list[Path] | None, typer.Argument()] = None,
        *,
        output: Annotated[Path, typer.Option("-o", "--output")] = Path(),
    ) -> None:
        raise AssertionError((file, images, output))

    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 2
    assert "it is empty" in ended.output


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("infer-engine", ["m.plan", "--no-bench", "--device", "1", "--input", "x=a.npy", "--rtol", "0.1", "--json"]),
        ("bench", ["bench.yaml", "--output", "out"]),
        ("verify", ["m.onnx", "--quick", "--seed", "7"]),
        ("report", ["run"]),
        ("decide", ["m.onnx", "--backends", "trt", "--limit", "10"]),
    ],
)
def test_what_is_simple_is_read_without_pydantic(
    command: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Any = typer.main.get_command(app_of([command, *list(COMMANDS)[:1]]))
    monkeypatch.delattr(typer, "_adapters", raising=False)
    monkeypatch.setitem(sys.modules, "typer._adapters", None)  # to import it is an error
    made.commands[command].make_context(command, words)
