"""One setting, said once: a field of a request class carries the help, the bounds and the form of its option.

`console/options.py` makes the options of a command from such classes. They import neither numpy nor pydantic, as
`--help` reads them all: pydantic with the build settings alone takes nearly twice the time of typer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from trt_workbench.core.errors import UsageProblem, did_you_mean, whole_number
from trt_workbench.core.input_files import parse_json

LOADING, MORE = "Loading an engine", "More options"
_OF_BACKEND = re.compile(r"([^:=]+):([^=]+=.*)", re.DOTALL)


@dataclass(frozen=True)
class Setting:
    """What a field's annotation says of its option: `streams: Annotated[int, Setting("Streams at once.", min=1)] = 1`.

    Attributes:
        help: one line for people.
        panel: under which `--help` lists it. The first five that name none lead, the rest of them is under `MORE`.
        flags: as typer writes them, apart by blanks; by default `--name`, with `/--no-name` where the default is true.
        min: smallest value, of pydantic's models too.
        max: largest value.
        above: what the value must exceed; of pydantic's models alone.
        kind: type that is typed, where that does not follow from the field's: `str`, or `list[str]` of what repeats.
        read: makes the field's value of what was typed; called with the option's name first, to be named in errors.
        default: shown and read where nothing is given, if that is not the field's own default.
        metavar: stands for the value in `--help`.
        argument: no option, but a positional argument.
        takes_functions: whether Python may give a function, which `read` takes, too.
        completes: what a shell completes a precision to, where that is not all that a model can be run in or made in.
    """

    help: str = ""
    panel: str = "Options"
    flags: str = ""
    min: float | None = None
    max: float | None = None
    above: float | None = None
    kind: Any = None
    read: Callable[[str, Any], Any] | None = None
    default: Any = None
    metavar: str | None = None
    argument: bool = False
    takes_functions: bool = False
    completes: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return the schema of the field with the bounds, for pydantic."""
        schema = handler(source)
        bounds = {"ge": self.min, "le": self.max, "gt": self.above}
        schema.get("schema", schema).update({name: bound for name, bound in bounds.items() if bound is not None})
        return schema


def parts(text: str) -> tuple[str, ...]:
    """Return the parts of a list with commas, each once; blanks around them, and empty ones, do not count."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def names(option: str, text: str, known: Collection[str] = (), noun: str = "name") -> tuple[str, ...]:
    """Return the names of a list with commas. Raises UsageProblem for an empty one, and for a name not in `known`."""
    if not (found := parts(text)):
        raise UsageProblem(f"{option} takes comma-separated names, not {text!r}.")
    if known and (wrong := [name for name in found if name not in known]):
        raise UsageProblem(f"{option}: there is no {noun} {wrong[0]!r}; {did_you_mean(wrong[0], known)}")
    return found


def sizes(option: str, text: str) -> tuple[int, ...]:
    """Return the sizes of a list with commas. Raises UsageProblem for another form."""
    found = tuple(whole_number(part) or 0 for part in parts(text))
    if not found or not all(found):
        raise UsageProblem(f"{option} takes positive sizes, separated by commas, such as 1,8, not {text!r}.")
    return tuple(dict.fromkeys(found))


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the values by name of a repeated option that takes NAME=VALUE; a name may hold an equals sign.

    Raises:
        UsageProblem: a text has another form, or a name comes twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        if not (name and separator and value):
            raise UsageProblem(f"{option} takes NAME=VALUE, not {text!r}.")
        _refuse_again(option, name, found)
        found[name] = value
    return found


def numbers(option: str, texts: Sequence[str]) -> dict[str, float]:
    """Return the numbers by name of a repeated option that takes NAME=NUMBER.

    Raises:
        UsageProblem: a text has another form, or a name comes twice.
    """
    found = {name: number(text) for name, text in pairs(option, texts).items()}
    if wrong := [name for name, value in found.items() if not math.isfinite(value)]:
        raise UsageProblem(f"{option} takes NAME=NUMBER, and {wrong[0]} has another value.")
    return found


def quantity(units: Mapping[str, float], example: str, own: str) -> Callable[[str, str | float], float]:
    """Return what reads a positive number with its unit, such as 2ms, and raises UsageProblem for another form.

    Args:
        units: factor of each unit, in lower case; case does not count.
        example: what is taken instead, such as "a time such as 90s".
        own: the unit of the number, in which Python and YAML give it without one.
    """

    def read(option: str, given: str | float) -> float:
        unit = given.lstrip("0123456789. ").lower() if isinstance(given, str) else ""
        value = number(given[: len(given) - len(unit)]) * units.get(unit, math.nan) if isinstance(given, str) else given
        if 0 < value < _MOST:
            return float(value)
        form = example if isinstance(given, str) else f"a number of {own} above 0, or {example}"
        raise UsageProblem(f"{option} takes {form}, not {given!r}.")

    return read


_MOST = 1e15
duration = quantity({"s": 1.0, "m": 60.0, "h": 3600.0}, "a time such as 90s, 30m or 2h", "seconds")
"""Seconds."""
latency = quantity({"us": 1e-3, "ms": 1.0, "s": 1e3}, "a time such as 2ms or 500us", "milliseconds")
"""Milliseconds."""
memory = quantity({"kib": 2.0**-10, "mib": 1.0, "gib": 2.0**10}, "a size such as 512MiB or 2GiB", "MiB")
"""MiB."""


def number(text: str) -> float:
    """Return the number that a text is; NaN of any other."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def signed(option: str, texts: Sequence[str]) -> dict[str, bool]:
    """Return what `+NAME` switches on and `-NAME` off.

    Raises:
        UsageProblem: a text has another form, or a name comes twice.
    """
    found: dict[str, bool] = {}
    for text in texts:
        if len(text) < 2 or text[0] not in "+-":
            raise UsageProblem(f"{option} takes +NAME or -NAME, not {text!r}.")
        _refuse_again(option, text[1:], found)
        found[text[1:]] = text[0] == "+"
    return found


