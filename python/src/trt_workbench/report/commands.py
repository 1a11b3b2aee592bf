"""Commands that a reader is to copy, made from the one that a report is of."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

_FLAGS = ("--debug", "--json")
_OUTPUT = ("--output", "-o")


def again(words: Sequence[str], without: Collection[str] = (), more: Sequence[str] = ()) -> str:
    """Return a command line for a shell, without its output and some of its options.

    Args:
        words: of the command line.
        without: options, each with a value, that are left out.
        more: words at its end.
    """
    left_out = (*_OUTPUT, *without)
    kept, skip = [], False
    for word in words:
        if skip or word in _FLAGS or word.split("=")[0] in left_out:
            skip = not skip and word in left_out
            continue
        kept.append(word)
    return shlex.join([*kept, *more])
