"""Detectors of known preparation, as a DETR with boxes and logits apart, for tests of what is found out."""

from pathlib import Path

import numpy as np
import onnx
from tests.onnx_text import parse_onnx

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_ROWS = (  # corners, score and class; a logit of -20 is no score
    "rows_to_detr (float[N,K,6] rows) => (float[N,K,C] logits, float[N,K,4] pred_boxes) { "
    "first, last, score, label = Split <axis = 2> (rows, parts) "
    "low = Div(first, size) high = Div(last, size) sum = Add(low, high) centre = Mul(sum, half) "
    "sides = Sub(high, low) pred_boxes = Concat <axis = 2> (centre, sides) "
    "sure = Clip(score, least, most) rest = Sub(whole, sure) odds = Div(sure, rest) logit = Log(odds) "
    "mine = Equal(label, classes) logits = Where(mine, logit, none) }"
)


def as_detr(source: Path, target: Path, normalize: str, order: str, classes: int) -> Path:
    """Write a detector of rows [N, K, 6] so that it takes images prepared otherwise and gives boxes and logits.

    Args:
        source: the detector, of RGB from 0 to 1.
        target: where the other one is written.
        normalize: how its pixels are to be normalised; "itself" where it does that, per channel.
        order: of the channels that it is to be given.
        classes: how many it has.
    """
    model = onnx.load(source)
    image, rows = model.graph.input[0], model.graph.output[0]
    height, width = (one.dim_value for one in image.type.tensor_type.shape.dim[2:])
    step = -1 if order == "bgr" else 1
    back = {"imagenet": (MEAN[::step], STD[::step]), "0-255": ([0], [1 / 255]), "itself": ([0.45], [0.25])}
    mean, std = back.get(normalize, ([0], [1]))
    even = "InstanceNormalization(pixel_values, ones, zeros)" if normalize == "itself" else "Identity(pixel_values)"
    front = (
        f"front (float[N,3,{height},{width}] pixel_values) => (float[N,3,{height},{width}] prepared) {{ even = {even} "
        "spread = Mul(even, std) shifted = Add(spread, mean) prepared = Gather <axis = 1> (shifted, order) }"
    )
    before = {name: np.array(value, np.float32).reshape(-1, 1, 1) for name, value in (("std", std), ("mean", mean))}
    before |= {"ones": np.ones(3, np.float32), "zeros": np.zeros(3, np.float32)}
    before |= {"order": np.arange(3)[::step]}
    after = {"parts": np.array([2, 2, 1, 1]), "size": np.array([width, height], np.float32)}
    after |= {"half": np.float32(0.5), "whole": np.float32(1), "none": np.float32(-20)}
    after |= {"least": np.float32(1e-6), "most": np.float32(1 - 1e-6), "classes": np.arange(classes, dtype=np.float32)}
    opset = model.opset_import[0].version
    parts = [parse_onnx(front, before, opset), model, parse_onnx(_ROWS, after, opset)]
    for part in parts:
        part.ir_version = 9
    whole = onnx.compose.merge_models(parts[0], model, io_map=[("prepared", image.name)])
    made = onnx.compose.merge_models(whole, parts[2], io_map=[(rows.name, "rows")])
    del made.metadata_props[:]
    onnx.save(made, target)
    return target
