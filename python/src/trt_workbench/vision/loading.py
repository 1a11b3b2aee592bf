"""How the model of an evaluation is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trt_workbench.backends.base import Backend, SessionOptions
from trt_workbench.core.environment import available_processors
from trt_workbench.core.settings import with_flags

if TYPE_CHECKING:
    from trt_workbench.vision.run import CocoRequest

_MOST_CONCURRENT = 16  # runs share the memory bandwidth
# One image a run is fastest on a processor, where images in flight at once use the cores better than batches do.
_DYNAMIC_BATCH_ON_CPU, _DYNAMIC_BATCH = 1, 8


def batch_size(request: CocoRequest, backend: Backend, fixed: int | None = None) -> int:
    """Return the images per inference of a model that takes `fixed` images, or any number."""
    return request.batch or fixed or (_DYNAMIC_BATCH_ON_CPU if backend.devices == ("cpu",) else _DYNAMIC_BATCH)


def session_options(request: CocoRequest, backend: Backend, on_note: Callable[[str], None] | None) -> SessionOptions:
    """Return how the model is loaded."""
    concurrency = request.concurrency
    if concurrency is None:
        # N runs of one thread each outrun one run of N threads: no layer waits for its slowest thread.
        processors = request.threads or available_processors()
        concurrency = min(_MOST_CONCURRENT, processors) if backend.devices == ("cpu",) else 1
    # which inputs it has is not known yet; the backend itself makes a profile of the largest batch
    extra = {"max_batch": batch_size(request, backend)} if backend.ranges and not request.shapes else {}
    return SessionOptions(
        threads=request.threads,
        concurrency=concurrency,
        precision=request.precision,
        polls=False,
        extra=with_flags({**extra, **request.options}, backend.url_option(request.url)),
        shapes=request.shapes,
        note=on_note,
    )
