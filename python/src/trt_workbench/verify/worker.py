"""The process in which suspicious engines are tried.

Whatever they do to it, or to its CUDA context, is an answer to who asked (`verify/isolation.py`). The reference of a
bench, its copies and their threads are not in the processes that are measured either.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.core.array_files import load_arrays, save_arrays
from trt_workbench.core.documents import json_values
from trt_workbench.core.settings import with_flags
from trt_workbench.engine.cache import engines_dir
from trt_workbench.engine.several_builds import KeepsBuilder
from trt_workbench.verify.engine import PlanRequest, verify_plan
from trt_workbench.verify.isolation import request_of
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import MODEL_SUFFIX
from trt_workbench.verify.workarounds import judged, milliseconds
from trt_workbench.verify.yardstick import Arrays, typed_for

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
        # remove the engine of a trial from the cache: hundreds of them would stay there, never asked for again
        if engine := session.loaded:
            plan = engine.plan.path
            if plan.is_relative_to(engines_dir()):
                shutil.rmtree(plan.parent, ignore_errors=True)


Answer = dict[str, Any]


def _noted(function: Callable[[dict[str, Any], Callable[[str], None]], Answer]) -> Callable[[dict[str, Any]], Answer]:
    """Return a function of a request that answers with the notes for the user, too."""

    def answer(request: dict[str, Any]) -> Answer:
        notes: list[str] = []

        def note(text: str) -> None:
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - into the worker's log: the answer may never come
            notes.append(text)

        return {**function(request, note), "notes": notes}

    return answer


def _verify(request: dict[str, Any], note: Callable[[str], None]) -> Answer:
    """Return the verdict that the manifest keeps from now on."""
    asked = PlanRequest(
        Path(request["plan"]), Path(request["model"]), needed=tuple(request["needed"]), device=request["device"]
    )
    return {"verification": json_values(verify_plan(asked, note))}


def _target(request: dict[str, Any], note: Callable[[str], None]) -> Answer:
    earlier = [*map(Path, request["earlier"])]
    found = verify(request_of(request["request"]), Path(request["folder"]), note, earlier=earlier)
    return {"found": TypeAdapter(Verified).dump_python(found, mode="json")}


def _trial(request: dict[str, Any], _: Callable[[str], None]) -> Answer:
    folder = Path(request["folder"])
    inputs = load_arrays(folder / "inputs.npz")
    given, found, provenance = run_part(
        request_of(request["request"]), Path(request["part"]), inputs, request["profile"]
    )
    save_arrays(folder / "given.npz", given)
    save_arrays(folder / "found.npz", found)
    return {"provenance": provenance}


def _way(request: dict[str, Any], note: Callable[[str], None]) -> Answer:
    return judged(request_of(request["request"]), note)


def _time(request: dict[str, Any], note: Callable[[str], None]) -> Answer:
    return {"milliseconds": milliseconds(request_of(request["request"]), note)}


class Verifier(KeepsBuilder):
    """Answers with the verdict on a plan or target, and with what `--bisect` and `--fix` ask for.

    A trial builds an engine, most a small one.
    """

    verify, target, trial, way, time = map(staticmethod, map(_noted, (_verify, _target, _trial, _way, _time)))
