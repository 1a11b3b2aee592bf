"""Running one part of a model on the suspect backend: what a worker does of a trial."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.core.settings import with_flags
from trt_workbench.engine.cache import engines_dir
from trt_workbench.verify.opening import MODEL_SUFFIX, VerifyRequest
from trt_workbench.verify.yardstick import typed_for

Arrays = Mapping[str, NDArray[Any]]
# Options that name the whole model's tensors and shapes.
_OF_WHOLE = frozenset({"profiles", "profile", "max_batch", "state", "io_types", "io_formats"})


def run_part(
    request: VerifyRequest, path: Path, inputs: Arrays, profile: str
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]], dict[str, Any]]:
    """Load a part of a model as its request asks for, and call it once.

    Args:
        request: of the whole model.
        path: of the part.
        inputs: of the part, in the types of the model.
        profile: ranges of its inputs; "" where its shapes are fixed.

    Returns:
        Inputs in the types of the backend, outputs, and what executed it.

    Raises:
        WorkbenchError: as the backend raises it; runtimes raise others too.
    """
    options = {name: value for name, value in request.options.items() if name not in _OF_WHOLE}
    backend = require_backend(request.backend, MODEL_SUFFIX)
    options = with_flags(options, backend.device_option(request.device))
    if backend.plans and profile:
        options["profiles"] = [profile]  # in place of those of a settings file
    session = backend.load(path, SessionOptions(precision=request.precision, extra=options))
    session.refuses_misfits = False
    try:
        given = typed_for(session, inputs)
        found = {name: np.array(array) for name, array in session.run(given).items()}
        return given, found, dict(session.provenance)
    finally:
        session.close()
        _forget(session)


def _forget(session: Session) -> None:
    """Remove the engine of a trial from the cache: hundreds of them would stay there, never asked for again."""
    if engine := session.loaded:
        plan = engine.plan.path
        if plan.is_relative_to(engines_dir()):
            shutil.rmtree(plan.parent, ignore_errors=True)
