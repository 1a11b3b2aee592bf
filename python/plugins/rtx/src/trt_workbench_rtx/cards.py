"""Names of NVIDIA's cards and the architecture (SM) that code is compiled for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trt_workbench.core.counts import grouped
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.core.settings import parts

TIME_LIMIT_S = 1800.0
"""Of one build, unless another is asked for."""
# What the compiler builds for: the names of its enumeration ComputeCapability.
SERVED = ("sm75", "sm80", "sm86", "sm89", "sm120", "sm121")

# By NVIDIA's list of CUDA GPUs (developer.nvidia.com/cuda-gpus); a suffix such as Ti or Super changes nothing.
_CARDS = {
    "sm70": ("v100", "titanv"),
    "sm75": ("rtx2060", "rtx2070", "rtx2080", "t4", "titanrtx"),
    "sm80": ("a100", "a30"),
    "sm86": (
        *("rtx3050", "rtx3060", "rtx3070", "rtx3080", "rtx3090", "a2", "a10", "a16", "a40"),
        *("rtxa2000", "rtxa4000", "rtxa4500", "rtxa5000", "rtxa5500", "rtxa6000"),
    ),
    "sm87": ("orin", "jetsonorin", "agxorin", "orinnx", "orinnano"),
    "sm89": (
        *("rtx4050", "rtx4060", "rtx4070", "rtx4080", "rtx4090", "l4", "l40", "l40s"),
        *("rtx4000ada", "rtx4500ada", "rtx5000ada", "rtx6000ada"),
    ),
    "sm90": ("h100", "h200", "gh200"),
    "sm100": ("b200", "gb200"),
    "sm103": ("b300", "gb300"),
    "sm110": ("thor", "jetsonthor"),
    "sm120": (
        *("rtx5050", "rtx5060", "rtx5070", "rtx5080", "rtx5090"),
        *("rtxpro2000", "rtxpro4000", "rtxpro4500", "rtxpro5000", "rtxpro6000"),
    ),
    "sm121": ("gb10", "dgxspark"),
}
_SM = re.compile(r"(?:sm)?[ _]?([1-9][0-9]?)\.?([0-9])")
_MAKER = re.compile(r"^(nvidia)?(geforce|tesla|quadro)?")
_SUFFIX = re.compile(r"(?<=[0-9])(ti|super|laptop|d|blackwell)+$")


def titled(sm: str, asked: Sequence[str]) -> str:
    """Return an architecture with the cards that were asked for, such as `sm120 (rtx5090)`."""
    cards = [name for name in asked if name != sm]
    return f"{sm} ({', '.join(cards)})" if cards else sm


def architectures(names: str) -> dict[str, list[str]]:
    """Return the architectures behind names of cards (`rtx5090`) or architectures (`sm120`), each with its names.

    Args:
        names: separated by commas.

    Raises:
        UsageProblem: a name is not known, or nothing can be built for it.
    """
    found = grouped(parts(names), _architecture)
    if not found:
        raise UsageProblem("--gpu names no card; pass --gpu rtx5090 or --gpu sm120,sm89,sm86.")
    if refused := [titled(*one) for one in found.items() if one[0] not in SERVED]:
        raise UsageProblem(
            f"TensorRT-RTX builds for {', '.join(SERVED)}, not for {', '.join(refused)}; build for that "
            "card with TensorRT itself, on the card (`build-engine`)."
        )
    return found


def _architecture(name: str) -> str:
    lower = name.lower()
    if found := _SM.fullmatch(lower):
        return f"sm{found[1]}{found[2]}"
    known = {card: sm for sm, cards in _CARDS.items() for card in cards}
    card = _MAKER.sub("", re.sub("[ _-]", "", lower))
    if sm := known.get(card) or known.get(_SUFFIX.sub("", card)):
        return sm
    raise UsageProblem(
        f"Unknown card {name!r}; name its architecture, such as sm120, or "
        + (did_you_mean(card, known) if "." not in name else "the file of a score's targets by --annotations.")
    )
