"""Why two builds of one request differ: tactics and formats by layer, kept beside the plan of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trt_workbench.core.builds import LayerChoice, LayerDifference, LayerVariant
from trt_workbench.core.counts import grouped
from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.core.files import anything
from trt_workbench.core.precision import data_type

NAMES_ONLY = "The engines list only names of layers; build with profiling_verbosity detailed to compare their tactics."
# The layouts in the inspector's words, named like TensorFormat of NvInferRuntime.h, which lacks inner ones, as hwc4.
_WIDE = {"two": 2, "four": 4, "eight": 8, "sixteen": 16, "thirty-two": 32}
_LAYOUTS = (
    (re.compile(r"^(\S+) wide channel vectorized row major\b", re.IGNORECASE), "chw"),
    (re.compile(r"^channel major .*\bchannel % (\d+) == 0", re.IGNORECASE), "hwc"),
    (re.compile(r"^row major\b", re.IGNORECASE), "linear"),
)
ABSENT = "Tactics were not compared: the engines of these builds are not in this machine's cache."


class LayerChoices(Strict):
    """PLAN.layers.json: the choice of every layer by name; a second layer of one name has "#2" behind it."""

    layers: dict[str, LayerChoice]


def keep_choices(plan: Path, layers: Sequence[Mapping[str, Any]]) -> None:
    """Write what the engine inspector says of a plan's layers beside it. Raises OSError."""
    seen: Counter[str] = Counter()
    found: dict[str, LayerChoice] = {}
    for layer in layers:
        name = str(layer.get("Name", ""))
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name} #{seen[name]}"] = _choice(layer)
    write_json(_file(plan), LayerChoices(layers=found), over=anything)


def has_choices(plan: Path) -> bool:
    """Say whether the choices of a plan are kept beside it."""
    return _file(plan).is_file()


def differences(plans: Mapping[int, Path]) -> tuple[tuple[LayerDifference, ...], str]:
    """Return the layers that differ between builds, and what that does not show.

    Args:
        plans: by number of the build.

    Raises:
        UsageProblem: a file is damaged.
    """
    files = {number: _file(plan) for number, plan in plans.items()}
    if not all(map(has_choices, plans.values())):
        return (), ABSENT
    by_build = {number: read_document(file, LayerChoices).layers for number, file in files.items()}
    names = dict.fromkeys(name for layers in by_build.values() for name in layers)
    each = ((name, {number: layers.get(name) for number, layers in by_build.items()}) for name in names)
    found = [_difference(name, choices) for name, choices in each if len(set(choices.values())) > 1]
    only_names = all(not choice.tactic for layers in by_build.values() for choice in layers.values())
    return tuple(found), NAMES_ONLY if only_names else ""


def what_differs(layer: LayerDifference) -> list[str]:
    """Return for each variant of a layer what distinguishes it from the others, in few words.

    Names of kernels are of 100 characters and more, of which most are those of the others.
    """
    known = [one.choice for one in layer.variants if one.choice]
    tactics = iter(_apart([one.tactic for one in known]) if len({one.tactic for one in known}) > 1 else [])
    others = len({one.formats for one in known}) > 1
    found = []
    for one in layer.variants:
        if one.choice is None:
            found.append("no such layer")
            continue
        formats = ", ".join(map(_short_format, one.choice.formats)) if others or len(known) == 1 else ""
        found.append("; ".join(filter(None, (next(tactics, ""), formats))) or one.choice.tactic)
    return found


def _apart(names: Sequence[str]) -> list[str]:
    """Return different names by those of their words that not all of them have; whole where that is not enough."""
    words = [name.split("_") for name in names]
    shared = set(words[0]).intersection(*words)
    found = [" ".join(word for word in each if word not in shared) for each in words]
    return found if all(found) and len(set(found)) == len(set(names)) else list(names)


def _short_format(text: str) -> str:
    """Return type and layout as trtexec spells them, such as fp16:hwc8; the text itself where it is unknown."""
    for pattern, name in _LAYOUTS:
        if (match := pattern.search(text)) and (kind := data_type(text)):
            size = next(iter(match.groups()), "")
            return f"{kind}:{name}{_WIDE.get(size.lower(), size)}"
    return text


def _difference(name: str, choices: Mapping[int, LayerChoice | None]) -> LayerDifference:
    groups = grouped(choices, choices.__getitem__)
    known = [choice for choice in groups if choice]
    apart = {
        "tactic": len({choice.tactic for choice in known}) > 1,
        "format": len({choice.formats for choice in known}) > 1,
    }
    differs = " and ".join(what for what, is_so in apart.items() if is_so) if len(known) == len(groups) else "fusion"
    order = sorted(groups.items(), key=lambda one: -len(one[1]))
    variants = tuple(LayerVariant(builds=tuple(numbers), choice=choice) for choice, numbers in order)
    return LayerDifference(layer=name, differs=differs, variants=variants)


def _choice(layer: Mapping[str, Any]) -> LayerChoice:
    tactic = layer.get("TacticName") or layer.get("TacticValue") or layer.get("LayerType") or ""
    tensors = [one for side in ("Inputs", "Outputs") for one in layer.get(side) or () if isinstance(one, dict)]
    keys = ("Format/Datatype", "Datatype", "Format")
    formats = (" ".join(str(one[key]) for key in keys if one.get(key)) for one in tensors)
    return LayerChoice(tactic=str(tactic), formats=tuple(formats))


def _file(plan: Path) -> Path:
    return plan.with_name(f"{plan.name}.layers.json")
