"""How images become a model's input: the family's own transform, changed as the user and the metadata say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, get_args

from trt_workbench.backends.images import ImageTransform
from trt_workbench.backends.preparation import Background, ChannelOrder, Normalize, Preparation, Resize
from trt_workbench.core.errors import UsageProblem

SAID: Final[Mapping[str, tuple[str, ...]]] = {
    "normalize": get_args(Normalize),
    "resize": get_args(Resize),
    "channel_order": get_args(ChannelOrder),
    "background": get_args(Background),
}
"""Settings that a model's metadata may say too, with their values."""
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


FINDS_OUT: Final = "`trtw eval-coco MODEL --data DIR --annotations FILE` finds out which options to pass."


def flag(name: str) -> str:
    """Return the option of a setting."""
    return f"--{name.replace('_', '-')}"


def values_of(name: str) -> str:
    """Return the values of a setting in words."""
    *others, last = SAID[name]
    return f"{', '.join(others)} or {last}"


def options_of(chosen: Mapping[str, str]) -> str:
    """Return settings as they are typed."""
    return " ".join(f"{flag(name)} {value}" for name, value in chosen.items())


def with_metadata(said: Preparation, metadata: Mapping[str, str]) -> Preparation:
    """Return what the user says, and what the metadata says where the user says nothing.

    Raises:
        UsageProblem: the metadata has a value that there is not.
    """
    found: dict[str, Any] = {}
    for name, values in SAID.items():
        text = metadata.get(name) or None
        if text is not None and text not in values:
            raise UsageProblem(f"The model's metadata `{name}` must be {values_of(name)}, not {text[:80]!r}.")
        found[name] = getattr(said, name) or text
    return dataclasses.replace(Preparation.of(said), **found)


def applied(said: Preparation, own: ImageTransform) -> ImageTransform:
    """Return a family's own transform, changed as was said.

    Raises:
        UsageProblem: the model takes grey levels as integers, and they are to be normalised.
    """
    changes: dict[str, Any] = {"channels": said.channel_order or own.channels}
    if own.dtype == "uint8":
        if said.normalize == "imagenet":
            raise UsageProblem("The model takes grey levels as integers; --normalize imagenet is not possible.")
    elif said.normalize:
        changes |= {"scale": 1.0 if said.normalize == "0-255" else 1.0 / 255.0, "mean": (0.0,) * 3, "std": (1.0,) * 3}
    if said.normalize == "imagenet":
        step = -1 if changes["channels"] == "bgr" else 1  # both are in the order of the channels
        changes |= {"mean": _IMAGENET_MEAN[::step], "std": _IMAGENET_STD[::step]}
    if said.resize == "letterbox" and own.placement in ("stretch", "crop"):
        changes |= {"placement": "centre", "antialias": False}
    elif said.resize and said.resize != "letterbox":
        changes |= {"placement": "stretch", "antialias": said.resize == "stretch-antialias"}
    return dataclasses.replace(own, **changes)
