"""Settings that a class declares become options, and what was typed becomes an instance of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import BaseModel, ValidationError
from tests.texts import refused
from typer.testing import CliRunner

from trt_workbench.console.common import handled, single_command_app
from trt_workbench.console.options import Given, spelled
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import Setting, pairs, shapes, signed, values, values_by_backend

Level = Annotated[int, Setting("How high.", min=0, max=5)]


@dataclass(frozen=True)
class Request:
    target: Annotated[Path, Setting("What to climb.", argument=True, metavar="HILL")]
    gear: Annotated[tuple[str, ...], Setting("Repeatable.", flags="--take -t")] = ()
    kind: Annotated[Literal["steep", "flat"] | None, Setting("Which.", "Ways")] = None
    ropes: Annotated[Mapping[str, str], Setting("NAME=LENGTH.", "Ways", "--rope", read=pairs)] = field(
        default_factory=dict
    )
    careful: Annotated[bool, Setting("Look around.")] = True
    alone: Annotated[bool, Setting("Nobody else.")] = False
    speed: Annotated[float | None, Setting("Or auto.", kind=str, default="auto", read=lambda _, text: len(text))] = None
    level: Level = 2
    unseen: int = 7


@dataclass(frozen=True)
class Weather:
    level: Level = 2
    rain: Annotated[bool, Setting("Wet.")] = False


class Sparse:
    number: Annotated[int | None, Setting("A number.", min=1)] = 3
    words: Annotated[tuple[str, ...], Setting("Words.")] = ()
    dry: Annotated[bool, Setting("Dry.")] = False


class Checked(Sparse, BaseModel):
    weight: Annotated[float, Setting(above=0)] = 1.0
    doubled: dict[str, Annotated[float, Setting(max=2)]] = {}


SEEN: list[Any] = []


@handled
def climb(
    request: Request,
    weather: Weather,
    *,
    sparse: Annotated[dict[str, Any], Given(Sparse, "sub_")],
    shape: Annotated[Mapping[str, Any], Setting("A shape.", kind=list[str], read=shapes)] = MappingProxyType({"y": 3}),
    note: Annotated[str, typer.Option(help="As ever.")] = "",
    debug: bool = False,
) -> None:
    """Climb."""
    SEEN.append((request, weather, sparse, shape, note, debug))


def called(*words: str) -> Any:
    done = CliRunner().invoke(single_command_app(climb), words)
    assert done.exit_code == 0, done.output
    return SEEN.pop()


def test_an_instance_gets_what_was_typed() -> None:
    request, weather, sparse, shape, note, debug = called(
        *("hill", "--take", "boots", "-t", "map", "--kind", "steep", "--rope", "a=b=9", "--no-careful", "--level", "4"),
        *("--speed", "fast", "--rain", "--sub-number", "5", "--shape", "x:1x2", "--note", "n"),
    )
    assert request == Request(
        Path("hill"), ("boots", "map"), "steep", {"a=b": "9"}, careful=False, speed=len("fast"), level=4
    )
    assert weather == Weather(4, rain=True)  # one option, two fields
    assert (sparse, shape, note, debug) == ({"number": 5}, {"x": (1, 2)}, "n", False)


def test_what_is_not_typed_keeps_its_default() -> None:
    request, weather, sparse, shape, _, _ = called("hill")
    assert request == Request(Path("hill"), speed=len("auto"))
    assert (weather, sparse, shape) == (Weather(), {}, {"y": 3})


def test_help_says_what_the_settings_say() -> None:
    shown = CliRunner().invoke(single_command_app(climb), ["--help"], env={"COLUMNS": "100"}).stdout
    arguments, options, ways, more = (
        shown.split(f"\n{panel}:\n")[1].split("\n\n")[0] for panel in ("Arguments", "Options", "Ways", "More options")
    )
    assert "HILL" in arguments
    assert "--careful / --no-careful" in options
    assert "--no-alone" not in options
    assert "How high.  [default: 2; 0<=x<=5]" in options
    assert options.count("--level") == 1
    assert "Or auto.  [default: auto]" in options
    assert "A number.  [x>=1]" in more  # nothing stands for what was not given
    assert "--unseen" not in shown
    assert "--kind <steep|flat>" in ways
    assert "--rope" in ways


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rope", "long"], "--rope takes NAME=VALUE, not 'long'."),
        (["--level", "6"], "Invalid value for '--level'"),
        (["--kind", "soft"], "'soft' is not one of 'steep', 'flat'."),
        (["--shape", "x"], "--shape takes NAME:DIMxDIM…, such as images:1x3x640x640, not 'x'."),
    ],
)
def test_a_wrong_value_is_refused_in_a_sentence(words: Sequence[str], message: str) -> None:
    done = CliRunner().invoke(single_command_app(climb), ["hill", *words], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert message in done.output


def test_two_settings_of_one_name_are_refused() -> None:
    def command(weather: Weather, *, rain: Annotated[bool, typer.Option()] = False, debug: bool = False) -> None: ...

    with pytest.raises(TypeError, match="rain means two things in command"):
        handled(command)


def test_settings_are_called_as_their_options() -> None:
    assert spelled(Sparse) == {"number": "--number", "words": "--words", "dry": "--dry"}
    assert (spelled(Request)["gear"], spelled(Request)["ropes"]) == ("--take", "--rope")


@pytest.mark.parametrize("wrong", [{"number": 0}, {"weight": 0}, {"doubled": {"a": 3}}])
def test_a_model_has_the_bounds_of_its_settings(wrong: dict[str, Any]) -> None:
    assert Checked(number=None, weight=0.5, doubled={"a": 2}).words == ()
    with pytest.raises(ValidationError, match="Input should be "):
        Checked.model_validate(wrong)


def test_options_of_several_backends() -> None:
    texts = ["trt:a=2", "ort-cpu:a=x:y=z", 'trt:b=["-CUBLAS"]']
    assert values_by_backend("--option", texts) == {"trt": {"a": 2, "b": ["-CUBLAS"]}, "ort-cpu": {"a": "x:y=z"}}
    with refused(UsageProblem):
        values_by_backend("--option", ["trt:a=2", "trt:a=3"])
    for wrong in ("trt:a", "a=1", ":a=1", "trt:=1", "a=b:c"):
        with refused(UsageProblem):
            values_by_backend("--option", [wrong])


def test_readers_return_what_texts_say() -> None:
    assert signed("--x", ["+a", "-b"]) == {"a": True, "b": False}
    assert values("--option", ["a=2", "b=[1]", "c=text", "d==", "e="]) == {
        "a": 2,
        "b": [1],
        "c": "text",
        "d": "=",
        "e": "",
    }
