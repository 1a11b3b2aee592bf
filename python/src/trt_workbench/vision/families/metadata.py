"""Reading what a model's metadata and inputs say: image size, layout, class names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation, metadata_literal, metadata_size
from trt_workbench.core.errors import UsageProblem, is_text
from trt_workbench.vision.extras import TaskName
from trt_workbench.vision.families.base import DetectorFacts
from trt_workbench.vision.preparation import with_metadata

# What a head of Ultralytics' is for, by a word in its name, where `task` is not given.
_HEADS = (("Segment", "segment"), ("Pose", "pose"), ("OBB", "obb"), ("Classify", "classify"))
_TASKS: dict[str, TaskName] = {
    "detect": "boxes",
    "segment": "masks",
    "pose": "keypoints",
    "obb": "rotated",
    "classify": "classes",
    "semantic": "semantic",
}
SIZES = "orig_target_sizes"
"""The second input of a DETR with its post-processing inside: of each image, its width and height."""
_DTYPES = ("float32", "float16", "uint8")


def read_facts(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    metadata: Mapping[str, str],
    said: Preparation,
    *,
    forced: bool,
) -> DetectorFacts:
    """Gather what a family needs to know about a model.

    Args:
        inputs: the session's inputs; a detector has one, of rank 4, or a second one for the images' sizes.
        outputs: the session's outputs.
        metadata: the model's own. Of what Ultralytics' exporter writes, `task`, `head`, `kpt_shape`, `channels`,
            `end2end`, `args`, `names`, `imgsz`, `author` and `description` say how the outputs are read; `version`,
            `date`, `license`, `docs`, `stride`, `batch`, `dla` and `kpt_names` do not. `normalize`, `resize`,
            `channel_order` and `background` are our own keys, and `crop_pct` one of timm's configurations.
        said: what the user says of the images.
        forced: whether the family was named.

    Raises:
        UsageProblem: the model takes no image, does another task, has no size or another one, or cannot be understood.
    """
    task = _task(metadata)
    spec, layout = _image_input(inputs)
    sizes = inputs[1] if len(inputs) > 1 else None
    dims = spec.shape[2:4] if layout == "nchw" else spec.shape[1:3]
    exporter = f"{metadata.get('author', '')} {metadata.get('description', '')}".lower()
    return DetectorFacts(
        input_size=_resolve_size(dims, metadata_size(metadata), said.imgsz),
        fixed_size=None not in dims,
        layout=layout,
        dtype=cast("Literal['float32', 'float16', 'uint8']", spec.dtype),
        names=class_names(metadata),
        exporter=exporter,
        head=metadata.get("head") or None,
        end_to_end=_end_to_end(metadata),
        forced=forced,
        outputs=tuple(outputs),
        sizes=sizes,
        said=with_metadata(said, metadata),
        task=task,
        keypoints=_keypoints(metadata),
        crop=_crop(metadata),
    )


def class_names(metadata: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the class names in `names`: a JSON or Python list, or a mapping from index to name. None if absent.

    Raises:
        UsageProblem: `names` is something else, or its indices have gaps.
    """
    text = metadata.get("names")
    if not text:
        return None
    value = metadata_literal("names", text)
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    if not all(is_text(str(name)) for name in found):
        raise UsageProblem(f"The model's metadata `names` contains unprintable characters: {text[:80]}")
    if isinstance(value, dict):
        try:
            by_index = {int(key): str(name) for key, name in value.items()}
        except (TypeError, ValueError, OverflowError):
            by_index = {}
        if sorted(by_index) == list(range(len(value))) and by_index:
            return tuple(by_index[index] for index in range(len(by_index)))
    elif isinstance(value, (list, tuple)) and value and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise UsageProblem(f"The model's metadata `names` is not a list of class names: {text[:80]}")


