"""Masking what depends on the machine, and comparing with what is kept."""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records"
# Fields that say when, where and on what a command ran, or how fast.
_MACHINE = re.compile(
    r"(^|_)(ms|s|seconds|sha256|bytes|threads|concurrency|workers|memory|telemetry|versions|env|key|group|samples_file)$"
    r"|^(real_time_factor|latency|speed|split|slice|items_per|images_per|tokens_per|p50_interval|.*_interval)"
    r"|^(run_id|created|started|ended|date|host|onnxruntime|onnx|numpy|torch|transformers|share|unstable|own_.*|profiled_.*)$"
)
# Sizes of models and the amounts of work are facts of the input, not of the machine.
_FACTS = re.compile(r"^(stream_seconds|hop_seconds|frame_seconds)$")
# Errors by rounding, and what limits follow from copies disturbed by it: other kernels round in another order.
_ROUNDING = re.compile(
    r"difference|noise|kl$|abs|rel_|_rel|rel$|l2|cosine|beyond|typical|changed|near_ties|worst_row|drift|logit|clipped|sqnr"
    r"|value$|threshold|largest|argmax|agreement|log_likelihood|max_rel|limit$|unequal|first_chunk|_chunk$"
)
# Scores are the same on every machine, to the last digit.
_SCORES = re.compile(r"^A[PR](_?\w+)?$")
_TIMES = re.compile(r"\d[\d.,]*(?= ?(?:ms|s|MB|MiB|GiB|items/s|images/s|tokens/s)\b)")
_HASHES = re.compile(r"\b[0-9a-f]{12,64}\b")
# Of texts: figures, and which of several random inputs has the largest error.
_NUMBERS = re.compile(r"[-+\u2212]?\d+(\.\d+)?(e[-+\u2212]?\d+)?|(other )?random|\s+")
# Whether resamples of rounding all lose the same.
_BY_ROUNDING = "alike"
_VERSIONS = re.compile(r"\b\d+\.\d+\.\d+(?:\+\w+)?\b")
_RUNTIMES_OWN = re.compile(r"_token_\d+")  # names that ONNX Runtime draws for the nodes that it adds
_LONGEST = 24


def masked(value: Any, places: dict[str, str], machine: tuple[str, ...] = ()) -> Any:
    """Return a document as it is on every machine.

    Args:
        value: What a command wrote.
        places: What stands for a folder in a text, by the folder.
        machine: Further fields that depend on the machine.
    """

    def walk(value: Any, name: str) -> Any:
        if name and value is not None and (name in machine or (_MACHINE.search(name) and not _FACTS.search(name))):
            return "<machine>"
        if isinstance(value, dict):
            return {walk(key, ""): walk(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            longest = len(value) if name == "printed" else _LONGEST
            shown = [walk(inner, "" if isinstance(inner, dict) else name) for inner in value[:longest]]
            return shown + ([f"<{len(value) - longest} more>"] if len(value) > longest else [])
        if isinstance(value, float):
            return _rounded(value, name)
        return _text(value, places) if isinstance(value, str) else value

    return walk(value, "")


def _rounded(value: float, name: str) -> float:
    if not math.isfinite(value) or _SCORES.search(name):
        return value
    return float(f"{value:.{3 if _ROUNDING.search(name) else 5}e}")


def _text(text: str, places: dict[str, str]) -> str:
    for place, word in places.items():
        text = text.replace(place, word)
    for pattern in (_HASHES, _VERSIONS, _TIMES):
        text = pattern.sub("#", text)
    return _RUNTIMES_OWN.sub("", text)


def differences(kept: Any, now: Any, same: Callable[[Any, Any, str], bool], path: str = "") -> Iterator[str]:
    """Yield `field: was X, is Y` for everything that differs.

    Args:
        kept: The record.
        now: The masked document.
        same: Whether two values are the same, given the name of their field.
        path: Where both stand in the record.
    """
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in [*kept, *(key for key in now if key not in kept)]:
            where = f"{path}.{key}" if path else key
            if key not in now:
                yield f"{where}: was {_short(kept[key])}, is gone"
            elif key not in kept:
                yield f"{where}: is new, {_short(now[key])}"
            else:
                yield from differences(kept[key], now[key], same, where)
    elif isinstance(kept, list) and isinstance(now, list):
        if len(kept) != len(now):
            yield f"{path}: had {len(kept)} entries, has {len(now)}"
        for index, (one, other) in enumerate(zip(kept, now, strict=False)):
            yield from differences(one, other, same, f"{path}[{index}]")
    elif not same(kept, now, path.rsplit(".", 1)[-1].split("[")[0]):
        yield f"{path}: was {_short(kept)}, is {_short(now)}"


def same_here(kept: Any, now: Any, name: str = "") -> bool:  # noqa: ARG001 - one signature for three
    """On the processor and the runtimes of the records: to the last digit that they have."""
    return type(kept) is type(now) and (kept == now or (kept != kept and now != now))


def same_elsewhere(kept: Any, now: Any, name: str) -> bool:
    """With another order of rounding: scores exactly, errors by rounding not at all, other numbers within 0.1 %."""
    if same_here(kept, now) or _SCORES.search(name) or not _numbers(kept, now):
        return same_here(kept, now) or _same_words(kept, now) or name == _BY_ROUNDING
    return bool(_ROUNDING.search(name)) or math.isclose(kept, now, rel_tol=1e-3)


def same_but_for_numbers(kept: Any, now: Any, name: str = "") -> bool:
    """With another order of rounding where values jump: everything but numbers."""
    return same_here(kept, now) or _numbers(kept, now) or _same_words(kept, now) or name == _BY_ROUNDING


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _same_words(kept: Any, now: Any) -> bool:
    both = isinstance(kept, str) and isinstance(now, str)
    return both and _NUMBERS.sub("", kept) == _NUMBERS.sub("", now)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else text[:157] + "..."


def written(value: Any, indent: int = 0) -> str:
    """Return JSON with whatever fits into a line on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= 116 or not isinstance(value, (dict, list)) or not value:
        return line
    inner, outer = " " * (indent + 1), " " * indent
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + written(part, indent + 1) for part in value) + f"\n{outer}]"
    parts = (f"{inner}{json.dumps(key)}: {written(part, indent + 1)}" for key, part in value.items())
    return "{\n" + ",\n".join(parts) + f"\n{outer}}}"
