"""The process that compiles for `check-target`: `python -m trt_workbench.verify.target_worker`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trt_workbench.engine.profiles import Profile
from trt_workbench.engine.rtx import compile_model
from trt_workbench.measure.serving import run_worker


class Compiler:
    """Answers `compile` with what came of it; keeps nothing."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request. Raises WorkbenchError as `compile_model`."""
        profiles = TypeAdapter(tuple[Profile, ...]).validate_python(request["profiles"])
        compiled = compile_model(Path(request["model"]), request["sm"], profiles)
        return {"compiled": compiled.model_dump(mode="json")}

    def close(self) -> None:
        """There is nothing to release."""


if __name__ == "__main__":
    run_worker(Compiler())