def values(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the options of a backend by name, of repeated KEY=VALUE.

    A value that is JSON (`true`, `2`, `{"a": "b"}`) is taken as that, any other as text.

    Raises:
        UsageProblem: there is no `=`, or a key comes twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UsageProblem(f"{option} takes KEY=VALUE, such as device=1, not {text!r}.")
        _refuse_again(option, key, found)
        try:
            found[key] = parse_json(value)
        except ValueError:
            found[key] = value
    return found


def values_by_backend(option: str, texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options of several backends by their names, of repeated BACKEND:KEY=VALUE; values as `values` does.

    Raises:
        UsageProblem: a text has another form, or a backend gets a key twice.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        parts = _OF_BACKEND.fullmatch(text)
        if not parts:
            raise UsageProblem(f"{option} takes BACKEND:KEY=VALUE, such as trt:device=1, not {text!r}.")
        found.setdefault(parts[1], []).append(parts[2])
    return {backend: values(option, own) for backend, own in found.items()}


def with_flags(options: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a backend with those that the command has flags of its own for.

    Raises:
        UsageProblem: an option has a flag of its own, whatever that was set to: which of the two counts is not guessed.
    """
    if taken := sorted(flags.keys() & options.keys()):
        raise UsageProblem(f"Use --{taken[0].replace('_', '-')} in place of --option {taken[0]}.")
    return {**options, **flags}


def shapes(option: str, texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return shapes by input name from texts such as `images:1x3x640x640`.

    Raises:
        UsageProblem: a text has another form, or an input comes twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, dims = text.rpartition(":")
        sizes = [whole_number(part) for part in dims.split("x")]
        if not name or None in sizes:
            raise UsageProblem(f"{option} takes NAME:DIMxDIM…, such as images:1x3x640x640, not {text!r}.")
        _refuse_again(option, name, found)
        found[name] = tuple(size for size in sizes if size is not None)
    return found


def _refuse_again(option: str, name: str, found: Mapping[str, Any]) -> None:
    if name in found:
        raise UsageProblem(f"{option} {name} was given twice; pass it once.")


# Settings of more than one command.
BackendOptions = Annotated[
    Mapping[str, Any],
    Setting(
        "An option of the backend, such as device=1; repeatable.",
        MORE,
        flags="--option",
        read=values,
        metavar="KEY=VALUE",
    ),
]
OptionsByBackend = Annotated[
    Mapping[str, Mapping[str, Any]],
    Setting(
        "An option of one backend, such as trt:optimization_level=1; repeatable.",
        MORE,
        flags="--option",
        read=values_by_backend,
        metavar="BACKEND:KEY=VALUE",
    ),
]
Keep = Literal["median", "fastest"]
"""Which of several builds is kept, by latency."""
BuildsOption = Annotated[
    int | None,
    Setting("Build engines this often, each from an empty timing cache, and show the spread.", min=2),
]
FREE_SIZE = 64
"""Size of a free dimension, other than a batch or an image's side, to which no option and no metadata gives one."""
Shapes = Annotated[
    Mapping[str, tuple[int, ...]],
    Setting("NAME:1x3x640x640: shape of a random input; repeatable.", flags="--shape", read=shapes),
]
Runtime = Annotated[str, Setting("Runtime that executes the model; see `trtw backends`.")]
Precision = Annotated[str, Setting("Precision requested from the backend.")]
Target = Annotated[Path, Setting("ONNX model, or TensorRT plan.", argument=True, metavar="MODEL|PLAN")]
Report = Annotated[bool, Setting("Write report.html and plots/.")]
Seed = Annotated[int, Setting("Seed of all random numbers.", MORE, min=0)]
AllowUnverified = Annotated[
    bool, Setting("Accept TensorRT engines that are wrong or not verified; the first line says so.", MORE)
]
Trust = Annotated[bool, Setting("Load a plan without a matching manifest. A plan is executable code.", LOADING)]
HostCode = Annotated[bool, Setting("Allow a version-compatible plan to run the code that it contains.", LOADING)]
Plugins = Annotated[
    tuple[Path, ...],
    Setting("Plugin library to load first; repeatable. No other is loaded.", LOADING, flags="--plugin"),
]
ServerUrl = Annotated[
    str | None,
    Setting("URL of the server that runs the model, for backend v2, such as http://localhost:8000.", MORE),
]
Device = Annotated[int, Setting("Index of the CUDA device.", LOADING, min=0)]
ProfileIndex = Annotated[
    int | None, Setting("Optimisation profile; by default the one that fits the shapes.", LOADING, min=0)
]