def _task(metadata: Mapping[str, str]) -> TaskName | None:
    """Return what the metadata says that the model finds; None if it says nothing."""
    task, head = metadata.get("task") or None, metadata.get("head", "")
    if task in (None, "detect"):
        task = "pose" if "kpt_shape" in metadata else next((name for word, name in _HEADS if word in head), task)
    if task is not None and task not in _TASKS:
        raise UsageProblem(
            f"The model's metadata says that its task is {task!r}. Supported are tasks {', '.join(_TASKS)}."
        )
    if (channels := metadata.get("channels") or "3") != "3":
        raise UsageProblem(
            f"The model's metadata says that it takes images of {channels} channels; only 3 (colour) are supported."
        )
    return None if task is None else _TASKS[task]


def _keypoints(metadata: Mapping[str, str]) -> tuple[int, int] | None:
    if not (text := metadata.get("kpt_shape")):
        return None
    value = metadata_literal("kpt_shape", text)
    match value:
        case [int(count), 2 | 3 as values] if count > 0:
            return count, values
    raise UsageProblem(f"The model's metadata `kpt_shape` is not the number of keypoints and 2 or 3: {text[:80]}")


def _crop(metadata: Mapping[str, str]) -> float | None:
    if not (text := metadata.get("crop_pct")):
        return None
    value = metadata_literal("crop_pct", text)
    if isinstance(value, int | float) and 0.1 <= value <= 1:
        return float(value)
    raise UsageProblem(f"The model's metadata `crop_pct` is not a share from 0.1 to 1: {text[:80]}")


def _end_to_end(metadata: Mapping[str, str]) -> bool | None:
    """Whether boxes come without need of suppression: `end2end`, or a suppression exported with the model (`args`)."""
    try:
        arguments = metadata_literal("args", metadata.get("args") or "{}")
    except UsageProblem:  # another tool's key of the same name
        arguments = {}
    if isinstance(arguments, dict) and arguments.get("nms") is True:
        return True
    return {"true": True, "1": True, "false": False, "0": False}.get(metadata.get("end2end", "").lower())


def _image_input(inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, Literal["nchw", "nhwc"]]:
    if (len(inputs) == 1 or _are_sizes(inputs[1:])) and len(inputs[0].shape) == 4 and inputs[0].dtype in _DTYPES:
        spec = inputs[0]
        if spec.shape[1] == 3 or (spec.shape[1] is None and spec.shape[3] != 3):
            return spec, "nchw"
        if spec.shape[3] == 3:
            return spec, "nhwc"
    seen = "; ".join(map(str, inputs))
    more = f", followed by {SIZES} [N, 2] of integers" if any(one.name == SIZES for one in inputs) else ""
    raise UsageProblem(
        f"A detector takes one image tensor [N, 3, H, W] or [N, H, W, 3] of {', '.join(_DTYPES)}{more}; this model "
        f"takes {seen}."
    )


def _are_sizes(inputs: Sequence[TensorSpec]) -> bool:
    return [(one.name, one.dtype in ("int64", "int32"), one.shape[1:]) for one in inputs] == [(SIZES, True, (2,))]


def _resolve_size(
    dims: Sequence[int | None], recorded: tuple[int, int] | None, asked: tuple[int, int] | None
) -> tuple[int, int]:
    if None not in dims and recorded is not None and tuple(dims) != recorded:
        raise UsageProblem(
            f"The model's input is {dims[0]}x{dims[1]} pixels, but its metadata says imgsz {list(recorded)}."
        )
    wanted = asked or recorded
    sides = [dim if dim is not None else (wanted and wanted[axis]) for axis, dim in enumerate(dims)]
    if asked is not None and tuple(sides) != tuple(asked):
        shown = "x".join("?" if dim is None else str(dim) for dim in dims)
        raise UsageProblem(
            f"The model takes images of {shown} pixels (height x width); --imgsz is {asked[0]}x{asked[1]}."
        )
    height, width = sides
    if not height or not width:
        raise UsageProblem("The model takes images of any size and its metadata has no imgsz; pass --imgsz.")
    return height, width
