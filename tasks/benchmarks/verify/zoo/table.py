"""The table of what is verified: models of the repository, known architectures, language models, generated graphs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
EMBEDDED = ROOT / "models"
GENERATED = 200
GROUPS = {
    "embedded": "embedded models",
    "architecture": "known architectures",
    "language": "graphs of language models",
    "generated": "generated graphs",
}
_BATCH = (1, 2, 4)  # tried at 1, 2, 3 and 4
_SEQUENCE = (2, 8, 16)
_FAMILIES = ("llama", "opt", "gpt2", "qwen2", "mistral")
_FIRST_SEED = 5000
_SANITIZED = ("swin",)  # its sizes of windows are computed with Mod, which TensorRT 8.6 does not have


@dataclass(frozen=True)
class Entry:
    """One model.

    Attributes:
        name: of its records.
        group: of GROUPS.
        what: what it is, and what of it is reduced.
        write: writes the ONNX file; returns words to keep with its records, or nothing.
        ranges: low, best and high of its free dimensions by symbol, the batch first.
    """

    name: str
    group: str
    what: str
    write: Callable[[Path], Any]
    ranges: Mapping[str, tuple[int, int, int]]

    @property
    def batch(self) -> str:
        """Return the symbol of the batch."""
        return next(iter(self.ranges))


def entries() -> list[Entry]:
    """Return the whole table, what takes longest first."""
    return [*_embedded(), *_architectures(), *_language(), *_generated()]


def _embedded() -> list[Entry]:
    detector = EMBEDDED / "shapes-yolov10" / "shapes-yolov10.onnx"
    found = [
        Entry(
            "shapes-yolov10", "embedded", "the embedded detector as it is", partial(_copy, detector), {"batch": _BATCH}
        )
    ]
    for kind, ranges in _GRAPHS.items():
        what = f"the embedded language model, its {kind} graph, {_SLOTS[kind]}"
        write = partial(_language_model, str(EMBEDDED / "tiny-lm"), kind)
        found.append(Entry(f"tiny-lm-{kind}", "embedded", what, write, ranges))
    return found


def _architectures() -> list[Entry]:
    text = {"batch": _BATCH, "sequence": (1, 8, 32)}
    of_image = "images of 64 x 64"
    table: dict[str, tuple[str, dict[str, tuple[int, int, int]]]] = {
        "resnet50": (f"all layers, {of_image}", {"batch": _BATCH}),
        "segformer": (f"b0 whole, {of_image}", {"batch": _BATCH}),
        "detr": ("2 + 2 layers of 6 + 6, width 128 of 256, a narrow ResNet-10, images of 128 x 128", {"batch": _BATCH}),
        "swin": (f"2 of 4 stages, width 48 of 96, windows of 4, {of_image}, through sanitize-onnx", {"batch": _BATCH}),
        "vit": (f"4 of 12 layers, width 384 of 768, {of_image}", {"batch": _BATCH}),
        "fastconformer": (
            "2 blocks, width 128, relative attention, a mask by lengths",
            {"batch": _BATCH, "time": (4, 12, 32)},
        ),
        "bert": ("3 of 12 layers, width 192 of 768, masks with padding", text),
        "whisper-encoder": ("2 layers, width 192, 1 s of sound", {"batch": _BATCH}),
    }
    return [
        Entry(name, "architecture", what, partial(_network, name), ranges) for name, (what, ranges) in table.items()
    ]


_GRAPHS: dict[str, dict[str, tuple[int, int, int]]] = {
    "step": {"batch": _BATCH},
    "static": {"batch": _BATCH, "sequence": (1, 4, 8)},
    "logits": {"batch": _BATCH, "sequence": _SEQUENCE},
}
_SLOTS = {"step": "16 slots", "static": "16 slots", "logits": "padding masks"}


def _language() -> list[Entry]:
    found = []
    for family in _FAMILIES:
        for kind, ranges in _GRAPHS.items():
            what = f"{family}, 2 layers, width 128, the {kind} graph, {_SLOTS[kind]}"
            found.append(Entry(f"{family}-{kind}", "language", what, partial(_language_model, family, kind), ranges))
        what = f"{family}, the step graph with a mask for each row, as it was before the workaround"
        write = partial(_language_model, family, "step", mask_for_each_row=True)
        found.append(Entry(f"{family}-step-row-masks", "language", what, write, _GRAPHS["step"]))
    return found


def _generated() -> list[Entry]:
    """Half of the graphs are blocks in a row, half one attention each."""
    ranges = {"N": _BATCH}
    found = []
    for number in range(GENERATED):
        seed = _FIRST_SEED + number
        write, what = (_attention, "one attention") if number % 2 else (_blocks, "blocks in a row")
        found.append(Entry(f"generated-{number:03d}", "generated", what, partial(write, seed), ranges))
    return found


def _copy(model: Path, path: Path) -> None:
    shutil.copyfile(model, path)


def _network(name: str, path: Path) -> None:
    from zoo.networks import NETWORKS

    _seeded()
    NETWORKS[name]().write(path)
    if name in _SANITIZED:
        from trt_workbench.model.opened import Model
        from trt_workbench.model.sanitize.sanitize import chosen_rewrites, sanitize
        from trt_workbench.model.weights import save_model

        model, _ = sanitize(Model.open(path), chosen_rewrites())
        save_model(model, path)


def _language_model(family: str, kind: str, path: Path, *, mask_for_each_row: bool = False) -> None:
    from zoo.networks import write_language_model

    _seeded()
    write_language_model(family, kind, path, mask_for_each_row=mask_for_each_row)


def _seeded() -> None:
    import torch

    torch.manual_seed(0)


def _blocks(seed: int, path: Path) -> list[str]:
    from tests.random_models import write_model

    return list(write_model(seed, path))


def _attention(seed: int, path: Path) -> list[str]:
    from tests.random_attention import drawn, write_attention

    return list(write_attention(drawn(seed), path, seed))
