"""What a program hands to a loaded model: arrays and tensors of PyTorch of every kind."""

import random
import warnings
from pathlib import Path
from typing import Any


def hand_over(model: Path, seed: str) -> None:
    """Call a model with strange values a few times; only what the interface promises may be raised."""
    import numpy as np
    import torch

    import trt_workbench.api as tw

    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    plain = torch.ones(2, 3)
    f8 = torch.float8_e4m3fn
    kinds: list[Any] = [
        lambda one: one.requires_grad_(), lambda one: one.bfloat16(), lambda one: one.to_sparse(),
        lambda one: one.to_sparse_csr(), lambda one: one.to("meta"), lambda one: one.to(torch.complex64).conj(),
        lambda one: torch.quantize_per_tensor(one, 0.1, 0, torch.quint8), torch._neg_view, lambda one: one.t(),
        lambda one: torch.nested.nested_tensor([one, one]), lambda one: one[:0], lambda one: one.to(f8),
        lambda one: torch.nn.Parameter(one), lambda _: None, lambda _: object(), lambda _: "x",
        lambda _: [[1], [1, 2]], lambda one: one.numpy().astype(">f4"), lambda _: np.ma.masked_all((2, 3)),
        lambda _: np.float32(1), lambda _: np.broadcast_to(np.float32(1), (1 << 40, 3)), lambda _: {1: 2},
        lambda _: b"x", lambda one: one.double(),
    ]  # fmt: skip
    with tw.load(model, backend="ort-cpu") as loaded:
        for _ in range(8):
            inputs = {name: rng.choice(kinds)(plain.clone()) if rng.random() < 0.8 else plain for name in ("x", "y")}
            try:
                loaded.run(rng.choice([inputs, inputs, inputs, None, [inputs], {**inputs, "z": plain}]))
            except (tw.WorkbenchError, MemoryError):
                continue
    for wrong in rng.sample([None, 5, b"x", [], {}, object(), "absent.onnx", "a\0b"], 3):
        try:
            tw.load(wrong)
        except tw.WorkbenchError:
            continue
