"""Several builds in one process share TensorRT's builder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from trt_workbench.engine import native

_kept: list[dict[int, Any]] = []
"""By device, what keeps the builder; one entry for each block that runs, of which the outermost keeps it."""


@contextlib.contextmanager
def several_builds() -> Iterator[None]:
    """Keep TensorRT's builder from the first engine that is built in the block to the block's end.

    Where no builder is alive, making one loads its kernels again: 2.5 s on an A100 (PaddlePaddle/Paddle#48906), and
    TensorRT 8.6 gives none of their memory back, up to 1.4 GB each time (NVIDIA/TensorRT#3359). A process that builds
    one engine and then runs it has no use for this: the builder takes memory of the GPU, too.
    """
    _kept.append({})
    try:
        yield
    finally:
        for hold in _kept.pop().values():
            hold.close()


class KeepsBuilder:
    """What answers in a worker process and keeps TensorRT's builder between requests, until it is closed."""

    def __init__(self) -> None:
        """Keep the builder of the first engine that is built."""
        self._builds = contextlib.ExitStack()
        self._builds.enter_context(several_builds())

    def close(self) -> None:
        """Let go of the builder."""
        self._builds.close()


def keep_builder(device: int) -> None:
    """Keep the builder of a device where several engines are built; TensorRT has to be loaded.

    Raises:
        ComponentMissing: the native core was built without TensorRT's headers.
        UsageProblem: the device does not exist.
        DeviceFailure: no GPU can be used.
    """
    if _kept and device not in _kept[0]:
        with native.translated():
            _kept[0][device] = native.require("BuilderHold")(device)
