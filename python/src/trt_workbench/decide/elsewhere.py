"""Cards that are not here: the command that measures there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from trt_workbench.console.options import spelled
from trt_workbench.core.launcher import gpu_environment, launcher
from trt_workbench.decide.document import BASELINE

# Settings of this machine, of this run, or of what is not timed.
_OF_HERE = (
    "backends", "precisions", "options", "builds", "budget", "repetitions", "threads",
    "allow_unverified",
)  # fmt: skip
# Of numbers whose option takes a unit.
_UNITS = {"max_latency_ms": "ms", "max_memory_mib": "MiB"}


def words_elsewhere(model: Path | str | None, *asked: Any) -> tuple[str, ...]:
    """Return what `decide` is typed with on another machine, where the files lie in the current folder.

    Args:
        model: its file, or the name of an embedded one; None of the default.
        asked: settings.
    """
    given = {
        spelled(type(one))[each.name]: (each.name, value)
        for one in asked
        for each in fields(one)
        if each.name not in _OF_HERE
        and (value := getattr(one, each.name))
        != (each.default if each.default_factory is MISSING else each.default_factory())
    }
    places = [place for value in (model, *(value for _, value in given.values())) if (place := _place(value))]
    depth = 1
    while len({_last(one, depth) for one in places}) < len({one.resolve() for one in places}):
        depth += 1
    words = [_text("", model, depth)] if model else []
    for flag, (name, value) in given.items():
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
            continue
        texts = (
            [f"{key}={one:g}" for key, one in value.items()] if isinstance(value, dict) else [_text(name, value, depth)]
        )
        words += [word for text in texts for word in (flag, text)]
    return tuple(words)


def command_elsewhere(words: Sequence[str], precisions: Sequence[str]) -> str:
    """Return the command that scores and times precisions on a machine with a GPU, as the user starts commands."""
    line = shlex.join(["decide", *words, "--precisions", ",".join((BASELINE, *precisions))])
    started = launcher()
    if started.environment is None:
        return f"trtw {line}"
    return started.in_environment("gpu-llm" if "llm" in started.environment else gpu_environment(), line)


def _place(value: Any) -> Path | None:
    """Return the file or folder that a value names; of a function as score its file."""
    place = Path(value.rpartition(":")[0] or value) if isinstance(value, str) else value
    return place if isinstance(place, Path) and place.exists() else None


def _last(place: Path, depth: int) -> str:
    return str(Path(*place.resolve().parts[-depth:]))


def _text(name: str, value: Any, depth: int) -> str:
    """Return the value of an option, a file by the last parts of its path."""
    if place := _place(value):
        of_function = isinstance(value, str) and ":" in value
        return _last(place, depth) + (f":{value.rpartition(':')[2]}" if of_function else "")
    if name in _UNITS:
        return f"{value:g}{_UNITS[name]}"
    return ("x" if name == "imgsz" else ",").join(map(str, value)) if isinstance(value, tuple) else str(value)
