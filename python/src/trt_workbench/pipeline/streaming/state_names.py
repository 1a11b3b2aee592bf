"""Which outputs are the next chunk's inputs, by their names and shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trt_workbench.onnxtools.preflight import ModelTensor

_WORD = "@"  # stands for `past` in one name and `present` in the other
# A word stands apart, but for `hn`, `stateN` and `h0`. NeMo has `cache_last_channel_next_len`.
_OUTPUT = (
    r"(?P<stem>.+?)([_.](next|new|out|output|updated)|[_.]?n)(?P<tail>[_.]?\d*)",
    r"(?P<stem>.+?)[_.](next|new|updated)(?P<tail>[_.].+)",
    r"(next|new|out|output|updated|cur|current)[_.](?P<stem>.+)(?P<tail>)",
)
_INPUT = (
    r"(?P<stem>.+?)([_.](in|input|prev|old|last)|[_.]?0)(?P<tail>[_.]?\d*)",
    r"(in|input|prev|previous|past|old|last|init|initial)[_.](?P<stem>.+)(?P<tail>)",
)


def state_pairs(
    inputs: Mapping[str, ModelTensor], outputs: Mapping[str, ModelTensor]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the outputs by input that belong together by name, and those inputs that several outputs may belong to.

    A pair has one type, one rank, and equal sizes where both are numbers; its names differ in a word such as `next`,
    `new`, `out` or `n`, or in `past` and `present`.
    """
    candidates = {
        name: [
            other
            for other, there in outputs.items()
            if _fit(given, there) and _stems(name, _INPUT, "past") & _stems(other, _OUTPUT, "present")
        ]
        for name, given in inputs.items()
    }
    taken = [other for several in candidates.values() for other in several]
    pairs = {
        name: several[0]
        for name, several in candidates.items()
        if len(several) == 1 and taken.count(several[0]) == 1 and several[0] != name
    }
    open_ones = {name: several for name, several in candidates.items() if several and name not in pairs}
    return pairs, open_ones


def alike(given: ModelTensor, outputs: Iterable[ModelTensor]) -> list[str]:
    """Return the names of outputs with the type and shape of an input."""
    return [one.name for one in outputs if _fit(given, one)]


def _fit(one: ModelTensor, other: ModelTensor) -> bool:
    if one.dtype != other.dtype or one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return False
    # exporters lose sizes of outputs, not those of inputs
    return all(a == b or not isinstance(b, int) for a, b in zip(one.shape, other.shape, strict=True))


def _stems(name: str, patterns: tuple[str, ...], word: str) -> set[str]:
    spelled = name.lower()
    plain = {spelled, re.sub(rf"(?<![a-z]){word}(_key_values)?(?![a-z])", _WORD, spelled)}
    matches = (re.fullmatch(pattern, text) for pattern in patterns for text in plain)
    found = plain | {match["stem"] + match["tail"] for match in matches if match}
    return {re.sub(r"[_.]", "", stem) for stem in found}
