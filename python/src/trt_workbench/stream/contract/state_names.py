"""Which outputs are the next chunk's inputs, by their names and shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trt_workbench.model.facts import ModelTensor

_WORD = "@"  # replaces `past` in one name and `present` in the other
# A word is separate, except `hn`, `stateN` and `h0`. NeMo has `cache_last_channel_next_len`, WeNet `r_att_cache`.
_OUTPUT = (
    r"(?P<stem>.+?)([_.](next|new|out|output|updated)|[_.]?n)(?P<tail>[_.]?\d*)",
    r"(?P<stem>.+?)[_.](next|new|updated)(?P<tail>[_.].+)",
    r"(next|new|out|output|updated|cur|current|r)[_.](?P<stem>.+)(?P<tail>)",
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
    `new`, `out`, `r` or `n`, or in `past` and `present`. Names that are equal with fewer words left out belong together
    before others: `h_10` without its 0 would be `h_1`.
    """
    fits = [(name, other) for name, given in inputs.items() for other, there in outputs.items() if _fit(given, there)]
    stems = {name: _stems(name, _INPUT, "past") for name in inputs}
    ends = {name: _stems(name, _OUTPUT, "present") for name in outputs}
    apart: dict[tuple[str, str], int] = {}
    for name, other in fits:
        common = stems[name].keys() & ends[other].keys()
        if common and name != other:
            apart[name, other] = min(stems[name][stem] + ends[other][stem] for stem in common)
    nearest = [pair for pair in apart if all(apart[pair] <= apart[one] for one in apart if one[0] == pair[0])]
    nearest = [pair for pair in nearest if all(apart[pair] <= apart[one] for one in apart if one[1] == pair[1])]
    given, made = ([pair[side] for pair in nearest] for side in (0, 1))
    pairs = {name: other for name, other in nearest if given.count(name) == made.count(other) == 1}
    left = [(name, other) for name, other in apart if name not in pairs and other not in pairs.values()]
    return pairs, {name: [other for one, other in left if one == name] for name, _ in left}


def alike(given: ModelTensor, outputs: Iterable[ModelTensor]) -> list[str]:
    """Return the names of outputs with the type and shape of an input."""
    return [one.name for one in outputs if _fit(given, one)]


def _fit(one: ModelTensor, other: ModelTensor) -> bool:
    if one.dtype != other.dtype or one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return False
    # exporters lose sizes of outputs, not those of inputs
    return all(a == b or not isinstance(b, int) for a, b in zip(one.shape, other.shape, strict=True))


def _stems(name: str, patterns: tuple[str, ...], word: str) -> dict[str, int]:
    """Return what a name is without the words that distinguish an input from an output, and how many are left out."""
    spelled = name.lower()
    plain = {spelled, re.sub(rf"(?<![a-z]){word}(_key_values)?(?![a-z])", _WORD, spelled)}
    matches = (re.fullmatch(pattern, text) for pattern in patterns for text in plain)
    found = {_bare(match["stem"] + match["tail"]): 1 for match in matches if match}
    return found | {_bare(text): 0 for text in plain}


def _bare(stem: str) -> str:
    return re.sub(r"[_.]", "", stem).replace("attn", "att")  # sherpa-onnx's script for WeNet mixes them
